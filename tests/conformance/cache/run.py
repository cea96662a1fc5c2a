#!/usr/bin/env python3
"""Mark Nottingham's cases for HTTP caches (http-cache-tests), against this server and, with --others, nginx and Varnish.

usage: run.py --tutti PROGRAM [--others] [--table FILE]

A required case that fails must be in known.txt with its reason, and what is there must fail. `--table` writes what all found as Markdown.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent.parent / "bench"))

from harness.servers import free_port  # noqa: E402

SUITE = "node_modules/http-cache-tests"
# Long enough for the slowest machine; it is never waited for as a whole.
LONGEST = 600
LIST = """
import tests from './tests/index.mjs'
const all = []
for (const suite of tests) for (const test of suite.tests) {
  if (test.browser_only) continue
  all.push({id: test.id, kind: test.kind || 'required', suite: suite.name, name: test.name, needs: test.depends_on || []})
}
console.log(JSON.stringify(all))
"""


def wait_for(port, process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, f"{process.args} has ended"
        try:
            socket.create_connection(("localhost", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"{process.args} does not listen")


class Running:
    """A program that is ended with this block."""

    def __init__(self, command, port, **options):
        self.process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
        self.port = port

    def __enter__(self):
        wait_for(self.port, self.process)
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def npm(folder):
    shutil.copy(HERE / "package.json", folder)
    # The suite names all of npm as what it needs; only its own code runs here.
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def node(folder, *arguments, **options):
    return ["node", "--no-warnings", *arguments], {"cwd": folder / SUITE, "env": dict(os.environ, **options)}


def cases(folder):
    listing = folder / SUITE / "list.mjs"
    listing.write_text(LIST, encoding="utf-8")
    command, options = node(folder, "list.mjs")
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout)


def outcomes(folder, port):
    command, options = node(folder, "cli.mjs", npm_config_base=f"http://localhost:{port}", npm_package_config_id="")
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, **options)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    return json.loads(done.stdout)


def tutti(program, folder, origin):
    port = free_port()
    config = {
        "listeners": {f"*:{port}": {"pass": "routes"}},
        "routes": [{"action": {"proxy": f"http://127.0.0.1:{origin}", "cache": {"store": "cases", "heuristic": True}}}],
        "settings": {"cache": {"cases": {}}},
    }
    state = folder / "state"
    (state / "tmp").mkdir(parents=True)
    (state / "conf.json").write_text(json.dumps(config), encoding="utf-8")
    command = [program, "--no-daemon", "--statedir", state, "--tmpdir", state / "tmp", "--modulesdir", state, "--log", folder / "tutti.log"]
    command += ["--pid", state / "pid", "--control", f"unix:{state}/control.sock"]
    return Running([str(word) for word in command], port)


def nginx(_, folder, origin):
    port = free_port()
    place = folder / "nginx"
    place.mkdir()
    (place / "nginx.conf").write_text(
        f"""daemon off; pid {place}/pid; error_log {place}/error.log; user root; worker_processes 1;
events {{}}
http {{
    access_log off; proxy_temp_path {place}/temp; client_body_temp_path {place}/body;
    fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
    proxy_cache_path {place}/cache levels=1:2 keys_zone=cases:8m max_size=1000m inactive=600m use_temp_path=off;
    server {{
        listen {port};
        location / {{ proxy_pass http://127.0.0.1:{origin}; proxy_cache cases; proxy_cache_revalidate on; }}
    }}
}}
""",
        encoding="utf-8",
    )
    return Running(["nginx", "-c", str(place / "nginx.conf"), "-e", str(place / "error.log")], port)


def varnish(_, folder, origin):
    port = free_port()
    place = folder / "varnish"
    place.mkdir()
    (place / "default.vcl").write_text(f'vcl 4.1;\nbackend origin {{ .host = "127.0.0.1"; .port = "{origin}"; }}\n', encoding="utf-8")
    command = ["varnishd", "-F", "-a", f":{port}", "-f", place / "default.vcl", "-n", place / "work", "-s", "malloc,64m", "-j", "none"]
    return Running([str(word) for word in command], port)


def known():
    lines = (HERE / "known.txt").read_text(encoding="utf-8").splitlines()
    return {line.split()[0]: line for line in lines if line and not line.startswith("#")}


def summary(all_cases, results):
    """Passed and all, of each kind; a case whose precondition failed does not count."""
    counts = {}
    for case in all_cases:
        if case["kind"] == "check" or any(results.get(need) is not True for need in case["needs"]):
            continue
        passed, total = counts.get((case["suite"], case["kind"]), (0, 0))
        counts[case["suite"], case["kind"]] = (passed + (results.get(case["id"]) is True), total + 1)
    return counts


def table(all_cases, found):
    names = list(found)
    counts = {name: summary(all_cases, results) for name, results in found.items()}
    lines = ["| cases | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    suites = list(dict.fromkeys(case["suite"] for case in all_cases))
    for kind, word in (("required", "required"), ("optimal", "wished for")):
        total = {name: [0, 0] for name in names}
        for suite in suites:
            cells = []
            for name in names:
                passed, whole = counts[name].get((suite, kind), (0, 0))
                total[name][0] += passed
                total[name][1] += whole
                cells.append(f"{passed} of {whole}")
            if any(cell != "0 of 0" for cell in cells):
                lines.append(f"| {suite}, {word} | " + " | ".join(cells) + " |")
        sums = " | ".join(f"**{passed} of {whole}**" for passed, whole in total.values())
        lines.append(f"| **all, {word}** | {sums} |")
    return "\n".join(lines) + "\n"


def complaints(all_cases, results):
    expected = known()
    for case in all_cases:
        if case["kind"] != "required" or any(results.get(need) is not True for need in case["needs"]):
            continue
        name, has_passed = case["id"], results.get(case["id"]) is True
        if not has_passed and name not in expected:
            yield f"{name} ({case['suite']}: {case['name']}): {results.get(name)}"
        if has_passed and name in expected:
            yield f"{name} passes: take it out of known.txt"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tutti", required=True)
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--table")
    arguments = parser.parse_args()
    servers = {"Tutti": tutti}
    if arguments.others:
        servers |= {"nginx": nginx, "Varnish": varnish}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        npm(folder)
        all_cases = cases(folder)
        found = {}
        origin = free_port()
        command, options = node(folder, "server/server.mjs", npm_config_protocol="http", npm_config_port=str(origin), npm_config_pidfile=str(folder / "pid"))
        with Running(command, origin, **options):
            for label, start in servers.items():
                with start(arguments.tutti, folder, origin) as server:
                    found[label] = outcomes(folder, server.port)
        text = table(all_cases, found)
        if arguments.table:
            Path(arguments.table).write_text(text, encoding="utf-8")
        print(text)
        wrong = list(complaints(all_cases, found["Tutti"]))
        for line in wrong:
            print(line, file=sys.stderr)
        sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
