"""The lone request (P50): few connections, and open loops at fixed rates, where nothing comes in batches and caches are cold.

Each language beside what serves in the application's own process, PHP beside nginx and FPM. A row has, besides the servers' processor time, the
part of Tutti's router and how often its threads were switched to.
"""

from .cases import FPM, FPM_KEPT, TUTTI, Case, no_errors, ratio
from .loads import Paced, Wrk
from .measure import Check
from .node import Cluster, TuttiNode, on_express
from .python import FastPySgi, TuttiPython, of
from .servers import NginxFpm, NginxFpmKept, Tutti

CLOSED = (1, 4, 16)
# An open loop above what a server can do leaves requests out, which is no error of the server.
CLOSED_LOADS = [Wrk(1, connections).name for connections in CLOSED]
# Requests a second, by so many clients.
OPEN = (1_000, 5_000, 20_000)
CLIENTS = 20


def loads(context, path):
    """Closed loops of few connections, then open loops."""
    seconds = max(1, round(context.seconds))
    closed = [Wrk(1, connections, context.seconds) for connections in CLOSED]
    opened = [Paced(context.load_program, CLIENTS, CLIENTS / rate, seconds) for rate in OPEN]
    return [(load, path) for load in [*closed, *opened]]


def at_few(table, path, peer, key, at_most):
    """A check of Tutti's median over the peer's, at one connection and at four."""
    return [ratio(table, key, Wrk(1, count).name, path, at_most=at_most, peer=peer) for count in (1, 4)]


def router_checks(table, load, path):
    """The router's share of a request, and the switches to its threads."""
    row = table.find(TUTTI, load, path)
    if not row or not all("router_us" in sample for sample in row.samples):
        return [Check(f"the router's share ({load}): not measured", None)]
    cpu, switches = row.median("router_us"), row.median("router_switches")
    return [Check(f"the router's share ≤ 12 µs ({load}): {cpu:.1f}", cpu <= 12),
            Check(f"context switches of the router ≤ 1.05 ({load}): {switches:.2f}", switches <= 1.05)]


def php(context):
    path, one = "/hello.php", Wrk(1, 1).name

    def verdict(table):
        return [ratio(table, "cpu_us", one, path, at_most=0.6, peer=FPM), ratio(table, "cpu_us", one, path, at_most=0.6, peer=FPM_KEPT),
                *router_checks(table, one, path), no_errors(table, loads=CLOSED_LOADS)]

    return Case("P50-php", "a lone request: PHP hello, 4 workers", "CPU ≤ 0.6 × nginx + FPM at one connection",
                [(NginxFpm, 4, None), (NginxFpmKept, 4, None), (Tutti, 4, None)], loads(context, path), verdict)


def in_process(context, number, title, servers, peer):
    path, one = "/", Wrk(1, 1).name

    def verdict(table):
        return [*at_few(table, path, peer, "cpu_us", 1.6), *at_few(table, path, peer, "p50", 1.1), *at_few(table, path, peer, "p99", 1.0),
                *router_checks(table, one, path), no_errors(table, loads=CLOSED_LOADS)]

    return Case(number, title, f"CPU ≤ 1.6 × {peer}, p50 ≤ 1.1 × and p99 ≤ 1.0 × its, at 1 and 4 connections",
                [(server, 2, server.label) for server in servers], loads(context, path), verdict)


def cases(context):
    return [
        php(context),
        in_process(context, "P50-wsgi", "a lone request: WSGI hello", [of(server, "wsgi") for server in (FastPySgi, TuttiPython)], FastPySgi.label),
        in_process(context, "P50-flask", "a lone request: Flask hello", [of(server, "app") for server in (FastPySgi, TuttiPython)], FastPySgi.label),
        in_process(context, "P50-node", "a lone request: Node.js hello", [Cluster, TuttiNode], Cluster.label),
        in_process(context, "P50-express", "a lone request: a page by Express", [on_express(Cluster), on_express(TuttiNode)], Cluster.label),
    ]
