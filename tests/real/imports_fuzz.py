#!/usr/bin/env python3
"""Asks nginx and Apache with configurations that chance makes, and Tutti with what is imported, the same: `tests/real/imports_fuzz.py [--server NAME,…] [--seed NUMBER] [--count NUMBER] [--reduce]`.

A seed makes the same configurations each time. A request that the old server refuses and Tutti answers is a fault, whatever the import reports.
So is any other difference of status, `Location` or body, unless a loss is reported for the site. `--reduce` removes statements of a site as long as it
shows the fault, and prints those that are left.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).parent))

from imports import random_apache, random_nginx  # noqa: E402
from imports.replay import Request, ask, place  # noqa: E402
from imports.servers import Old  # noqa: E402
from imports.snippet_servers import SERVERS  # noqa: E402
from snippets_run import HTPASSWD, SnippetServer  # noqa: E402

MAKERS = {"nginx": random_nginx, "apache": random_apache}
FILES = ("index.html", "home.html", "a.txt", "b.html", "secret.txt", "dir/index.html", "dir/home.html", "dir/a.txt", "dir/b.html", "dir/sub/index.html", "dir/sub/c.txt",
         "open/index.html", "open/c.txt", "closed/index.html", "closed/d.txt", "noindex/e.txt")
# anna, with the password `secret`.
ANNA = ("Authorization", "Basic YW5uYTpzZWNyZXQ=")
# Sites that one process of the old server has.
BATCH = 24
CLOSED = range(400, 600)
# Answers that reveal nothing: an empty one, and Tutti's own page for an error or the importer's refusal, which `error_page` has given another status.
EMPTY = (204,)
REFUSAL = re.compile(rb"<!DOCTYPE html>\n<title>[45]\d\d |403 Forbidden\n\Z")


@dataclass
class Fault:
    kind: str
    request: Request
    text: str


def requests_of(maker, host):
    """The requests to a site."""
    made = []
    for path in maker.PATHS:
        made.append(Request("GET", path, host))
    for path in ("/", "/a.txt", "/secret.txt", "/dir/", "/dir/sub/c.txt", "/closed/", "/closed/d.txt", "/dir/b.html"):
        made += [Request("GET", path, host, (ANNA,)), Request("GET", path, host, (("X-Test", "1"),)), Request("HEAD", path, host)]
    for path in ("/a.txt", "/dir/", "/none"):
        made.append(Request("POST", path, host, (), b"x"))
    return made


class Bench:
    """The folder of all sites, and a Tutti that is configured for each batch."""

    def __init__(self, folder, dist):
        self.folder, self.dist = folder, dist
        self.tutti = SnippetServer(folder / "tutti", dist)
        self.tutti.launch()

    def stop(self):
        self.tutti.stop()

    def site_folder(self, kind, folder, name):
        # Files in folders belong to one site; servers of nginx can share.
        root = folder / ("site" if kind == "nginx" else name)
        if not root.exists():
            for file in FILES:
                path = root / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"file {file}\n")
        return root

    def run(self, kind, sites, only=None):
        """For each site: its faults, and whether a loss is reported for it. `only`: one request instead of all."""
        maker = MAKERS[kind]
        folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=self.folder))
        old = Old(folder)
        (folder / "logs").mkdir()
        (folder / "htpasswd").write_text(HTPASSWD)
        texts, roots = [], []
        for number, site in enumerate(sites):
            root = self.site_folder(kind, folder, f"files{number}")
            for path, statements in site.files.items():
                (root / path).write_text("\n".join(maker.text(statements)).replace("@CONF@", str(folder)) + "\n")
            roots.append(root)
            texts.append(f"# begin {number}\n{maker.server(site, host(number), root)}\n# end {number}")
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        (folder / "logs").chmod(0o777)
        text = "\n".join(texts)
        for name, value in {"PORT": old.port, "ROOT": folder / "site", "CONF": folder}.items():
            text = text.replace(f"@{name}@", str(value))
        asked = [[Request(only.method, only.target, host(number), only.fields, only.body)] if only else requests_of(maker, host(number)) for number in range(len(sites))]
        try:
            conf = SERVERS[kind].start(old, text)
            old.wait()
            before = [[ask(old.port, request) for request in requests] for requests in asked]
        finally:
            old.stop()
        findings = self.imported(kind, conf)
        after = [[answered(old.port, request) for request in requests] for requests in asked]
        lost = reported(findings, conf, roots, len(sites))
        shutil.rmtree(folder)
        return [([fault for one in zip(*answers) if (fault := judge(*one))], losses) for *answers, losses in zip(asked, before, after, lost)]

    def imported(self, kind, conf):
        """Puts the import of a configuration on Tutti; returns the findings."""
        done = subprocess.run([f"{self.dist}/bin/tutti", "import", kind, "--format", "json", str(conf)], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"the import ended with {done.returncode}: {done.stderr}")
        findings = json.loads(done.stderr)["findings"]
        rejected = [finding["problem"] for finding in findings if finding["directive"] == "import"]
        status, body = self.tutti.put("/config", json.loads(done.stdout))
        if rejected or status != 200:
            raise RuntimeError(f"the server rejects the result: {rejected or body}")
        return findings


def host(number):
    return f"site{number}.example"


def reported(findings, conf, roots, count):
    """The losses of each site: by the lines that it has in the file, or the folder that its files are in."""
    lines = conf.read_text().split("\n")
    bounds = [(lines.index(f"# begin {number}") + 1, lines.index(f"# end {number}") + 1) for number in range(count)]
    lost = [[] for _ in range(count)]
    for finding in findings:
        if finding["importance"] != "lost":
            continue
        for number, (begin, end) in enumerate(bounds):
            is_in_file = finding["file"] == str(conf) and begin < finding["line"] < end
            if is_in_file or finding["file"].startswith(f"{roots[number]}/"):
                lost[number].append(f"{finding['directive']}: {finding['problem']}")
    return lost


def answered(port, request):
    """Tutti's answer, and whether it is a refusal: the page of one may have another status, and that of HEAD has no body."""
    answer = ask(port, request)
    page = ask(port, replace(request, method="GET")) if request.method == "HEAD" else answer
    answer.is_refusal = answer.status in CLOSED or REFUSAL.match(page.body) is not None
    return answer


