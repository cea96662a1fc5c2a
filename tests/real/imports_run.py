#!/usr/bin/env python3
"""Replays requests against an old server and against Tutti with its imported configuration: `tests/real/imports_run.py [--only NAME,…]`.

Each configuration is put on the server that it was written for, imported with `tutti import`, and put on Tutti; both are asked the same
two hundred requests and more. `tutti import --try` asks the same, and must find no difference that this has not found. Status, body, `Location`, `Content-Type` and the fields that the site sets must be the same; what may
differ is a list with a reason for each, and what differs otherwise is a fault.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).parent))

from each import Fault, run_each  # noqa: E402
from imports.apache import DebianDefault, DjangoOnApache, DokuWikiPackage, Laravel, PhpMyAdminPackage, ReverseProxyApache, Symfony, WordPressRules  # noqa: E402
from imports.caddy import CaddySite  # noqa: E402
from imports.further_apache import FURTHER_APACHE  # noqa: E402
from imports.further_nginx import FURTHER_NGINX  # noqa: E402
from imports.more_nginx import MORE_NGINX  # noqa: E402
from imports.nginx import Drupal, FrontController, Guarded, Nextcloud, ReverseProxy, Static, WordPressPackage  # noqa: E402
from imports.programs import DjangoOnUwsgi, Gunicorn, Puma  # noqa: E402
from imports.public_apache import PUBLIC_APACHE  # noqa: E402
from imports.public_nginx import PUBLIC_NGINX  # noqa: E402
from imports.replay import Comparison  # noqa: E402
from imports import trial  # noqa: E402
from imports.servers import IS_ROOT, Imported  # noqa: E402

SITES = (WordPressPackage, Nextcloud, Drupal, FrontController, Static, ReverseProxy, Guarded)
SITES += (DjangoOnUwsgi, Gunicorn, Puma, CaddySite)
SITES += (DebianDefault, DokuWikiPackage, PhpMyAdminPackage, WordPressRules, Laravel, Symfony, DjangoOnApache, ReverseProxyApache)
SITES += (*PUBLIC_NGINX, *MORE_NGINX, *FURTHER_NGINX, *PUBLIC_APACHE, *FURTHER_APACHE)

# Requests that each configuration is asked at least.
LEAST = 200


def replay(site_class, options, folder):
    """Returns the comparison; raises what went wrong before it."""
    folder.mkdir()
    folder.chmod(0o755)
    site = site_class(folder)
    new = None
    try:
        files = site.start_old()
        new = Imported(folder / "tutti", options.dist, site.kind, files, site.old.port, site.lost, site.more, site.adjust)
        new.start()
        comparison = Comparison((site.old.port, new.port), site.allowed, site.scrub, site.fields)
        requests = list(site.requests())
        for request in requests:
            comparison.compare(request)
        # The command has none of the changes that the test makes to the result.
        if not site.adjust:
            result, asked = trial.tried(options.dist, site, files, requests, folder, IS_ROOT)
            comparison.faults += trial.surprises(result, comparison, site.old.port)
            comparison.tried = f"--try: {result['asked']} of {asked} requests, {result['differing']} differ, {result['varying']} parts vary"
        if options.keep:
            print(f"old http://127.0.0.1:{site.old.port}/ new http://127.0.0.1:{new.port}/ in {folder} (Enter ends it)", flush=True)
            sys.stdin.readline()
        return comparison
    except BaseException:
        if hasattr(site, "old"):
            print(f"--- the old server:\n{site.old.log()}", file=sys.stderr)
        if new:
            print(f"--- Tutti's log:\n{new.log_tail()}", file=sys.stderr)
        raise
    finally:
        if new:
            new.stop()
        if hasattr(site, "old"):
            site.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", default=str(ROOT / "dist"))
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--keep", action="store_true", help="leave the servers up until Enter is pressed")
    options = parser.parse_args()
    wanted = {name for name in options.only.split(",") if name}
    run_each(SITES, wanted, lambda site: f"import {site.name}", lambda site, folder: judged(replay(site, options, folder)))


def judged(comparison):
    """The result of a comparison."""
    statuses = ", ".join(f"{count} × {status}" for status, count in sorted(comparison.statuses.items()))
    said = f"{comparison.asked} requests ({statuses})"
    if comparison.faults or comparison.asked < LEAST:
        raise Fault("\n".join([*comparison.faults[:25], f"{len(comparison.faults)} answers differ, {said}"]))
    if comparison.tried:
        said += f"\n    {comparison.tried}"
    return "\n".join([said, *(f"    {count} × {reason}" for reason, count in comparison.used.items())])


if __name__ == "__main__":
    main()
