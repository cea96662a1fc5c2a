"""The server of a combination: its folder, its processes, its numbers and its end."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from harness.processes import command, tree  # noqa: E402
from harness.servers import free_port  # noqa: E402

PATIENCE = 60


class Fault(Exception):
    """An invariant that does not hold."""


async def wait_until(condition, what, detail=lambda: ""):
    """Waits for a condition, which is a fault if it does not come true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise Fault(f"{what}: this does not become true{detail()}")
        await asyncio.sleep(0.02)


def link_modules(programs, folder):
    """The language hosts that were built: of `target/debug` as of `dist/modules`."""
    folder.mkdir()
    for program in ("tutti-python", "tutti-cgi"):
        found = sorted(each for each in programs.glob(f"{program}*") if each.suffix != ".d" and os.access(each, os.X_OK))
        if found:
            (folder / program).symlink_to(found[-1])


class Server:
    """A server with a folder of its own. `source`: the file of the fleet that it is a node of."""

    def __init__(self, folder, programs, source=None, environment=None):
        self.folder, self.programs, self.source = folder, programs, source
        self.environment = environment or {}
        for name in ("state", "tmp", "application", "protected", "files", "errors", "cgi"):
            (folder / name).mkdir(parents=True)
        link_modules(programs, folder / "modules")
        self.control = folder / "control.sock"
        self.log = folder / "tutti.log"
        self.access_log, self.slow_log = folder / "access.log", folder / "slow.log"
        self.served, self.mule = folder / "served", folder / "mule"
        self.certificate = folder / "certificate.pem"
        self.plain, self.secure, self.copies, self.origin = (free_port() for _ in range(4))
        self.child = None
        self.seen = {}
        for file in (self.served, self.mule):
            file.touch()
            file.chmod(0o666)
        shutil.copy(HERE / "site_app.py", folder / "application")

    @property
    def tutti(self):
        found = self.programs / "tutti"
        return found if found.exists() else self.programs.parent / "bin/tutti"

    async def start(self):
        identity = ["--user", "nobody", "--group", "nogroup"] if os.geteuid() == 0 else []
        source = ["--source", str(self.source)] if self.source else []
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")} | self.environment
        with open(self.folder / "output", "ab") as output:
            self.child = subprocess.Popen(
                [self.tutti, "--no-daemon", "--control", f"unix:{self.control}", "--pid", self.folder / "pid", "--log", self.log,
                 "--modulesdir", self.folder / "modules", "--statedir", self.folder / "state", "--tmpdir", self.folder / "tmp",
                 *identity, *source],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                await self.call("GET", "/status")
                return
            except (OSError, asyncio.IncompleteReadError):
                if self.child.poll() is not None or time.monotonic() > end:
                    raise Fault(f"the server does not start: {(self.folder / 'output').read_text()}") from None
                await asyncio.sleep(0.02)

    async def call(self, method, path, body=None):
        """(status, text) of one request to the control API."""
        reader, writer = await asyncio.open_unix_connection(str(self.control), limit=1 << 24)
        try:
            data = json.dumps(body).encode() if body is not None else b""
            writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
            answer = await asyncio.wait_for(reader.read(), PATIENCE)
        finally:
            writer.close()
        head, _, rest = answer.partition(b"\r\n\r\n")
        if not head:
            raise asyncio.IncompleteReadError(b"", 1)
        if b"chunked" in head.lower():
            pieces = b""
            while rest:
                size, _, rest = rest.partition(b"\r\n")
                count = int(size, 16)
                pieces, rest = pieces + rest[:count], rest[count + 2:]
                if not count:
                    break
            rest = pieces
        return int(head.split(b" ")[1]), rest.decode()

    async def succeed(self, method, path, body=None):
        status, text = await self.call(method, path, body)
        if status not in (200, 204):
            raise Fault(f"{method} {path}: {status} {text}")
        return text

    async def status(self):
        return json.loads(await self.succeed("GET", "/status"))

    async def metrics(self):
        """The samples, by their names with labels."""
        text = await self.succeed("GET", "/metrics")
        return {name: float(value) for name, value in re.findall(r"^(tutti_[^ ]+) (\S+)$", text, re.M)}

    # Processes.

    def processes(self):
        """The titles of the server's processes, by number."""
        found = {pid: command(pid) for pid in tree(self.child.pid)}
        self.seen |= found
        return found

    def pids(self, title):
        return [pid for pid, each in self.processes().items() if each.startswith(title)]

    def descriptors(self):
        """The number of open files of each of the server's own processes, by title."""
        counts = {}
        for pid, title in self.processes().items():
            if title in ("tutti: main", "tutti: controller", "tutti: router") or title.startswith("tutti: main"):
                try:
                    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
                    counts[title.split(" [")[0]] = [re.sub(r"#\d+ \(deleted\)", "unnamed file", link) for link in links]
                except OSError:
                    pass
        return counts

    def read(self, file):
        """The lines of a log of JSON."""
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    async def stop(self, by=signal.SIGTERM):
        """Stops it, which has to succeed and leave no process behind."""
        before = dict(self.processes())
        self.child.send_signal(by)
        await wait_until(lambda: self.child.poll() is not None, "the server stops", self.tail)
        if self.child.returncode:
            raise Fault(f"the server ended with {self.child.returncode}{self.tail()}")

        def left():
            return {pid: title for pid, title in (self.seen | before).items() if command(pid) == title and title}
        await wait_until(lambda: not left(), "no process stays behind", lambda: f": {left()}")

    def kill(self):
        """For a combination that has failed."""
        if self.child:
            for pid in tree(self.child.pid)[::-1] if self.child.poll() is None else []:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.child.wait()

    def tail(self):
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n--- the log ---\n" + "\n".join(lines[-30:])
