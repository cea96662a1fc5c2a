"""PHP: Xdebug, phpdbg, pcov and Excimer."""

import json
import subprocess
import threading

import packages
from case import ROOT, Case, prompted
from dbgp import Listener
from harness.processes import wait_until
from request import Request


def extension(name, package=None):
    """The path of an extension, from its Debian package."""
    [library] = packages.debian(package or f"php{packages.PHP}-{name}").rglob(f"{name}.so")
    return library


class Xdebug(Case):
    """Breakpoints in two consecutive requests that one resident process answers; the boot of the script waits for the debugger."""

    name = "xdebug-resident"
    is_quick = True
    source = "php"
    heading = "Xdebug"
    port = 9003
    listener = None

    def places(self):
        return {"xdebug.so": extension("xdebug")}

    def prepare(self):
        super().prepare()
        self.listen()
        self.session = None
        self.boot = threading.Thread(target=self.attend_boot, daemon=True)
        self.boot.start()

    def listen(self):
        self.listener = Listener()
        self.place = self.listener.port

    def attend_boot(self):
        self.session = self.begin()

    def begin(self):
        """A session with a breakpoint in the function that answers, whose script has begun to run."""
        session = self.listener.session()
        assert session.ask("breakpoint_set", t="line", f=(self.root / "shop.php").as_uri(), n=4).get("id")
        session.send("run")
        return session

    def step_through(self, session, request, name, served, caller):
        """The script of this request stops at the breakpoint, is stepped through, and continues."""
        stopped = session.answer()
        assert stopped.get("status") == "break", stopped.attrib
        assert session.line() == "shop.php:4 answer", session.line()
        variables = session.variables()
        assert variables["$name"] == name and variables["$served"] == str(served), variables
        assert session.ask("step_over").get("status") == "break"
        assert session.line() == "shop.php:5 answer", session.line()
        assert session.variables()["$greeting"] == f"Hello, {name}"
        assert session.ask("step_out").get("status") == "break"
        assert session.line().startswith(caller), session.line()
        session.send("run")
        self.end(session)
        assert request.result() == f"Hello, {name}, {served * 10}\n"

    def end(self, session):
        """The request ends, and the session continues."""

    def check(self, server):
        self.boot.join(60)
        for served, name in enumerate(("Anna", "Bob"), 1):
            self.step_through(self.session, Request(self, server, f"/?name={name}"), name, served, "resident.php:8 ")
        return "2 requests of one process, each stopped, stepped through and continued"

    def close(self):
        if self.listener:
            self.listener.close()


class XdebugCall(Xdebug):
    """The resident script asks for the debugger itself: a connection for each request that is to be debugged."""

    name = "xdebug-resident-call"
    heading = "Xdebug, for some requests"

    def prepare(self):
        Case.prepare(self)
        self.listen()

    def check(self, server):
        assert self.get(server, "/?name=Cleo") == "Hello, Cleo, 10\n"
        for served, name in enumerate(("Anna", "Bob"), 2):
            request = Request(self, server, f"/?name={name}&debug")
            if served == 2:
                session = self.begin()
            self.step_through(session, request, name, served, "resident.php:8 ")
        return "2 requests of one process, each stopped, stepped through and continued, and one that was not"


class XdebugClassic(Xdebug):
    """A request with the trigger connects; one without runs through."""

    name = "xdebug-trigger"
    heading = "Xdebug, for some requests"

    def end(self, session):
        """The script has ended, and Xdebug asks before it lets PHP clean up."""
        assert session.answer().get("status") == "stopping"
        session.send("run")

    def application(self):
        application = super().application()
        del application["mode"]
        return application | {"script": "index.php"}

    def prepare(self):
        Case.prepare(self)
        self.listen()

    def check(self, server):
        assert self.get(server, "/?name=Cleo") == "Hello, Cleo, 10\n"
        for name in ("Anna", "Bob"):
            request = Request(self, server, f"/?name={name}&XDEBUG_TRIGGER=1")
            self.step_through(self.begin(), request, name, 1, "index.php:3 ")
        return "2 requests with the trigger, each with a session of its own, and one without"


class Phpdbg(Case):
    """A resident script answers two requests under phpdbg, which is a program of its own: no server takes part."""

    name = "phpdbg"
    source = "php"
    heading = "pcov"

    def places(self):
        return {"pcov.so": extension("pcov")}

    def check(self, server):
        program = packages.debian(f"php{packages.PHP}-phpdbg") / f"usr/bin/phpdbg{packages.PHP}"
        commands = [*prompted("phpdbg"),
                    "ev $name", "ev $served", "step", "ev $count", "continue", "ev $name", "ev $served", "continue", "quit", ""]
        done = subprocess.run([program, "-q", "-b", "-e", ROOT / "sdk/php/resident/requests.php"], input="\n".join(commands), cwd=self.root,
                              capture_output=True, text=True, timeout=60, check=False)
        said = [line.removeprefix("prompt> ") for line in done.stdout.splitlines()]
        assert sum(line.startswith("[Breakpoint #0 at ") for line in said) == 2, done.stdout
        told = [line for line in said if line in ("Anna", "Bob", "1", "2", "10") or line.startswith("Hello")]
        assert told == ["Anna", "1", "10", "Hello, Anna, 10", "Bob", "2", "Hello, Bob, 20"], done.stdout
        return "2 requests of one resident script, each stopped, stepped through and continued"


class Pcov(Case):
    """The lines that a resident process has run, written when it ends."""

    name = "pcov-resident"
    source = "php"
    heading = "pcov"

    def places(self):
        return {"pcov.so": extension("pcov")}

    def check(self, server):
        assert self.get(server, "/?name=Anna") == "Hello, Anna, 10\n"
        assert self.get(server, "/?name=Bob") == "Hello, Bob, 20\n"

    def after_stop(self, server):
        found = {}
        files = sorted((self.root / "out").glob("*.json"))
        assert files, "no coverage was written"
        for file in files:
            for line, count in json.loads(file.read_text()).items():
                found[int(line)] = max(count, found.get(int(line), -9))
        assert all(found.get(line) == 1 for line in (4, 5, 6)) and found.get(11) == -1, found
        return f"lines 4 to 6 have run, and line 11 has not ({len(files)} files)"


class PcovClassic(Pcov):
    name = "pcov"

    def application(self):
        application = super().application()
        del application["mode"]
        return application | {"script": "index.php"}

    def check(self, server):
        assert self.get(server, "/?name=Anna") == "Hello, Anna, 10\n"
        wait_until(lambda: any((self.root / "out").glob("*.json")), 30, "the coverage of the request")


class XdebugCoverage(Pcov):
    name = "xdebug-coverage"
    heading = "Xdebug's coverage"

    def places(self):
        return {"xdebug.so": extension("xdebug")}


class Excimer(Case):
    """Samples of a request's stacks."""

    name = "excimer"
    source = "php"
    heading = "Excimer"

    def places(self):
        return {"excimer.so": extension("excimer", "php-excimer")}

    def check(self, server):
        stacks = self.get(server, "/")
        assert "busy" in stacks and int(stacks.rsplit(" ", 1)[1]) > 5, stacks
        return f"{stacks.rsplit(' ', 1)[1].strip()} samples in the function that was busy"


CASES = [Xdebug, XdebugCall, XdebugClassic, XdebugCoverage, Phpdbg, Pcov, PcovClassic, Excimer]
