"""Node.js: Tutti beside Node's own `http` with `cluster`, the same script in each (P33), and beside `next start` (P34)."""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .cases import Case, no_errors, ratio
from .loads import Wrk
from .servers import Server, Tutti

ROOT = Path(__file__).resolve().parent.parent.parent
LIST = ROOT / "bench/site/node/package.json"
WORKERS = 2
ENVIRONMENT = {"NODE_ENV": "production"}


@functools.cache
def packages():
    """The packages that the scripts require, as npm has them."""
    folder = ROOT / ".work/bench-node"
    mark = folder / "package.json"
    if not mark.exists() or mark.read_text() != LIST.read_text() or not (folder / "node_modules").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        mark.write_text(LIST.read_text())
        subprocess.run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"], check=True)
    return folder / "node_modules"


class Node:
    """The script of the site that is served; cases make subclasses of the servers with another."""

    programs = ("node", "npm")
    script = "hello.js"

    @property
    def code(self):
        folder = self.site / "node"
        if not (folder / "node_modules").exists():
            (folder / "node_modules").symlink_to(packages())
        return folder


class Cluster(Node, Server):
    """A primary process hands connections to its workers in turn."""

    label = "node, cluster"

    def launch(self):
        address = {"HOST": self.place.host, "PORT": str(self.port)}
        self.spawn(["node", str(self.code / "cluster.js"), str(self.code / self.script), str(self.workers)], env={**os.environ, **ENVIRONMENT, **address})


class TuttiNode(Node, Tutti):
    label = "tutti"
    host = "tutti-node"

    def configuration(self):
        return self.serving("node", {"type": "node", "working_directory": str(self.code), "script": self.script, "environment": ENVIRONMENT})


def on_express(server):
    """The same server with the page by Express."""
    return type(f"{server.__name__}Express", (server,), {"script": "express.js"})


@functools.cache
def next_application():
    """The folder of the Next.js application of the real sites, installed and built as they have it."""
    sys.path.append(str(ROOT / "tests/real"))
    from sites.node import built
    return built("next")


class Next:
    """`next start` in production: one process."""

    programs = ("node", "npm")
    script = "node_modules/next/dist/bin/next"
    environment = {**ENVIRONMENT, "NEXT_TELEMETRY_DISABLED": "1"}


class NextStart(Next, Server):
    label = "next start"

    def launch(self):
        self.spawn(["node", self.script, "start", "--hostname", self.place.host, "--port", str(self.port)],
                   env={**os.environ, **self.environment}, cwd=next_application())


class TuttiNext(Next, Tutti):
    label = "tutti"
    host = "tutti-node"

    def configuration(self):
        return self.serving("next", {"type": "node", "working_directory": str(next_application()), "script": self.script, "arguments": ["start"],
                                     "environment": self.environment})


def equal_but_for_port(one, other):
    """A page that names the host it was asked at."""
    one, other = (re.sub(rb"127\.0\.0\.1:[0-9]+", b"HOST", body) for body in (one, other))
    return one == other


def p34(context):
    # A page takes milliseconds: few connections for few seconds would be no measurement.
    load, paths = Wrk(1, 16, max(context.seconds, 3)), ("/items/7?a=b", "/")

    def verdict(table):
        return [*(ratio(table, "rps", load.name, path, at_least=1.0, peer=NextStart.label) for path in paths), no_errors(table)]

    return Case("P34", "pages by Next.js, one process", "≥ 1.0 × `next start`", [(server, 1, None) for server in (NextStart, TuttiNext)],
                [(load, path) for path in paths], verdict, is_alike=equal_but_for_port,
                note="The application of the real sites, both by `next start`. Both pages are rendered for each request; `/` has a part that comes 50 ms later, by a stream.")


def cases(context):
    load, path = Wrk(1, 64, context.seconds), "/"

    def hello(table):
        return [ratio(table, "cpu_us", load.name, path, at_most=0.8, peer=Cluster.label),
                ratio(table, "rps", load.name, path, at_least=1.2, peer=Cluster.label), no_errors(table)]

    def express(table):
        return [ratio(table, "rps", load.name, path, at_least=1.0, peer=Cluster.label), no_errors(table)]

    return [Case("P33", "Node.js hello, 2 processes", "≥ 1.2 × Node's own http with cluster, CPU ≤ 0.8 ×",
                 [(server, WORKERS, None) for server in (Cluster, TuttiNode)], [(load, path)], hello),
            Case("P33-express", "a page by Express, 2 processes", "≥ 1.0 × Node's own http with cluster",
                 [(on_express(server), WORKERS, server.label) for server in (Cluster, TuttiNode)], [(load, path)], express),
            p34(context)]
