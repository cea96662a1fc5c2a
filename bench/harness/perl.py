"""PSGI: Tutti beside Starman and uWSGI (P17, P18; scenarios 4 and 5)."""

import os

from .cases import Case, no_errors, ratio, tail
from .loads import Ab, Wrk
from .measure import Check
from .servers import WORKER_GROUP, WORKER_USER, Server, Tutti


class Psgi:
    """The script of the site that is served; cases make subclasses of the servers with another."""

    script = "hello.psgi"

    @property
    def application(self):
        return str(self.site / "psgi" / self.script)


class Starman(Psgi, Server):
    """A worker is bound to its connection while that is kept, which is Starman's default."""

    label = "starman"
    programs = ("starman",)

    def arguments(self):
        identity = ["--user", WORKER_USER, "--group", WORKER_GROUP] if os.geteuid() == 0 else []
        return ["starman", "--host", self.place.host, "--port", str(self.port), "--workers", str(self.workers), "--backlog", "4096",
                "--max-requests", "1000000000", "--preload-app", "-E", "deployment", *identity, self.application]


class Uwsgi(Psgi, Server):
    """Its own HTTP socket, which closes each connection."""

    label = "uwsgi"
    programs = ("uwsgi",)

    def arguments(self):
        identity = ["--uid", WORKER_USER, "--gid", WORKER_GROUP] if os.geteuid() == 0 else []
        return ["uwsgi", "--plugin", "psgi", "--http-socket", f"{self.place.host}:{self.port}", "--psgi", self.application,
                "--master", "--processes", str(self.workers), "--listen", "4096", "--disable-logging", *identity]


class TuttiPerl(Psgi, Tutti):
    label = "tutti"
    host = "tutti-perl*"

    def configuration(self):
        return self.serving("perl", {"type": "perl", "script": self.application, "preload": True})


def on_page(server):
    """The same server with the Text::Xslate page."""
    return type(f"{server.__name__}Page", (server,), {"script": "xslate.psgi"})


STARMAN, UWSGI, TUTTI = Starman.label, Uwsgi.label, TuttiPerl.label


def p17(context):
    load, path = Wrk(1, 64, context.seconds), "/"

    def verdict(table):
        return [ratio(table, "rps", load.name, path, at_least=2.0, peer=STARMAN), ratio(table, "cpu_us", load.name, path, at_most=0.5, peer=STARMAN),
                tail(table, load.name, path)[0], no_errors(table)]

    return Case("P17", "PSGI hello, 4 workers", "≥ 2 × Starman, CPU ≤ 0.5 ×, p99 < 5 × median",
                [(server, 4, None) for server in (Starman, Uwsgi, TuttiPerl)], [(load, path)], verdict,
                note="Starman serves as many connections as it has workers, the others wait; uWSGI's HTTP socket closes each connection, "
                     "which wrk counts as an error.")


def p18_ab(context):
    load, path = Ab(context.scale(5_000, 1_000), context.scale(1000, 200), keepalive=True), "/"

    def verdict(table):
        return [*(ratio(table, "rps", load.name, path, at_least=1.0, peer=peer) for peer in (STARMAN, UWSGI)), no_errors(table)]

    return Case("P18-ab", "scenario 4: a Text::Xslate page, `ab -k -c1000`, 4 workers", "ahead of all, no failed request",
                [(on_page(server), 4, None) for server in (Starman, Uwsgi, TuttiPerl)], [(load, path)], verdict,
                rounds=context.scale(3, 1), note="A few thousand requests: Starman, which keeps each connection until it is idle, takes half a minute for them.")


def p18_workers(context):
    load, path = Wrk(1, context.scale(1000, 200), context.seconds), "/"
    many = context.scale(100, 20)
    counts = (2, 4, 8, many)

    def verdict(table):
        rates = {count: table.find(f"{TUTTI}, {count} workers", load.name, path) for count in counts}
        rates = {count: row.median("rps") for count, row in rates.items() if row}
        if many not in rates:
            return []
        best = max(rates, key=rates.get)
        value = rates[many] / rates[best]
        own = f"{TUTTI}, {many} workers"
        return [Check(f"req/s with {many} workers ≥ 0.9 × with {best}, the best: {value:.2f}", value >= 0.9),
                ratio(table, "rps", load.name, path, at_least=1.0, peer=f"{STARMAN}, {many} workers", own=own),
                no_errors(table, own)]

    servers = [(on_page(server), many, f"{server.label}, {many} workers") for server in (Starman, Uwsgi)]
    servers += [(on_page(TuttiPerl), count, f"{TUTTI}, {count} workers") for count in counts]
    return Case("P18-workers", f"scenario 5: the same page, 1,000 connections, up to {many} workers",
                "100 workers within 10% of the best worker count, no error of any kind", servers, [(load, path)], verdict,
                rounds=context.scale(3, 1))


def cases(context):
    return [p17(context), p18_ab(context), p18_workers(context)]
