"""The start of one process more, of each language (P38): forked from one that has loaded the application, or a runtime started anew."""

import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from . import languages
from .java import HEAP, Jetty
from .manager import change_ms
from .measure import Check, say
from .node import ENVIRONMENT
from .processes import Process, tree, wait_until
from .servers import free_port, go_program, takes_connections
from .wasm import serve, wasmtime_version

FORKED_MS, RUNTIME_RATIO, ARCHIVE_RATIO = 10, 1.3, 0.6
HOST = "127.0.0.1"
NODE_EMPTY, NODE_ALONE, JAVA_EMPTY, JETTY, GO_ALONE, WASMTIME = (
    "node -e 0, to its end", "node, the same script", "java, an empty class, to its end", "plain Jetty, the same servlet", "the same program alone", "wasmtime serve")
EMPTY_CLASS = "public class Empty { public static void main(String[] arguments) {} }\n"


def until_end(arguments):
    """Milliseconds that a program takes from its start to its end."""
    begin = time.monotonic()
    subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return (time.monotonic() - begin) * 1000


def until_listening(arguments_at, log, env=None, word=None):
    """Milliseconds from the start of a program until it takes connections, or has written `word`; `arguments_at` makes its arguments from a port."""
    port = free_port()
    arguments = arguments_at(port)
    log.unlink(missing_ok=True)
    begin = time.monotonic()
    process = Process(arguments, log, env=env)
    try:
        while not (word in log.read_text(errors="replace") if word else takes_connections(HOST, port)):
            if not process.is_alive() or time.monotonic() > begin + 60:
                raise RuntimeError(f"{arguments[0]} does not listen: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.0005)
        return (time.monotonic() - begin) * 1000
    finally:
        process.stop()


class Bare:
    """The runtimes of the languages, without a server of ours: milliseconds of one start, by their names."""

    def __init__(self, folder, site):
        self.folder, self.site = folder / "bare", site
        self.folder.mkdir()
        self.jetty_arguments = None

    def of(self, language):
        return {"Node.js": {NODE_EMPTY: self.node_empty, NODE_ALONE: self.node_alone}, "Java": {JAVA_EMPTY: self.java_empty, JETTY: self.plain_jetty},
                "Go": {GO_ALONE: self.go_alone}, "WebAssembly": {WASMTIME: self.wasmtime} if wasmtime_version() else {}}.get(language, {})

    def log(self, name):
        return self.folder / f"{name}.log"

    def node_empty(self):
        return until_end(["node", "-e", "0"])

    def node_alone(self):
        # By `env`, whose cost is nothing beside: only it knows the port.
        return until_listening(lambda port: ["env", f"HOST={HOST}", f"PORT={port}", "node", str(self.site / "node/hello.js")], self.log("node"),
                               env={**os.environ, **ENVIRONMENT})

    def java_empty(self):
        if not (self.folder / "Empty.class").exists():
            (self.folder / "Empty.java").write_text(EMPTY_CLASS)
            subprocess.run(["javac", "-d", self.folder, self.folder / "Empty.java"], check=True)
        return until_end(["java", HEAP, "-cp", str(self.folder), "Empty"])

    def plain_jetty(self):
        if not self.jetty_arguments:
            jetty = Jetty(self.folder / "jetty", self.site)
            jetty.port = 0
            self.jetty_arguments = jetty.arguments()
        *first, _, webapp = self.jetty_arguments
        return until_listening(lambda port: [*first, str(port), webapp], self.log("jetty"), word="started")

    def go_alone(self):
        return until_listening(lambda port: [go_program(self.folder), f"{HOST}:{port}"], self.log("go"))

    def wasmtime(self):
        return until_listening(lambda port: serve(HOST, port), self.log("wasmtime"))


def without_archive():
    """Java without the archive of the server's classes: with that which each Java has of its own."""
    home = os.environ.get("JAVA_HOME") or Path(shutil.which("java") or "java").resolve().parent.parent
    return languages.of(languages.JAVA, "Java without the archive", "java", "/hello", options=(f"-XX:SharedArchiveFile={home}/lib/server/classes.jsa",))


def one_more(server, before):
    """Milliseconds from asking for one process more until it is up; then it leaves, and is waited for."""
    (root,) = server.roots
    count = len(tree(root))
    taken = change_ms(server, before + 1, server.in_configuration)
    change_ms(server, before, server.in_configuration)
    wait_until(lambda: len(tree(root)) <= count, 60, f"{server.name}: a process that is to leave")
    return taken


FORKED = (languages.PHP, languages.PYTHON, languages.RUBY, languages.PERL, languages.WASM)
STARTED = (languages.NODE, languages.JAVA, languages.GO)


def p38(context):
    """One process more, asked of the control API; in turn with the runtimes by themselves."""
    without = without_archive()
    servers = context.start([*((server, 2, None) for server in FORKED), *((server, 1, None) for server in (*STARTED, without))])
    bare = Bare(context.folder, context.site)
    for server in servers:
        languages.ask(server, server.page)
    times = {}
    # The first round is for what is loaded from disk once.
    for number in range(context.scale(10, 2) + 1):
        for server in servers:
            taken = {server.name: one_more(server, server.workers)}
            taken |= {what: measure() for what, measure in bare.of(server.language).items()}
            if isinstance(server, languages.PHP):
                taken[f"{server.name}, the same change when none is missing"] = change_ms(server, server.workers)
            for what, value in taken.items():
                if number:
                    times.setdefault(what, []).append(value)
                say(f"  round {number}: {what:36} {value:8.1f} ms")
    context.stop()
    facts = [{"start": what, "median_ms": round(statistics.median(values), 1), "least_ms": round(min(values), 1), "most_ms": round(max(values), 1)}
             for what, values in times.items()]
    note = ("Of a server: from the change of `processes` until `/status`, which waits for it, says that the new process is up. "
            "Of a program alone: until it listens.")
    return {"id": "P38", "title": "the start of one process more, of each language", "note": note, "facts": {"starts": facts},
            "target": f"≤ {FORKED_MS} ms from a loaded application; started anew ≤ {RUNTIME_RATIO} × the bare runtime; "
                      f"Java with the archive of classes ≤ {ARCHIVE_RATIO} × without"}, verdict(facts, without.label)


def verdict(facts, without):
    """The checks; `without` is the label of the Java that has no archive."""
    medians = {fact["start"]: fact["median_ms"] for fact in facts}
    checks = []
    for server in FORKED:
        taken = medians.get(server.label)
        text = f"{server.language}: a new process takes requests within {FORKED_MS} ms"
        checks.append(Check(f"{text}: {taken}", taken <= FORKED_MS) if taken is not None else Check(f"{text}: not measured", None))
    pairs = [(languages.NODE, NODE_EMPTY), (languages.NODE, NODE_ALONE), (languages.JAVA, JETTY), (languages.GO, GO_ALONE)]
    checks += [at_most(medians, server.label, peer, RUNTIME_RATIO) for server, peer in pairs]
    return [*checks, at_most(medians, languages.JAVA.label, without, ARCHIVE_RATIO)]


def at_most(medians, own, peer, bound):
    """A check of one start beside another."""
    text = f"{own} ≤ {bound} × {peer}"
    if own not in medians or peer not in medians:
        return Check(f"{text}: not measured", None)
    value = medians[own] / medians[peer]
    return Check(f"{text}: {value:.2f}", value <= bound)
