#!/usr/bin/env python3
"""Asks a server's control API everything that its description allows, and some that it does not, by schemathesis.

check.py SERVER EXAMPLES, run by a Python that has schemathesis (requirements.txt).

The server is an unprivileged one of its own, and gives the description: what is asked for at random names files and ports. Fails on an answer that is not as
described, on a 5xx that is no fault told with its place, and on a server that does not answer in the end.
"""

import collections
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent.parent / "bench"))

from harness.servers import free_port  # noqa: E402

CHECKS = ["response_schema_conformance", "status_code_conformance", "content_type_conformance", "faults_are_told"]
TOKEN = secrets.token_hex(32)
# A server that is upgraded in place is looked at elsewhere, and so is one that stops. There is no application: it would need a module.
LEFT_OUT = ["--exclude-path-regex", r"^/control/(upgrade|stop)|^/config/applications/\{name\}/"]


def start(program, folder, port):
    # The process that asks may not be able to see where it was built.
    server = folder / "tutti"
    shutil.copy(program, server)
    for name in ("state", "tmp", "modules"):
        (folder / name).mkdir()
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    command = [server, "--no-daemon", "--control", f"127.0.0.1:{port}", "--control-token", token, "--statedir", folder / "state", "--tmpdir", folder / "tmp",
               "--modulesdir", folder / "modules", "--log", folder / "log", "--pid", folder / "pid"]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
        for path in [folder, *folder.iterdir()]:
            os.chown(path, 65534, 65534)
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL)


def get(address, path):
    request = urllib.request.Request(address + path, headers={"Authorization": f"Bearer {TOKEN}"})
    return urllib.request.urlopen(request, timeout=60).read()


def main():
    program, examples = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        address = f"http://127.0.0.1:{port}"
        server = start(program, folder, port)
        try:
            for _ in range(600):
                try:
                    get(address, "/status")
                    break
                except OSError:
                    time.sleep(0.1)
            description = folder / "openapi.json"
            description.write_bytes(get(address, "/schema/openapi.json"))
            environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(Path(__file__).parent), "TUTTI_CONTROL": address, "TUTTI_TOKEN": TOKEN}
            run = subprocess.run(
                [Path(sys.executable).with_name("schemathesis"), "run", description, "--url", address, "-H", f"Authorization: Bearer {TOKEN}", "--checks", ",".join(CHECKS),
                 "--phases", "fuzzing", "--max-examples", examples, "--seed", "1", "--workers", "1", "--suppress-health-check", "all",
                 "--generation-database", "none", "--warnings", "off", "--request-timeout", "60", "--no-shrink",
                 *LEFT_OUT],
                cwd=folder, env=environment, capture_output=True, text=True)
            print(run.stdout[-6000:], run.stderr[-2000:])
            answers = bool(get(address, "/status"))
            asked = collections.Counter(line.split()[1] for line in (folder / "answers").read_text().splitlines())
            print(dict(asked))
            log = (folder / "log").read_text(errors="replace")
        finally:
            server.terminate()
            server.wait()
    # Less would mean that nothing it asks for is there.
    if asked["200"] < 50 or asked["400"] < 50:
        sys.exit("too few of these requests mean something")
    if run.returncode or not answers or "panicked" in log:
        sys.exit(f"answers in the end: {answers}\n{log[-3000:]}")


if __name__ == "__main__":
    main()
