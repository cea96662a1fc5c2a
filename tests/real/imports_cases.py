#!/usr/bin/env python3
"""Small configurations of nginx, each with requests, on nginx and on Tutti: `tests/real/imports_cases.py [--only NAME,…]`.

A file of `imports/cases` has cases, each begins with `=== NAME` and has, after `---`, a request on each line: `METHOD TARGET`, then
fields, `NAME: VALUE`, with ` | ` before each; `body=TEXT` is a body. The configuration is what stands in `http`; `PORT`, `PORT1` and
`PORT2` are ports, `ROOT` is the folder with files. A line `-- lost` says that the import reports a loss, so that answers may differ; with
`-- differs: REASON` they do, and nothing need be reported.
The expectation is what the installed nginx answers. Status, body, type and the fields of the answer must be the same, and the import
must say that it is whole; what differs and is not reported is a fault.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(ROOT / "bench"))

from harness.processes import Process, wait_until  # noqa: E402
from harness.servers import Tutti, free_port, takes_connections  # noqa: E402
from imports.replay import Request, ask, kind, place  # noqa: E402

PORTS = ("PORT2", "PORT1", "PORT")
FIELDS = ("cache-control", "content-encoding", "set-cookie", "refresh", "content-disposition", "accept-ranges", "content-range")
FILES = {
    "index.html": "the index\n", "a.txt": "text a\n", "style.css": "body {}\n", "app.js": "var a;\n", "data.json": "{}\n", "noending": "plain\n", "x.unknown": "unknown\n",
    "dir/index.html": "index of dir\n", "dir/b.txt": "text b\n", "empty/sub/c.txt": "c\n", "images/1.gif": "GIF89a", "images/2.jpg": "jpg", "404.html": "not found here\n",
    "50x.html": "an error\n", "one/file.html": "one\n", "two/file.html": "two\n", "big.txt": "0123456789\n" * 500, "maintenance.txt": "m\n", "path with space.txt": "space\n",
    "pre.txt": "plain pre\n", "fallback.html": "the fallback\n", "en/home.html": "hello\n", "de/home.html": "hallo\n",
}
# anna: `secret`, by bcrypt and by MD5.
PASSWORDS = {"passwords": "anna:$2y$05$HbbFBrB1dQ9yMPSyB1hTYO7DTsxLDDPa4jVLPvGzMbVBVqBxRVeHq\n", "apr1": "anna:$apr1$dHjB0/..$mkTTbqwpK/0h/rz4ZeN8M0\n"}


@dataclass
class Case:
    name: str
    configuration: str
    is_lost: bool = False
    reason: str = ""
    requests: list = field(default_factory=list)


def cases(path):
    """The cases of a file."""
    found = []
    for text in re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)[1:]:
        name, rest = text.split("\n", 1)
        configuration, _, requests = rest.partition("\n---\n")
        marks = re.findall(r"^-- (.*)$", configuration, flags=re.MULTILINE)
        reason = next((mark.removeprefix("differs: ") for mark in marks if mark.startswith("differs: ")), "")
        case = Case(f"{path.stem}/{name.strip()}", re.sub(r"^-- .*$", "", configuration, flags=re.MULTILINE), "lost" in marks, reason)
        for line in filter(str.strip, requests.splitlines()):
            first, *fields = line.split(" | ")
            method, target, *_ = first.split(" ")
            pairs = [tuple(one.split(": ", 1)) for one in fields if not one.startswith("body=")]
            body = next((one[5:] for one in fields if one.startswith("body=")), "")
            host = next((value for name, value in pairs if name == "Host"), "site.example")
            rest = tuple(pair for pair in pairs if pair[0] not in ("Host", "Port"))
            port = next((value for name, value in pairs if name == "Port"), "PORT")
            case.requests.append((port, Request(method, target, host, rest, body.encode())))
        found.append(case)
    return found


class Pair:
    """nginx, started for each case, and one Tutti that is configured for each."""

    def __init__(self, folder, dist):
        self.folder, self.dist = folder, dist
        self.site = folder / "site"
        for name, text in FILES.items():
            path = self.site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.site / "private").mkdir()
        for name, text in PASSWORDS.items():
            (folder / name).write_text(text)
        self.old_ports = {name: free_port() for name in PORTS}
        self.new_ports = {name: free_port() for name in PORTS}
        self.new = OneTutti(folder / "tutti", self.site, 1)
        self.new.dist = dist
        self.new.start()

    def stop(self):
        self.new.stop()

    def text(self, configuration):
        for name, port in self.old_ports.items():
            configuration = re.sub(rf"\b{name}\b", str(port), configuration)
        return re.sub(r"\bPASSWORDS\b", str(self.folder), re.sub(r"\bROOT\b", str(self.site), configuration))

    def run(self, case):
        """(what differs, findings that are lost, the imported configuration)."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        folder.chmod(0o755)
        main = folder / "nginx.conf"
        text = self.text(case.configuration)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o777)
        temporary = "".join(f"{name}_temp_path {folder}/tmp/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = "user nobody nogroup;" if os.geteuid() == 0 else ""
        start = f"{user} worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log;\nevents {{ worker_connections 64; }}\n"
        main.write_text(f"{start}http {{ {temporary} access_log off;\n{text}\n}}\n")
        # The importer sees the same without the folders of the test.
        imported = folder / "imported.conf"
        imported.write_text(f"{start}http {{\n{text}\n}}\n")
        done = subprocess.run([f"{self.dist}/bin/tutti-import", "nginx", str(imported)], capture_output=True, text=True, check=False)
        lost = [line for line in done.stderr.splitlines() if "not carried over:" in line or "error:" in line]
        if done.returncode == 2 or not done.stdout.strip():
            return ["no output"], [done.stderr], None
        text = done.stdout
        for name, port in self.old_ports.items():
            text = re.sub(rf"\b{port}\b", str(self.new_ports[name]), text)
        configuration = json.loads(text)
        status, body = self.new.put("/config", configuration)
        if status != 200:
            return [f"refused: {body[:600]}"], lost, configuration
        process = Process(["nginx", "-p", str(folder), "-c", str(main), "-e", str(folder / "error.log")], folder / "output.log")
        try:
            def answers():
                if not process.is_alive():
                    raise RuntimeError((folder / "output.log").read_text() + (folder / "error.log").read_text())
                return takes_connections("127.0.0.1", self.old_ports["PORT"])
            wait_until(answers, 10, f"nginx for {case.name}")
            differing = []
            for port, request in case.requests:
                old, new = ask(self.old_ports[port], request), ask(self.new_ports[port], request)
                differing += self.compare(request, old, new)
            return differing, lost, configuration
        finally:
            process.stop()
            shutil.rmtree(folder, ignore_errors=True)

    def as_old(self, text):
        for name, port in self.new_ports.items():
            text = text.replace(str(port), str(self.old_ports[name]))
        return text

    def compare(self, request, old, new):
        found = []
        if old.status != new.status:
            found.append(f"status {old.status} → {new.status}")
        if place(request, old.location) != place(request, self.as_old(new.location)):
            found.append(f"Location {old.location!r} → {new.location!r}")
        # Pages of a server's own, or none where the other one has a page.
        own_page = b"<center>nginx" in old.body or old.status >= 400 and not old.body
        if not own_page:
            if old.body != self.as_old(new.body.decode("latin-1")).encode("latin-1"):
                found.append(f"body {old.body[:200]!r} → {new.body[:200]!r}")
            elif old.body and kind(old.content_type) != kind(new.content_type):
                found.append(f"type {old.content_type!r} → {new.content_type!r}")
        for name in sorted({*FIELDS, *(name for name in (*old.fields, *new.fields) if name.startswith("x-"))}):
            if (own_page or request.method == "HEAD") and name in ("accept-ranges", "content-encoding"):
                continue
            if old.fields.get(name) != new.fields.get(name) and name != "accept-ranges":
                found.append(f"{name} {old.fields.get(name)!r} → {new.fields.get(name)!r}")
        return [f"{request}: {', '.join(found)}"] if found else []


class OneTutti(Tutti):
    def launch(self):
        super().launch()

    def configuration(self):
        return {"listeners": {f"127.0.0.1:{self.port}": {"pass": "routes"}}, "routes": [{"action": {"return": 200}}]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", default=str(ROOT / "dist"))
    parser.add_argument("--only", default="", help="beginnings of names, separated by commas")
    parser.add_argument("--show", action="store_true", help="print the configuration of cases that differ")
    options = parser.parse_args()
    wanted = tuple(name for name in options.only.split(",") if name)
    folder = Path(tempfile.mkdtemp(prefix="tutti-cases-"))
    folder.chmod(0o755)
    results = Counter()
    pair = Pair(folder, options.dist)
    try:
        for path in sorted((Path(__file__).parent / "imports/cases").glob("*.cases")):
            for case in cases(path):
                if wanted and not case.name.startswith(wanted):
                    continue
                try:
                    differing, lost, configuration = pair.run(case)
                except RuntimeError as error:
                    differing, lost, configuration = [f"nginx: {error}"], [], None
                if case.reason and differing and not lost:
                    results["different, with a reason"] += 1
                    continue
                if case.is_lost and lost:
                    results["lost, as expected"] += 1
                    continue
                if not differing and not lost and not case.is_lost and not case.reason:
                    results["same"] += 1
                    continue
                what = "reported" if lost else "SILENT" if differing else "BETTER THAN EXPECTED"
                results[what] += 1
                print("\n    ".join([f"{case.name}: {what}", *differing, *lost]), flush=True)
                if options.show and configuration:
                    print(json.dumps(configuration, indent=1, ensure_ascii=False))
    finally:
        pair.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(results.items())))
    bad = results["SILENT"] + results["reported"] + results["BETTER THAN EXPECTED"]
    sys.exit(1 if bad or not results["same"] else 0)


if __name__ == "__main__":
    main()
