"""The memory of many idle workers of each language, beside the servers that they would else be served by (P39)."""

import os

from . import languages
from .java import Jetty
from .measure import Check, say, settled_mib
from .node import Cluster
from .perl import Starman
from .perl import Uwsgi as UwsgiPerl
from .processes import private_bytes, tree, wait_until
from .python import Gunicorn, Python, environment
from .ruby import Puma, Unicorn
from .servers import WORKER_GROUP, WORKER_USER, NginxFpm, Server, takes_connections

COUNT, COUNT_OF_JAVA = 100, 20


class GunicornPreloaded(Gunicorn):
    """The application is loaded before the workers are forked."""

    callable = "app"
    kind = ("-k", "sync", "--preload")


class UwsgiPython(Python, Server):
    """It loads the application before it forks."""

    label = "uwsgi"
    programs = ("uwsgi", "python3")
    callable = "app"

    def arguments(self):
        identity = ["--uid", WORKER_USER, "--gid", WORKER_GROUP] if os.geteuid() == 0 else []
        return ["uwsgi", "--plugin", "python3", "--virtualenv", str(environment()), "--pythonpath", self.code, "--module", self.application, "--need-app",
                "--http-socket", self.at, "--master", "--processes", str(self.workers), "--listen", "4096", "--disable-logging", *identity]


class JettyEach(Jetty):
    """As many processes as there are workers, each at a port of its own."""

    start_seconds = 180
    masters = 0

    def launch(self):
        self.ports = {self.port}
        while len(self.ports) < self.workers:
            self.ports.add(self.place.port())
        *first, _, webapp = self.arguments()
        for port in self.ports:
            self.spawn([*first, str(port), webapp])

    def answers(self):
        return super().answers() and all(takes_connections(self.place.host, port) for port in self.ports)


# For each language how many workers, ours, and the peers.
KINDS = [
    (COUNT, languages.PHP, [NginxFpm]),
    (COUNT, languages.PYTHON, [GunicornPreloaded, UwsgiPython]),
    (COUNT, languages.RUBY, [Puma, Unicorn]),
    (COUNT, languages.PERL, [Starman, UwsgiPerl]),
    (COUNT, languages.NODE, [Cluster]),
    (COUNT_OF_JAVA, languages.JAVA, [JettyEach]),
    (COUNT, languages.WASM, []),
    (COUNT, languages.GO, []),
]


def p39(context):
    """All the processes of a server, divided among its idle workers; one server after the other."""
    facts = []
    for full, own, peers in KINDS:
        count = context.scale(full, 4)
        for kind in (*peers, own):
            for server in context.start([(kind, count, None)]):
                facts.append(weigh(server, own, count))
                say(f"  {facts[-1]}")
            context.stop()
    note = ("Memory of all processes (PSS), divided by the workers; private is what no other process has (USS). "
            "Workers are forks of a process that has loaded the application, but for Node.js, Java and Go; 20 of Java, beside as many plain Jettys.")
    return {"id": "P39", "title": f"{context.scale(COUNT, 4)} idle workers of each language: memory", "note": note,
            "facts": {"idle workers": facts},
            "target": "no more memory than the peers' workers"}, verdict(facts)


def weigh(server, language, count):
    """The memory of a server once all its workers are there."""
    def are_there():
        return sum(len(tree(root)) for root in server.roots) >= count + getattr(server, "masters", 1)

    wait_until(are_there, 120, f"{count} workers of {server.name}")
    languages.ask(server, language.page)
    total = settled_mib(server)
    private = [size for root in server.roots for size in private_bytes(root).values()]
    return {"language": language.language, "server": server.name, "workers": count, "processes": len(private), "mib_per_worker": round(total / count, 2),
            "private_mib_per_worker": round(sum(private) / count / 1024 / 1024, 2), "total_mib": round(total, 1)}


def verdict(facts):
    """A check for each peer."""
    checks = []
    for _, own, peers in KINDS:
        sizes = {fact["server"]: fact["mib_per_worker"] for fact in facts if fact["language"] == own.language}
        for peer in peers:
            text = f"{own.language}: memory ≤ 1.0 × {peer.label}'s"
            if own.label in sizes and peer.label in sizes:
                value = sizes[own.label] / sizes[peer.label]
                checks.append(Check(f"{text}: {value:.2f}", value <= 1.0))
            else:
                checks.append(Check(f"{text}: not measured", None))
    return checks
