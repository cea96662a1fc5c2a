"""Rack: Tutti beside Puma in cluster mode and Unicorn (P35)."""

import os

from .cases import Case, no_errors, ratio, tail
from .loads import Wrk
from .measure import Check
from .servers import WORKER_GROUP, WORKER_USER, Server, Tutti

THREADS_OF_PUMA = 5
ENVIRONMENT = {"RACK_ENV": "production", "RAILS_ENV": "production"}


class Rack:
    """The script of the site that is served; cases make subclasses of the servers with another."""

    script = "hello.ru"
    threads = 1

    @property
    def application(self):
        return str(self.site / "rack" / self.script)

    def launch(self):
        self.spawn(self.arguments(), env={**os.environ, **ENVIRONMENT})


class Puma(Rack, Server):
    """A process for each worker, the application loaded before they are forked."""

    label = "puma"
    programs = ("puma",)

    def arguments(self):
        return ["puma", "--quiet", "--workers", str(self.workers), "--threads", f"{self.threads}:{self.threads}", "--preload", "--environment",
                "production", "--bind", f"tcp://{self.place.host}:{self.port}?backlog=4096", self.application]


class PumaThreads(Puma):
    label = "puma, 5 threads"
    threads = THREADS_OF_PUMA


class Unicorn(Rack, Server):
    """Closes each connection."""

    label = "unicorn"
    programs = ("unicorn",)

    def arguments(self):
        file = self.folder / "unicorn.rb"
        user = f"user '{WORKER_USER}', '{WORKER_GROUP}'\n" if os.geteuid() == 0 else ""
        file.write_text(f"worker_processes {self.workers}\npreload_app true\nlisten '{self.place.host}:{self.port}', backlog: 4096\n"
                        f"logger Logger.new('/dev/null')\n{user}")
        return ["unicorn", "--config-file", str(file), "--env", "deployment", self.application]


class TuttiRuby(Rack, Tutti):
    label = "tutti"
    host = "tutti-ruby*"

    def launch(self):
        Tutti.launch(self)

    def configuration(self):
        return self.serving("ruby", {"type": "ruby", "script": self.application, "threads": self.threads, "preload": True, "environment": ENVIRONMENT})


class TuttiThreads(TuttiRuby):
    label = "tutti, 5 threads"
    threads = THREADS_OF_PUMA


def on_page(server):
    """The same server with the page by Rails."""
    return type(f"{server.__name__}Page", (server,), {"script": "rails.ru"})


PUMA, TUTTI = Puma.label, TuttiRuby.label


def memory(table, load, path, at_most):
    """A check of the memory of all processes under this load, beside Puma's."""
    mine, theirs = table.find(TUTTI, load, path), table.find(PUMA, load, path)
    label = f"memory ≤ {at_most} × {PUMA}'s ({load}, {path})"
    if not mine or not theirs or not mine.pss_mib or not theirs.pss_mib:
        return Check(f"{label}: not measured", None)
    value = mine.pss_mib / theirs.pss_mib
    return Check(f"{label}: {value:.2f}", value <= at_most)


def p35(context):
    load, path = Wrk(1, 64, context.seconds), "/"

    def verdict(table):
        return [ratio(table, "rps", load.name, path, at_least=2.0, peer=PUMA), ratio(table, "cpu_us", load.name, path, at_most=0.5, peer=PUMA),
                ratio(table, "rps", load.name, path, at_least=2.0, peer=PumaThreads.label, own=TuttiThreads.label),
                tail(table, load.name, path)[0], no_errors(table)]

    return Case("P35", "Rack hello, 4 workers", "≥ 2 × Puma, CPU ≤ 0.5 ×, p99 < 5 × median",
                [(server, 4, None) for server in (Puma, PumaThreads, Unicorn, TuttiRuby, TuttiThreads)], [(load, path)], verdict,
                note="Unicorn closes each connection, which wrk counts as an error.")


def p35_rails(context):
    load, path = Wrk(1, 64, context.seconds), "/"

    def verdict(table):
        return [ratio(table, "rps", load.name, path, at_least=1.0, peer=PUMA), memory(table, load.name, path, at_most=0.7), no_errors(table)]

    return Case("P35-rails", "a page by Rails, 8 workers, loaded before they are forked", "≥ 1.0 × Puma, memory ≤ 0.7 × Puma's",
                [(on_page(server), 8, server.label) for server in (Puma, TuttiRuby)], [(load, path)], verdict)


def cases(context):
    return [p35(context), p35_rails(context)]
