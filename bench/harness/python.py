"""Python: Tutti beside Granian, gunicorn and uvicorn (P13 to P16), all from one virtual environment, two processes each."""

import functools
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .cases import Case, no_errors, ratio
from .loads import Sample, Wrk, _run
from .servers import Server, Tutti

ROOT = Path(__file__).resolve().parent.parent.parent
LIST = ROOT / "bench/site/python/requirements.txt"


@functools.cache
def environment():
    """The peers, as PyPI has them."""
    folder = ROOT / ".work/bench-python"
    mark = folder / "requirements.txt"
    if not mark.exists() or mark.read_text() != LIST.read_text():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["/usr/bin/python3", "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", LIST], check=True)
        mark.write_text(LIST.read_text())
    return folder


class Python:
    """The callable of the site's `python/hello.py`; cases make subclasses of the servers with another."""

    programs = ("python3",)
    callable = "wsgi"

    @property
    def code(self):
        return str(self.site / "python")

    @property
    def application(self):
        return f"hello:{self.callable}"

    @property
    def at(self):
        return f"{self.place.host}:{self.port}"

    @staticmethod
    def program(name):
        return str(environment() / "bin" / name)


class Granian(Python, Server):
    label = "granian"

    def arguments(self):
        interface = "asgi" if self.callable == "asgi" else "wsgi"
        return [self.program("granian"), "--interface", interface, "--host", self.place.host, "--port", str(self.port), "--backlog", "4096",
                "--workers", str(self.workers), "--log-level", "warning", "--working-dir", self.code, self.application]


class Gunicorn(Python, Server):
    """Its default worker, which closes each connection."""

    label = "gunicorn"
    kind = ("-k", "sync")

    def arguments(self):
        return [self.program("gunicorn"), "-w", str(self.workers), *self.kind, "-b", self.at, "--backlog", "4096", "--log-level", "warning",
                "--chdir", self.code, self.application]


class GunicornThreads(Gunicorn):
    """Keeps connections."""

    label = "gunicorn, threads"
    kind = ("-k", "gthread", "--threads", "4", "--keep-alive", "75")


class Uvicorn(Python, Server):
    label = "uvicorn"
    callable = "asgi"
    websocket = "auto"

    def arguments(self):
        return [self.program("uvicorn"), "--host", self.place.host, "--port", str(self.port), "--backlog", "4096", "--workers", str(self.workers),
                "--log-level", "warning", "--no-access-log", "--loop", "uvloop", "--http", "httptools", "--ws", self.websocket,
                "--app-dir", self.code, self.application]


class UvicornWsproto(Uvicorn):
    label = "uvicorn, wsproto"
    websocket = "wsproto"


class UvicornSansIo(Uvicorn):
    label = "uvicorn, sans-io"
    websocket = "websockets-sansio"


class FastPySgi(Python, Server):
    """In C, in the process of the application: nothing stands between."""

    label = "fastpysgi"

    def arguments(self):
        code = (f"import fastpysgi, hello; fastpysgi.server.backlog = 4096; "
                f"fastpysgi.run(hello.{self.callable}, {self.place.host!r}, {self.port}, loglevel=0, workers={self.workers})")
        return ["env", f"PYTHONPATH={self.code}", self.program("python"), "-c", code]


class TuttiPython(Python, Tutti):
    label = "tutti"
    host = "tutti-python*"
    preload = False

    def configuration(self):
        return self.serving("python", {"type": "python", "path": self.code, "home": str(environment()), "module": "hello", "callable": self.callable,
                                       "preload": self.preload})


@dataclass
class Echo:
    """`tutti-load echo`: WebSockets, one message of 32 bytes under way on each."""

    program: str
    connections: int
    seconds: float = 4

    @property
    def name(self):
        return f"WebSocket echo -c{self.connections}"

    def run(self, url, prefix=()):
        address, _, path = url.removeprefix("http://").partition("/")
        output, cost = _run([self.program, "echo", address, f"/{path}", self.connections, 32, round(self.seconds)], prefix)
        seen = json.loads(output)
        slowest = seen["p99_us"] / 1000
        return Sample(seen["messages"], seen["rate"], seen["median_us"] / 1000, slowest, slowest, 0, **cost)


def of(server, name):
    """The same server with another callable."""
    return type(server.__name__, (server,), {"callable": name})


def case(context, number, title, target, peers, name, bounds, load=None, note=""):
    load, path = load or Wrk(1, 64, context.seconds), "/"

    def verdict(table):
        checks = [ratio(table, key, load.name, path, peer=peer, **bound) for peer, key, bound in bounds]
        return [*checks, no_errors(table)]

    servers = [(of(server, name), 2, None) for server in (*peers, TuttiPython)]
    return Case(number, title, target, servers, [(load, path)], verdict, note=note)


def cases(context):
    faster = {"at_least": 1.1}
    return [
        case(context, "P13", "WSGI hello", "≥ 1.1 × Granian, CPU ≤ 0.9 ×", [Granian], "wsgi",
             [("granian", "rps", faster), ("granian", "cpu_us", {"at_most": 0.9})], load=Wrk(2, 256, context.seconds),
             note="256 connections: with 64 on one thread it is wrk that limits."),
        case(context, "P13-b", "WSGI hello beside a server in the process of the application", "CPU ≤ 1.6 × FastPySGI", [FastPySgi], "wsgi",
             [("fastpysgi", "cpu_us", {"at_most": 1.6})], load=Wrk(2, 256, context.seconds),
             note="FastPySGI parses in C in the process that runs Python: no router, no isolation, no limits; one that hangs holds its connections."),
        case(context, "P13-flask", "Flask hello beside a server in the process of the application", "≥ 1.0 × FastPySGI", [FastPySgi], "app",
             [("fastpysgi", "rps", {"at_least": 1.0})]),
        case(context, "P14", "Flask hello", "≥ 1.5 × gunicorn's best, ahead of Granian", [Granian, Gunicorn, GunicornThreads], "app",
             [("gunicorn", "rps", {"at_least": 1.5}), ("gunicorn, threads", "rps", {"at_least": 1.5}), ("granian", "rps", {"at_least": 1.0})],
             note="gunicorn's default worker closes each connection, which costs it a handshake for each request."),
        case(context, "P15", "ASGI hello", "≥ 1.1 × the best of uvicorn and Granian", [Granian, Uvicorn], "asgi",
             [("granian", "rps", faster), ("uvicorn", "rps", faster)]),
        case(context, "P15-b", "ASGI hello beside a server in the process of the application", "≥ 1.1 × FastPySGI", [FastPySgi], "asgi",
             [("fastpysgi", "rps", faster)]),
        case(context, "P16", "WebSocket echo, messages/s", "≥ 1.2 × uvicorn", [Granian, Uvicorn, UvicornWsproto, UvicornSansIo], "asgi",
             [(peer, "rps", {"at_least": 1.2}) for peer in ("uvicorn", "uvicorn, wsproto", "uvicorn, sans-io")],
             load=Echo(context.load_program, 64, context.seconds)),
    ]
