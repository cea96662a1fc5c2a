#!/usr/bin/env python3
"""The links of the documents' site, as it is built: `tests/site.py dist/site`, which `make site` runs.

Every file that a page leads to or shows is there, and every place in a page that a link names. Addresses elsewhere are not asked for.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# mdBook's page for addresses that are not there: it is shown at any address, so its links begin at the site's root.
ELSEWHERE = {"404.html"}


class Page(HTMLParser):
    """A page: its links, and the places in it that links may name."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value and tag != "base":
                self.links.append((self.getpos()[0], value))
            elif name == "id" or (name == "name" and tag == "a"):
                self.places.add(value)


def faults(site):
    """A line for each link that leads nowhere, and how many links there are."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if path.name not in ELSEWHERE}
    found, count = [], 0
    for path, page in pages.items():
        for line, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            if not target.exists() or site not in target.parents:
                found.append(f"{path.relative_to(site)}:{line}: `{link}` leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                found.append(f"{path.relative_to(site)}:{line}: `{link}`: that page has no such place")
    return found, count, len(pages)


def main():
    site = Path(sys.argv[1]).resolve()
    found, count, pages = faults(site)
    for fault in found:
        print(f"site: {fault}", file=sys.stderr)
    if not pages or found:
        print(f"site: {len(found)} of {count} links on {pages} pages lead nowhere", file=sys.stderr)
        return 1
    print(f"site: {count} links on {pages} pages lead somewhere")
    return 0


if __name__ == "__main__":
    sys.exit(main())
