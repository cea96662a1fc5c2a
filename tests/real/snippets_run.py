#!/usr/bin/env python3
"""Asks nginx, Apache or Caddy, and Tutti with the imported configuration the same: `tests/real/snippets_run.py [--server NAME,…] [--dist DIR] [--only AREA[/NAME],…] [--all]`.

`imports/snippets.py` describes the snippets. A difference that neither the snippet nor the importer reports is a fault.
"""

import argparse
import collections
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).parent))

from imports.replay import ask, connection_for  # noqa: E402
from imports.servers import Old, Tutti, free_port, wait_until  # noqa: E402
from imports.snippet_servers import SERVERS  # noqa: E402
from imports.snippets import differences, exposes, parse  # noqa: E402

FOLDER = Path(__file__).parent / "imports"
FILES = {
    "index.html": "home\n", "page.html": "<p>page</p>\n", "a.txt": "text a\n", "b.txt": "text b\n", "style.css": "p { color: red }\n",
    "app.js": "let a = 1;\n", "data.json": "{}\n", "unknown.xyz": "unknown\n", "noending": "no ending\n", "404.html": "page for 404\n",
    "50x.html": "page for 50x\n", "403.html": "page for 403\n", "sub/index.html": "sub home\n", "sub/file.txt": "sub file\n",
    "sub/deep/index.html": "deep home\n", "sub/deep/x.txt": "deep x\n", "list/one.txt": "1\n", "list/two.txt": "22\n", "img/a.png": "\x89PNG",
    "img/b.jpg": "jpg", "docs/x.md": "# x\n", ".hidden": "hidden\n", ".git/config": "secret\n", "index.php": "<?php secret();\n",
    "wp/index.php": "<?php wp();\n", "space name.txt": "space\n", "large.txt": "0123456789abcdef\n" * 500, "large.html": "<p>0123456789</p>\n" * 500,
    "home.htm": "home htm\n", "other/home.htm": "other home\n", "maintenance.html": "maintenance\n", "alt/a.txt": "alternative a\n",
    "alt/index.html": "alternative home\n", "vhosts/one.example/index.html": "one\n", "vhosts/two.example/index.html": "two\n",
    "private/secret.txt": "private secret\n", "downloads/file.bin": "binary\n", "cached/x.html": "cached x\n", "sub.html": "sub as html\n",
}


class SnippetServer(Tutti):
    """One Tutti for all snippets."""

    def __init__(self, folder, dist):
        self.dist = dist
        super().__init__(folder, folder, 2)

    def configuration(self):
        return {}



