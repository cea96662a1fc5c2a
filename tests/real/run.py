#!/usr/bin/env python3
"""Real applications on a real server, used like a person: `tests/real/run.py [--server tutti|nginx] [--only NAME,…]`.

Each site is prepared from Debian's package, or PyPI's, in a temporary folder, put on the server, and walked through: log in, edit,
upload a picture, search; every answer is checked. `--server nginx` checks the walk itself. `--serve NAME` stays up after
the walk until Enter is pressed, for a look with a browser.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).parent))

from browser import Browser  # noqa: E402
from each import run_each  # noqa: E402
from servers import RealNginx, RealTutti  # noqa: E402
from sites.cgi import AwStats, GitWeb  # noqa: E402
from sites.chat import Chat  # noqa: E402
from sites.django import Django, DjangoAsgi  # noqa: E402
from sites.dokuwiki import DokuWiki  # noqa: E402
from sites.fastapi import FastApi  # noqa: E402
from sites.flask import Flask  # noqa: E402
from sites.java import SpringJar, SpringWar, TomcatExamples  # noqa: E402
from sites.java_wars import JspWiki, Solr, Wicket  # noqa: E402
from sites.laravel import Laravel, LaravelResident  # noqa: E402
from sites.mediawiki import MediaWiki  # noqa: E402
from sites.node import Nest, Next, NextStandalone, Nuxt  # noqa: E402
from sites.perl import Catalyst, Dancer2, Mojolicious, Xslate  # noqa: E402
from sites.redmine import Redmine  # noqa: E402
from sites.resident import Lumen, LumenDocumented, LumenFront, SlimKept, SlimResident, Symfony, SymfonyRuntime  # noqa: E402
from sites.ruby import Grape, Rails, Sinatra  # noqa: E402
from sites.slim import Slim  # noqa: E402
from sites.wordpress import WordPress  # noqa: E402
from sites.wordpress_cached import WordPressCached  # noqa: E402

SITES = (DokuWiki, MediaWiki, WordPress, WordPressCached, Slim, SlimResident, SlimKept, Lumen, LumenDocumented, LumenFront, Symfony, SymfonyRuntime)
SITES += (Laravel, LaravelResident)
SITES += (Xslate, Dancer2, Mojolicious, Catalyst)
SITES += (GitWeb, AwStats)
SITES += (Sinatra, Grape, Rails, Redmine)
SITES += (Nest, Next, NextStandalone, Nuxt)
SITES += (SpringWar, SpringJar, TomcatExamples, JspWiki, Solr, Wicket)
SITES += (Flask, Django, DjangoAsgi, FastApi, Chat)


def walk(site_class, options, folder):
    """Prepares one site, serves it and walks through it; raises what went wrong."""
    site = site_class(folder)
    server = None
    try:
        folder.mkdir()
        folder.chmod(0o755)
        site.prepare()
        server = RealNginx(folder / "server", site) if options.server == "nginx" else RealTutti(folder / "server", site, options.dist)
        server.start()
        site.after_start(server)
        person = Browser("127.0.0.1", server.port)
        page = site.journey(person, site.root)
        if options.serve:
            print(f"{site.name}: http://127.0.0.1:{server.port}{page}  (Enter ends it)", flush=True)
            sys.stdin.readline()
        return person.requests
    except BaseException:
        if server:
            print(f"--- {server.name}'s log:\n{server.log_tail()}", file=sys.stderr)
        raise
    finally:
        if server:
            server.stop()
        site.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=("tutti", "nginx"), default="tutti")
    parser.add_argument("--dist", default=str(ROOT / "dist"))
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--long", action="store_true", help="also those that take minutes to build")
    parser.add_argument("--serve", default="", help="walk through this one, then leave it up")
    options = parser.parse_args()
    wanted = {name for name in f"{options.only},{options.serve}".split(",") if name}
    sites = [site for site in SITES if options.server == "tutti" or not getattr(site, "only_tutti", False)]
    sites = [site for site in sites if options.long or site.name in wanted or not getattr(site, "is_long", False)]
    missing = {site: getattr(site, "missing", lambda: None)() for site in sites}
    for site in filter(missing.get, sites):
        print(f"real site {site.name} on {options.server}: skipped, {missing[site]}", flush=True)
    sites = [site for site in sites if not missing[site]]
    run_each(sites, wanted, lambda site: f"real site {site.name} on {options.server}", lambda site, folder: f"{walk(site, options, folder)} requests")


if __name__ == "__main__":
    main()
