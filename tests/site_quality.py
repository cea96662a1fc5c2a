#!/usr/bin/env python3
"""Lighthouse on the documents' site, as Tutti serves it: `tests/site_quality.py TUTTI SITE`, which `make lint-site` runs.

The front page, a guide and the pages of the reference have at least 95 points in each category, on the slow phone that Lighthouse imitates.
A machine that does other work meanwhile makes scripts look slow: each page has the best of three runs.
Lighthouse comes from npm, once, into `.work/tools`; Chromium is Debian's. Without root, Chromium keeps its sandbox.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "bench"))

from harness.servers import free_port  # noqa: E402

VERSION = "12.8.2"
PAGES = ["index.html", "docs/start/first-site.html", "docs/reference/index.html", "docs/reference/options.html"]
LEAST, RUNS = 95, 3


def lighthouse():
    """The program, installed if it is not there."""
    folder = ROOT / ".work/tools/lighthouse"
    program = folder / "node_modules/.bin/lighthouse"
    installed = folder / "node_modules/lighthouse/package.json"
    if not installed.exists() or json.loads(installed.read_text(encoding="utf-8"))["version"] != VERSION:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["npm", "install", "--prefix", folder, "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error", f"lighthouse@{VERSION}"],
            check=True,
        )
    return program


def measure(program, address, folder):
    """The points of one page by category, and what costs some."""
    report = folder / "report.json"
    flags = "--headless=new" + (" --no-sandbox" if os.geteuid() == 0 else "")
    subprocess.run(
        [program, address, "--quiet", "--output=json", f"--output-path={report}", f"--chrome-flags={flags}"],
        check=True, timeout=300, env={**os.environ, "HOME": str(folder)},
    )
    found = json.loads(report.read_text(encoding="utf-8"))
    if "runtimeError" in found:
        sys.exit(f"site: {address}: {found['runtimeError']['message']}")
    points = {name: round(category["score"] * 100) for name, category in found["categories"].items()}
    costs = []
    for name, category in found["categories"].items():
        for part in category["auditRefs"]:
            audit = found["audits"][part["id"]]
            if part["weight"] and audit["score"] is not None and audit["score"] < 1:
                costs.append(f"{name}: {audit['title']} {audit.get('displayValue', '')}".rstrip())
    return points, costs


def wait_for(server, port):
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.05)
    sys.exit("site: the server has ended before it listened")


def main():
    tutti, site = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    version = json.loads((site / "versions.json").read_text(encoding="utf-8"))[0]
    program = lighthouse()
    failed = False
    with tempfile.TemporaryDirectory() as work:
        work, port = Path(work), free_port()
        work.chmod(0o755)
        # By its other name the program is the server.
        command = ["tuttid", "--no-daemon", "--config", ROOT / "packaging/site/site.json", "--log", work / "log"]
        places = ["--statedir", work / "state", "--control", f"unix:{work}/control.sock", "--pid", work / "pid"]
        environment = {**os.environ, "SITE": str(site), "LISTEN": f"127.0.0.1:{port}"}
        server = subprocess.Popen([*command, *places], executable=tutti, env=environment)
        try:
            wait_for(server, port)
            for page in PAGES:
                best, costs = {}, []
                for _ in range(RUNS):
                    points, costs = measure(program, f"http://127.0.0.1:{port}/{version}/{page}", work)
                    best = {name: max(best.get(name, 0), score) for name, score in points.items()}
                    if min(best.values()) >= LEAST:
                        break
                print(f"site: {page}: " + ", ".join(f"{name} {score}" for name, score in best.items()), flush=True)
                if min(best.values()) < LEAST:
                    failed = True
                    for cost in costs:
                        print(f"  {cost}", file=sys.stderr)
        finally:
            server.terminate()
            server.wait()
    return failed


if __name__ == "__main__":
    sys.exit(main())