class Bench:
    """The servers behind, the files, and Tutti."""

    def __init__(self, folder, dist):
        self.folder, self.dist = folder, dist
        self.root = folder / "site"
        for name, text in FILES.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for path in [self.root, *self.root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.behind = Old(folder)
        self.backend, self.fcgi, self.dead = self.behind.port, free_port(), free_port()
        self.behind.run([sys.executable, FOLDER / "backend.py", self.backend], "backend.log")
        self.behind.run([sys.executable, FOLDER / "fcgi.py", self.fcgi], "fcgi.log")
        self.behind.wait()
        self.certificates = certificates(folder / "certificates")
        self.tutti = SnippetServer(folder / "tutti", dist)
        self.tutti.launch()

    def stop(self):
        self.tutti.stop()
        self.behind.stop()

    def filled(self, snippet, port, folder):
        """The configuration and the files of the site that a snippet has, with its names replaced."""
        server = SERVERS[snippet.server]
        text = snippet.text if snippet.is_whole() else server.around(snippet.text)
        names = {"PORT": port, "PORT2": free_port(), "ROOT": self.root, "BACKEND": f"127.0.0.1:{self.backend}", "DEAD": f"127.0.0.1:{self.dead}",
                 "FCGI": f"127.0.0.1:{self.fcgi}", "TMP": folder / "logs", "CONF": folder}

        def replaced(text):
            for name, value in names.items():
                text = text.replace(f"@{name}@", str(value))
            return text
        return replaced(text), {name: replaced(content) for name, content in snippet.files.items()}

    def run(self, snippet):
        """(old answers, new answers, findings, refusal or None, logs of both)."""
        folder = Path(tempfile.mkdtemp(prefix="snippet-", dir=self.folder))
        folder.chmod(0o755)
        logs = folder / "logs"
        logs.mkdir()
        logs.chmod(0o777)
        for name, text in {"htpasswd": HTPASSWD, "hashes": HASHES, "groups": "staff: anna\n"}.items():
            (folder / name).write_text(text)
        for path in self.certificates.iterdir():
            shutil.copy(path, folder)
        old = Old(folder)
        text, files = self.filled(snippet, old.port, folder)
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            path.parent.chmod(0o755)
            if content.startswith("#!"):
                path.chmod(0o755)
        try:
            return self.compare(snippet, old, text)
        finally:
            for name in files:
                (self.root / name).unlink()

    def compare(self, snippet, old, text):
        logs = old.folder / "logs"
        requests = [replace(request, tls=request.tls.replace("@CONF@", str(old.folder))) for request, _ in snippet.requests]
        conf = SERVERS[snippet.server].start(old, text)
        try:
            old.wait()
            before = [ask(old.port, request) for request in requests]
        finally:
            old.stop()
        log_before = logged(logs)
        for path in filter(Path.is_file, logs.iterdir()):
            # The other server must make its own.
            path.unlink()
        done = subprocess.run([f"{self.dist}/bin/tutti", "import", snippet.server, "--format", "json", str(conf)], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            return before, None, [], f"exit {done.returncode}: {done.stderr}", done.stdout
        report = json.loads(done.stderr)
        # The importer checks its result; a part that a server would reject is a fault of the importer.
        rejected = [finding["problem"] for finding in report["findings"] if finding["directive"] == "import"]
        if rejected:
            return before, None, report["findings"], rejected[0], done.stdout
        status, body = self.tutti.put("/config", json.loads(done.stdout))
        if status != 200:
            return before, None, report["findings"], f"PUT: {status} {body}", done.stdout
        for request in requests:
            # A certificate of the server's own authority is issued after the change.
            wait_until(lambda: not request.tls or has_certificate(old.port, request), 30, "a certificate for " + request.host)
        after = [ask(old.port, request) for request in requests]
        # Where directives were lost, another log is no fault.
        if log_before and not any(finding["importance"] == "lost" for finding in report["findings"]):
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and logged(logs) != log_before:
                time.sleep(0.02)
            log_after = logged(logs)
            if log_after != log_before:
                before.append(f"log {log_before}")
                after.append(f"log {log_after}")
        return before, after, report["findings"], None, done.stdout


def has_certificate(port, request):
    try:
        connection_for(port, request).close()
    except ssl.SSLError:
        return False
    return True


def certificates(folder):
    """A folder with an authority, a certificate of it for the site and one for a client, and one of a stranger."""
    folder.mkdir()

    def make(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
    for name in ("ca", "stranger"):
        make("req", "-x509", *curve, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", "-days", "3650")
    for name, alternative in (("site", "subjectAltName=DNS:site.example"), ("client", "subjectAltName=DNS:client.example")):
        make("req", "-x509", *curve, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", "-days", "3650", "-CA", "ca.pem", "-CAkey", "ca.key",
             "-addext", alternative, "-addext", "basicConstraints=critical,CA:FALSE")
    # A certificate without extensions is one of X.509 version 1.
    make("req", *curve, "-keyout", "first.key", "-out", "first.csr", "-subj", "/CN=first")
    make("x509", "-req", "-in", "first.csr", "-signkey", "first.key", "-out", "first.pem", "-days", "3650")
    for name in ("client", "stranger"):
        path = folder / f"{name}.pem"
        path.write_text(path.read_text() + (folder / f"{name}.key").read_text())
    for path in folder.iterdir():
        path.chmod(0o644)
    return folder


# `secret`, in several forms.
HTPASSWD = "anna:$2b$05$KxwxVUtqyIHPRLRBxj5k/uBCVfnn9Sg6oPQdhJ0pi0NRCzTDcCj7i\n"
HASHES = "apr1:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\nsha:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nssha:{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0\ncrypt:abNANd1rDfiNc\n"


def logged(folder):
    # Threads of a server may write the lines of two requests in another order.
    texts = {path.name: sorted(path.read_text().splitlines()) for path in sorted(folder.iterdir()) if path.is_file()}
    return {name: lines for name, lines in texts.items() if lines}


def judge(bench, snippet, options, counts):
    before, after, findings, refused, output = bench.run(snippet)
    lost = [finding for finding in findings if finding["importance"] == "lost"]
    faults = []
    if refused:
        counts["refused"] += 1
        faults.append(f"REFUSED: {refused}")
        counts["total"] += len(snippet.requests)
    else:
        for (request, reason), old, new in zip(snippet.requests, before, after):
            counts["total"] += 1
            differing = differences(snippet.server, request, old, new)
            if not differing:
                counts["survive"] += 1
                if reason:
                    faults.append(f"{request}: does not differ any more: {reason}")
                continue
            if reason:
                counts["allowed"] += 1
                continue
            label = "EXPOSED" if exposes(old, new) else "reported" if lost else "SILENT"
            counts[label] += 1
            faults.append(f"{label} {request}: " + "; ".join(differing))
        if len(after) > len(snippet.requests) and not lost:
            counts["logs"] += 1
            faults.append(f"{before[-1]} → {after[-1]}")
    for finding in lost:
        if finding["directive"] not in snippet.lost:
            counts["unexpected loss"] += 1
            faults.append(f"lost: {finding['line']}: {finding['directive']}: {finding['problem']}")
    for name in snippet.lost:
        if name not in [finding["directive"] for finding in lost]:
            faults.append(f"`{name}` is not reported as lost")
    if faults or options.all:
        print(f"--- {snippet.server} {snippet.area}/{snippet.name}\n" + "\n".join(f"    {fault}" for fault in faults), flush=True)
        if options.show:
            print(snippet.text)
            print(output)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", default=str(ROOT / "dist"))
    parser.add_argument("--server", default=",".join(SERVERS), help="servers, separated by commas")
    parser.add_argument("--only", default="", help="areas, or areas and names, separated by commas")
    parser.add_argument("--all", action="store_true", help="also print snippets without a difference")
    parser.add_argument("--show", action="store_true", help="print the configurations")
    options = parser.parse_args()
    wanted = [one for one in options.only.split(",") if one]
    snippets = []
    for server in options.server.split(","):
        for path in sorted((FOLDER / "snippets" / SERVERS[server].folder).glob("*.txt")):
            snippets += parse(server, path.stem, path.read_text())
    if wanted:
        snippets = [one for one in snippets if one.area in wanted or f"{one.area}/{one.name}" in wanted]
    folder = Path(tempfile.mkdtemp(prefix="tutti-snippets-"))
    folder.chmod(0o755)
    counts, failed = collections.Counter(), 0
    bench = Bench(folder, options.dist)
    try:
        for snippet in snippets:
            try:
                failed += bool(judge(bench, snippet, options, counts))
            except RuntimeError as error:
                failed += 1
                print(f"--- {snippet.server} {snippet.area}/{snippet.name}\n    {error}")
    finally:
        bench.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(snippets) - failed} snippets are alike, {failed} are not; requests: {dict(counts)}")
    sys.exit(1 if failed or not snippets else 0)


if __name__ == "__main__":
    main()