def judge(request, old, new):
    """The fault of two answers, or None."""
    differs = []
    # Other tests look at the way in which a request is refused.
    if old.status in CLOSED and new.is_refusal:
        return None
    if old.status != new.status:
        differs.append(f"status {old.status} → {new.status}")
    if place(request, old.location) != place(request, new.location):
        differs.append(f"location {old.location!r} → {new.location!r}")
    is_file = any(body.startswith(b"file ") for body in (old.body, new.body))
    if is_file and old.body != new.body:
        differs.append(f"body {old.body[:60]!r} → {new.body[:60]!r}")
    if not differs or is_allowed(request, old, new):
        return None
    is_answered = new.status in range(200, 300) and new.status not in EMPTY and not new.is_refusal
    return Fault("EXPOSED" if is_answered and old.status in CLOSED else "DIFFERENT", request, ", ".join(differs))


def is_allowed(request, old, new):
    """True for a file that cannot be posted to: Apache serves it; for a folder without its slash: Apache redirects before it looks at rules; and for
    a path that continues the name of a location: the importer notes that it is none of the `alias`, which would lead out of the folder, so that a page for that may answer."""
    is_folder = old.status == 301 and old.location.endswith(f"{request.target}/")
    continues = request.target == "/ala.txt" and (new.status == 404 or old.status == new.status == 200)
    return is_folder or continues or request.method == "POST" and new.status in CLOSED


def reduced(bench, kind, site, fault):
    """The site with as few statements as show the fault."""
    request = fault.request
    while True:
        smaller = site.smaller()
        for begin in range(0, len(smaller), BATCH):
            batch = smaller[begin:begin + BATCH]
            found = next((one for one in still_at_fault(bench, kind, batch, fault, request)), None)
            if found:
                site = found
                break
        else:
            return site


def still_at_fault(bench, kind, batch, fault, request):
    """The sites of a batch that show the fault; one that the old server refuses is left out."""
    try:
        results = bench.run(kind, batch, request)
    except RuntimeError:
        if len(batch) == 1:
            return
        for one in batch:
            yield from still_at_fault(bench, kind, [one], fault, request)
        return
    for site, (faults, lost) in zip(batch, results):
        if any(one.kind == fault.kind for one in faults) and (fault.kind == "EXPOSED" or not lost):
            yield site


def show(kind, site):
    maker = MAKERS[kind]
    parts = [*maker.text(site.statements)]
    for path, statements in site.files.items():
        parts += [f"+++ {path}", *maker.text(statements)]
    return "\n".join(f"    {line}" for line in parts)


def tell(bench, kind, name, site, faults, lost, options):
    """Prints the faults of a site."""
    print(f"--- {kind} {name}")
    for fault in faults[:6]:
        print(f"    {fault.kind} {fault.request}: {fault.text}")
    if len(faults) > 6:
        print(f"    and {len(faults) - 6} more")
    for loss in lost[:3]:
        print(f"    (lost: {loss})")
    if options.reduce:
        worst = next((fault for fault in faults if fault.kind == "EXPOSED"), faults[0])
        site = reduced(bench, kind, site, worst)
        print(f"    as few statements as show {worst.kind} {worst.request}: {worst.text}")
    if options.reduce or options.show:
        print(show(kind, site))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", default=str(ROOT / "dist"))
    parser.add_argument("--server", default=",".join(MAKERS), help="servers, separated by commas")
    parser.add_argument("--seed", default="1", help="chance begins here")
    parser.add_argument("--count", type=int, default=48, help="sites of each server")
    parser.add_argument("--only", type=int, help="the number of one site")
    parser.add_argument("--reduce", action="store_true", help="find the statements that show a fault")
    parser.add_argument("--show", action="store_true", help="print the sites with faults")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tutti-fuzz-"))
    folder.chmod(0o755)
    counts, failed = Counter(), 0
    bench = Bench(folder, options.dist)
    try:
        for kind in options.server.split(","):
            numbers = range(options.count) if options.only is None else [options.only]
            sites = [(number, MAKERS[kind].make(f"{kind} {options.seed} {number}")) for number in numbers]
            for begin in range(0, len(sites), BATCH):
                batch = sites[begin:begin + BATCH]
                for (number, site), (faults, lost) in zip(batch, bench.run(kind, [site for _, site in batch])):
                    counts["sites"] += 1
                    asked = len(requests_of(MAKERS[kind], ""))
                    counts["requests"] += asked
                    counts["alike"] += asked - len(faults)
                    counts["with a reported loss"] += bool(lost)
                    shown = [fault for fault in faults if fault.kind == "EXPOSED" or not lost]
                    counts.update(fault.kind for fault in shown)
                    counts["differ as reported"] += len(faults) - len(shown)
                    if shown:
                        failed += 1
                        tell(bench, kind, f"--seed {options.seed} --only {number}", site, shown, lost, options)
    finally:
        bench.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{counts['sites'] - failed} sites are alike, {failed} are not: {dict(counts)}")
    sys.exit(1 if failed or not counts["sites"] else 0)


if __name__ == "__main__":
    main()
