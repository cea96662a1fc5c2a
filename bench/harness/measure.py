"""Runs one case: all its servers up, the same bytes from each, then interleaved rounds, medians and ranges."""

import statistics
import sys
import time
from dataclasses import asdict, dataclass, field

from .processes import cpu_seconds, machine_busy_seconds, pss_bytes, router_cost


@dataclass
class Check:
    """One sentence of a verdict: `ok` is None when it could not be measured."""

    text: str
    ok: bool | None


@dataclass
class Row:
    """All samples of one server under one load."""

    server: str
    load: str
    path: str
    samples: list = field(default_factory=list)
    pss_mib: float | None = None

    def median(self, key):
        return statistics.median(sample[key] for sample in self.samples)

    def range(self, key):
        values = [sample[key] for sample in self.samples]
        return min(values), max(values)

    def total(self, key):
        return sum(sample[key] for sample in self.samples)


class Table:
    """The rows of a case, found by server label and load name."""

    def __init__(self):
        self.rows = []
        self.facts = {}

    def row(self, server, load, path):
        for row in self.rows:
            if (row.server, row.load, row.path) == (server, load, path):
                return row
        self.rows.append(Row(server, load, path))
        return self.rows[-1]

    def find(self, server, load=None, path=None):
        for row in self.rows:
            if row.server == server and load in (None, row.load) and path in (None, row.path) and row.samples:
                return row
        return None

    def loads(self):
        return list(dict.fromkeys((row.load, row.path) for row in self.rows))


def say(text):
    print(text, file=sys.stderr, flush=True)


def sample(server, load, path):
    """One load against one server, with what it cost the server's processes."""
    router_before = router_cost(server.roots)
    server_before = sum(map(cpu_seconds, server.roots))
    busy_before = machine_busy_seconds()
    result = load.run(server.url(path), getattr(server, "client_prefix", ()))
    busy = machine_busy_seconds() - busy_before
    used = sum(map(cpu_seconds, server.roots)) - server_before
    record = asdict(result)
    record["cpu_us"] = used / result.requests * 1e6 if result.requests else float("nan")
    if router_before and result.requests:
        cpu, switches = (after - before for after, before in zip(router_cost(server.roots), router_before))
        record |= {"router_us": cpu / result.requests * 1e6, "router_switches": switches / result.requests}
    record["foreign_cores"] = max(0.0, (busy - used - result.load_cpu) / result.seconds)
    return record


def interleave(table, servers, loads, rounds, warm_up):
    """A B C A B C…: what the machine does meanwhile meets every server alike."""
    for load, path in loads:
        for server in servers:
            warm_up(server, load, path)
    for number in range(rounds):
        for load, path in loads:
            for server in servers:
                record = sample(server, load, path)
                table.row(server.name, load.name, path).samples.append(record)
                say(f"  round {number + 1}: {server.name:32} {load.name:18} {path:12} "
                    f"{record['rps']:10,.0f} req/s  p99 {record['p99']:8.2f} ms  {record['cpu_us']:7.1f} µs"
                    f"{'  ERRORS ' + str(record['detail']) if record['errors'] else ''}")


def same_bytes(servers, path, is_alike):
    """Every server must answer 200 and the same body; returns the differences found."""
    answers = {server.name: server.get(path) for server in servers}
    problems = [f"{name} answered {status} to {path}" for name, (status, _) in answers.items() if status != 200]
    bodies = {name: body for name, (status, body) in answers.items() if status == 200}
    first = next(iter(bodies.items()), None)
    for name, body in bodies.items():
        if not is_alike(first[1], body):
            problems.append(f"{path}: {name} answers {len(body)} bytes unlike {first[0]} ({len(first[1])})")
    return problems


def memory_mib(server):
    """PSS of all the server's processes."""
    return sum(sum(pss_bytes(root).values()) for root in server.roots) / 1024 / 1024


def settled_mib(server):
    """Memory once two readings a second apart agree."""
    last = memory_mib(server)
    for _ in range(10):
        time.sleep(1)
        now = memory_mib(server)
        if abs(now - last) < 0.1:
            break
        last = now
    return now
