"""The points of `docs/project/performance.md`: for each its peers, its loads, and what is to be reached.

A case is data (`Case`) where interleaved rounds say it all; those that look at something else (idle memory,
held connections, the transport alone) are functions in `special.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from .loads import Ab, H2load, Paced, Wrk
from .measure import Check, Table
from .servers import (Apache, Floor, GoAlone, H2o, Nginx, NginxCached, NginxFpm, NginxFpmKept, NginxFpmSpare, NginxHttp2, NginxHttp2Cached, Tutti, TuttiGo,
                      TuttiResident, TuttiResidentLumen, TuttiResidentSlim, TuttiResidentYii, TuttiResidentYiiAdapter, TuttiSite)

TUTTI = Tutti.label
RESIDENT = TuttiResident.label
FPM = NginxFpm.label
FPM_KEPT = NginxFpmKept.label
FPM_SPARE = NginxFpmSpare.label


def equal(one, other):
    return one == other


def equal_or_floor(one, other):
    """The floor answers everything with an empty body."""
    return one == other or not one or not other


def both_phpinfo(one, other):
    """phpinfo names its server, so only the shape can be the same."""
    return b"PHP Version" in one and b"PHP Version" in other and abs(len(one) - len(other)) < 2048


@dataclass
class Case:
    """Servers as (class, workers, title or None); loads as (generator, path)."""

    id: str
    title: str
    target: str
    servers: list
    loads: list
    verdict: Callable[[Table], list]
    rounds: int | None = None
    is_alike: Callable = equal
    place: str = "loopback"
    note: str = ""
    extra: dict = field(default_factory=dict)


def ratio(table, key, load, path, at_least=None, at_most=None, peer=Nginx.label, own=TUTTI):
    """A check of `own`'s median over `peer`'s."""
    mine, theirs = table.find(own, load, path), table.find(peer, load, path)
    what = {"rps": "req/s", "cpu_us": "CPU µs/req"}.get(key, key)
    bound = f"≥ {at_least}" if at_least is not None else f"≤ {at_most}"
    whose = "" if own == TUTTI else f"{own}: "
    label = f"{whose}{what} {bound} × {peer} ({load}, {path})"
    # A quick run on a busy machine may have had no answer at all.
    if not mine or not theirs or not theirs.median(key):
        return Check(f"{label}: not measured", None)
    value = mine.median(key) / theirs.median(key)
    is_reached = value >= at_least if at_least is not None else value <= at_most
    return Check(f"{label}: {value:.2f}", is_reached)


def no_errors(table, own=TUTTI, loads=None):
    """A check of all loads, or of those with these names."""
    rows = [row for row in table.rows if row.server == own and row.samples and (loads is None or row.load in loads)]
    if not rows:
        return Check("no error: not measured", None)
    count = sum(row.total("errors") for row in rows)
    return Check(f"no error: {count} in {sum(row.total('requests') for row in rows):,} requests", count == 0)


def p1(context):
    loads = [(Wrk(1, 64, context.seconds), "/return"), (Wrk(2, 256, context.seconds), "/return")]

    def verdict(table):
        checks = []
        for load, path in loads:
            checks.append(ratio(table, "rps", load.name, path, at_least=0.97))
            checks.append(ratio(table, "cpu_us", load.name, path, at_most=1.05))
        return [*checks, no_errors(table)]

    return Case("P1", "`return 200`, no body", "≥ 0.97 × nginx, CPU ≤ 1.05 ×, at 64 and 256 connections",
                [(Floor, 0, None), (Nginx, 0, None), (Tutti, 0, None)], loads, verdict,
                note="The floor program reads and answers without parsing; its answer is the shortest of the three.")


def p2(context):
    load = Wrk(1, 64, context.seconds)
    path = "/file-1k.txt"

    def verdict(table):
        peers = (NginxCached.label, Nginx.label)
        return [*(ratio(table, "rps", load.name, path, at_least=1.2, peer=peer) for peer in peers),
                *(ratio(table, "cpu_us", load.name, path, at_most=0.75, peer=peer) for peer in peers), no_errors(table)]

    return Case("P2", "file of 1 KB", "≥ 1.2 × nginx, CPU ≤ 0.75 ×",
                [(Nginx, 0, None), (NginxCached, 0, None), (Tutti, 0, None)], [(load, path)], verdict)


def p3(context):
    load = Wrk(1, 64, context.seconds)
    path = "/file-100k.txt"

    def verdict(table):
        peer = NginxCached.label
        return [ratio(table, "rps", load.name, path, at_least=1.0, peer=peer),
                ratio(table, "cpu_us", load.name, path, at_most=1.0, peer=peer), no_errors(table)]

    return Case("P3", "file of 100 KB", "≥ 1.0 × nginx, CPU ≤ 1.0 ×",
                [(Nginx, 0, None), (NginxCached, 0, None), (Tutti, 0, None)], [(load, path)], verdict)


def p4(context, place, at_least):
    load = Wrk(1, 16, context.seconds)
    path = "/file-10m.bin"

    def verdict(table):
        checks = [ratio(table, "rps", load.name, path, at_least=at_least, peer=NginxCached.label), no_errors(table)]
        if place == "veth":
            # P45.
            checks += [ratio(table, "rps", load.name, path, at_least=1.2, peer=NginxCached.label),
                       ratio(table, "cpu_us", load.name, path, at_most=1.0, peer=NginxCached.label)]
        return checks

    where = {"veth": "over a veth pair", "loopback": "over loopback"}[place]
    return Case(f"P4-{place}", f"file of 10 MB {where}", f"≥ {at_least} × nginx" + ("; P45: CPU ≤ 1.0 × at ≥ 1.2 × its rate" if place == "veth" else ""),
                [(NginxCached, 0, None), (Tutti, 0, None)], [(load, path)], verdict, place=place)


def p5(context):
    load = Wrk(1, 64, context.seconds)
    loads = [(load, "/hello.php"), (load, "/json.php")]

    def verdict(table):
        checks = []
        for _, path in loads:
            checks.append(ratio(table, "rps", load.name, path, at_least=2.2, peer=FPM_KEPT))
            checks.append(ratio(table, "cpu_us", load.name, path, at_most=0.45, peer=FPM_KEPT))
        return [*checks, no_errors(table)]

    return Case("P5", "PHP hello and JSON, 4 workers", "≥ 2.2 × nginx + FPM with keep-alive FastCGI, CPU ≤ 0.45 ×",
                [*((server, 4, None) for server in (NginxFpm, NginxFpmKept, NginxFpmSpare)), (Apache, 64, "apache + mod_php, 64 processes"), (Tutti, 4, None)],
                loads, verdict, note="A kept connection holds an Apache process, so it has one for each of the 64.")


def p22(context):
    load = Wrk(1, 64, context.seconds)
    path = "/hello.php"

    def verdict(table):
        row = table.find(RESIDENT, load.name, path)
        cpu = row.median("cpu_us") if row else None
        return [Check("CPU ≤ 15 µs: not measured", None) if cpu is None else Check(f"CPU ≤ 15 µs a request: {cpu:.1f}", cpu <= 15),
                Check("CPU ≤ 10 µs: not measured", None) if cpu is None else Check(f"second round: CPU ≤ 10 µs a request: {cpu:.1f}", cpu <= 10),
                ratio(table, "rps", load.name, path, at_least=1.0, peer=TUTTI, own=RESIDENT), no_errors(table, RESIDENT)]

    return Case("P22", "resident PHP hello, 4 workers", "≥ 1.5 × Swoole's process mode where it can be had, CPU ≤ 15 µs a request",
                [(NginxFpmKept, 4, None), (Tutti, 4, None), (TuttiResident, 4, None)], [(load, path)], verdict,
                note="Swoole is neither in Debian nor in a registry at hand: its figure on another machine was 23.5 µs a request.")


def p23(context, framework, resident, at_least, classic_at_least):
    load = Wrk(1, 64, context.seconds)
    path = f"/{framework}/index.php"

    def verdict(table):
        return [ratio(table, "rps", load.name, path, at_least=at_least, peer=FPM_KEPT, own=RESIDENT),
                ratio(table, "rps", load.name, path, at_least=classic_at_least, peer=FPM_KEPT),
                no_errors(table), no_errors(table, RESIDENT)]

    return Case(f"P23-{framework}", f"scenario 3: a route of {framework.capitalize()}, 4 workers",
                f"resident ≥ {at_least} × nginx + FPM, classic ≥ {classic_at_least} ×",
                [(NginxFpmKept, 4, None), (Tutti, 4, None), (resident, 4, None)], [(load, path)], verdict)


def p23_slim(context):
    return p23(context, "slim", TuttiResidentSlim, at_least=3.0, classic_at_least=1.3)


def p23_lumen(context):
    return p23(context, "lumen", TuttiResidentLumen, at_least=5.0, classic_at_least=1.0)


def p23_yii(context):
    load = Wrk(1, 64, context.seconds)
    path = "/yii/web/index.php"
    adapter = TuttiResidentYiiAdapter.label

    def verdict(table):
        return [ratio(table, "rps", load.name, path, at_least=5.0, peer=FPM_KEPT, own=adapter),
                ratio(table, "rps", load.name, path, at_least=1.8, peer=FPM_KEPT, own=RESIDENT),
                no_errors(table), no_errors(table, RESIDENT), no_errors(table, adapter)]

    return Case("P23-yii", "a JSON action of the shape of Yii 2, 4 workers",
                "resident by the adapter ≥ 5 × nginx + FPM, front controller as it is ≥ 1.8 ×",
                [(NginxFpmKept, 4, None), (Tutti, 4, None), (TuttiResidentYii, 4, None), (TuttiResidentYiiAdapter, 4, None)], [(load, path)], verdict,
                note="Yii itself is on Packagist only: the shape (tests/conformance/php/fronts/yii) includes the same kinds of files, but far fewer.")


def p6(context):
    count = context.scale(10_000, 1_000)
    loads = [(Ab(count, concurrency), "/missing") for concurrency in (20, 50, 100)]
    loads.append((Wrk(4, 50, context.seconds), "/missing"))

    def verdict(table):
        checks = []
        for load, path in loads:
            for peer in (FPM_SPARE, FPM, Apache.label):
                checks.append(ratio(table, "rps", load.name, path, at_least=1.0, peer=peer))
            checks.extend(tail(table, load.name, path))
        return [*checks, no_errors(table)]

    return Case("P6", "scenario 1: phpinfo page through share + fallback", "ahead at 20, 50 and 100 connections; p99 < 5 × median, slowest < 20 × median",
                [(NginxFpm, 8, None), (NginxFpmSpare, 8, None), (Apache, 100, None), (TuttiSite, 8, None)], loads, verdict,
                is_alike=both_phpinfo, note="8 workers each, Apache up to 100 processes. ab opens a connection for each request.")


def tail(table, load, path, own=TUTTI):
    row = table.find(own, load, path)
    if not row:
        return [Check(f"tail ({load}): not measured", None)]
    # ab gives whole milliseconds: a median of 0 means under one.
    p50 = max(row.median("p50"), 0.5)
    p99, slowest = row.median("p99") / p50, row.median("max") / p50
    return [Check(f"p99 < 5 × median ({load}): {p99:.1f}", p99 < 5), Check(f"slowest < 20 × median ({load}): {slowest:.1f}", slowest < 20)]


def p7(context):
    few, many = "4 workers", context.scale("100 workers", "20 workers")
    count = context.scale(100, 20)
    load = Wrk(1, context.scale(1000, 200), context.seconds)
    path = "/hello.php"

    def verdict(table):
        few_name, many_name = f"tutti, {few}", f"tutti, {many}"
        return [ratio(table, "rps", load.name, path, at_least=0.95, peer=few_name, own=many_name), no_errors(table, many_name)]

    return Case("P7", f"scenario 5's shape with PHP: 4 against {count} workers", "≥ 0.95 of the req/s with 4 workers, no error",
                [(NginxFpm, 4, f"{FPM}, {few}"), (NginxFpm, count, f"{FPM}, {many}"),
                 (Tutti, 4, f"tutti, {few}"), (Tutti, count, f"tutti, {many}")], [(load, path)], verdict)


def p9(context):
    few, many = Wrk(1, 64, context.seconds), Wrk(1, context.scale(10_000, 1_000), context.scale(10, 2))
    path = "/json.php"

    def verdict(table):
        mine, floor = kept(table, TUTTI), kept(table, Floor.label)
        if mine is None or floor is None:
            return [Check("req/s against 64 connections: not measured", None), no_errors(table)]
        return [Check(f"req/s ≥ 0.8 of that at 64 connections: {mine:.2f}", mine >= 0.8),
                Check(f"second round: ≥ 0.95 × what the floor keeps of its rate ({floor:.2f}): {mine / floor:.2f}", mine >= 0.95 * floor),
                no_errors(table)]

    def kept(table, server):
        """Returns what is left of the rate at 64 connections."""
        at_many, at_few = table.find(server, many.name, path), table.find(server, few.name, path)
        return at_many.median("rps") / at_few.median("rps") if at_many and at_few else None

    return Case("P9", "scenario 2: PHP JSON, 10,000 connections, 20 workers", "every answer 200, req/s ≥ 0.8 of that at 64 connections",
                [(Floor, 0, None), (NginxFpm, 20, None), (NginxFpmSpare, 20, None), (Tutti, 20, None)], [(few, path), (many, path)], verdict,
                rounds=context.scale(3, 1), is_alike=equal_or_floor,
                note="The floor program, which only answers, shows what wrk's single thread and the kernel leave at 10,000 connections.")


def p10(context):
    clients, workers = context.scale(5_000, 500), context.scale(500, 50)
    load = Paced(context.load_program, clients, 5.0, context.scale(40, 6))
    path = "/sleep.php"

    def verdict(table):
        row = table.find(TUTTI, load.name, path)
        if not row:
            return [Check("not measured", None)]
        rate, p99 = row.median("rps"), row.median("p99")
        wanted = clients / 5
        return [Check(f"steady {wanted:,.0f} req/s: {rate:,.1f}", rate >= 0.995 * wanted),
                Check(f"p99 < 750 ms: {p99:.0f}", p99 < 750), no_errors(table)]

    return Case("P10", f"scenario 7: {clients:,} clients, a request each 5 s, PHP sleeping 500 ms, {workers} workers",
                "1,000 req/s, no error, p99 < 0.75 s",
                [(NginxFpm, workers, None), (NginxFpmSpare, workers, None), (Apache, workers, None), (Tutti, workers, None)],
                [(load, path)], verdict, rounds=1, note="500 workers that sleep 500 ms serve exactly 1,000 req/s: there is no spare.")


def p20(context):
    loads = [(Wrk(1, 64, context.seconds), "/hello"), (Wrk(1, 64, context.seconds), "/json"), (Wrk(1, 64, context.seconds), "/large")]

    def verdict(table):
        checks = [ratio(table, "cpu_us", load.name, path, at_most=1.3, peer=GoAlone.label, own=own)
                  for load, path in loads[:1] for own in (TuttiGo.label, "tutti, Go, 2 processes")]
        return [*checks, no_errors(table, TuttiGo.label)]

    return Case("P20", "Go: hello, JSON and 100 KiB, beside the same program alone", "CPU ≤ 1.3 × `net/http` for the hello",
                [(GoAlone, 1, None), (TuttiGo, 1, None), (TuttiGo, 2, "tutti, Go, 2 processes")], loads, verdict,
                note="CPU of all processes, Tutti's router included.")


def p26(context):
    loads = [(H2load(4, 100, context.seconds), "/file-1k.txt"), (H2load(4, 100, context.seconds), "/return")]

    def verdict(table):
        checks = [ratio(table, "rps", loads[0][0].name, loads[0][1], at_least=1.2, peer=peer)
                  for peer in (NginxHttp2.label, NginxHttp2Cached.label)]
        checks.append(ratio(table, "rps", loads[1][0].name, loads[1][1], at_least=1.0, peer=NginxHttp2.label))
        return [*checks, no_errors(table)]

    return Case("P26", "HTTP/2: file of 1 KB, 100 streams", "≥ 1.2 × nginx",
                [(NginxHttp2, 0, None), (NginxHttp2Cached, 0, None), (H2o, 0, None), (Tutti, 0, None)], loads, verdict,
                note="4 connections without TLS, 100 requests at once on each.")


def all_cases(context):
    """In the order of docs/project/performance.md; the special ones are added by the runner."""
    return [p1(context), p2(context), p3(context), p4(context, "veth", 1.0), p4(context, "loopback", 1.8), p5(context), p6(context),
            p7(context), p9(context), p10(context), p20(context), p22(context), p26(context), p23_slim(context), p23_lumen(context),
            p23_yii(context)]
