"""Cases that are no load test: idle workers (P8), idle connections (P11), the transport alone (P12), metrics (P41) and a rate limit (P44) alone."""

import re
import shutil
import signal
import subprocess
import time

from .loads import Hold, Wrk
from .measure import Check, say, settled_mib
from .processes import cpu_seconds, private_bytes, pss_bytes, tree
from .servers import Apache, NginxCached, NginxFpm, Tutti


def p8(context):
    """Idle workers cost nothing but their memory; a small site is small."""
    count = context.scale(500, 50)
    idle, small = [], []
    for server in context.start([(NginxFpm, count, None), (Apache, count, None), (Tutti, count, None)]):
        settled = settled_mib(server)
        before = sum(map(cpu_seconds, server.roots))
        seconds = context.scale(10, 2)
        time.sleep(seconds)
        used = sum(map(cpu_seconds, server.roots)) - before
        idle.append({"server": server.name, "workers": count, "cpu_seconds": round(used, 3), "over_seconds": seconds,
                     "total_mib": round(settled, 1), "mib_per_worker": round(settled / count, 2),
                     "processes": sum(len(pss_bytes(root)) for root in server.roots)})
        say(f"  {idle[-1]}")
    context.stop()
    for server in context.start([(NginxFpm, 4, None), (Apache, 64, "apache + mod_php, 64 processes"), (Tutti, 4, None)]):
        for path in ("/hello.php", "/json.php", "/file-1k.txt"):
            Wrk(1, 64, context.seconds).run(server.url(path))
        settled = settled_mib(server)
        private = sum(sum(private_bytes(root).values()) for root in server.roots) / 1024 / 1024
        small.append({"server": server.name, "total_mib": round(settled, 1), "private_mib": round(private, 1)})
        say(f"  {small[-1]}")
    context.stop()
    mine = next((fact for fact in idle if fact["server"] == Tutti.label), None)
    site = next((fact for fact in small if fact["server"] == Tutti.label), None)
    checks = [Check(f"{count} idle workers use no CPU: not measured", None)]
    if mine and site:
        checks = [
            Check(f"{count} idle workers use no CPU: {mine['cpu_seconds']} s in {mine['over_seconds']} s", mine["cpu_seconds"] <= 0.01),
            Check(f"≤ 3 MB each, router and all divided among them: {mine['mib_per_worker']}", mine["mib_per_worker"] <= 3),
            Check(f"4-worker site after load ≤ 24 MB: {site['total_mib']}", site["total_mib"] <= 24),
            Check(f"second round: private memory of that site ≤ 20 MB: {site['private_mib']}", site["private_mib"] <= 20),
        ]
    return {"id": "P8", "title": f"{count} idle workers; memory of a 4-worker PHP site", "facts": {"idle workers": idle, "site after load": small},
            "target": "no CPU when idle, ≤ 3 MB PSS each; ≤ 24 MB for all processes of a 4-worker site after load"}, checks


def p11(context):
    """Idle keep-alive connections: growth of the server's whole PSS."""
    count = context.scale(10_000, 1_000)
    facts = []
    for server in context.start([(NginxCached, 0, None), (Tutti, 0, None)]):
        Wrk(1, 64, 1).run(server.url("/file-1k.txt"))
        before = settled_mib(server)
        with Hold(context.load_program, server.url("/file-1k.txt"), count) as held:
            during = settled_mib(server)
            end = held.release()
        facts.append({"server": server.name, "connections": held.ready["ready"], "before_mib": round(before, 1),
                      "during_mib": round(during, 1), "growth_mib": round(during - before, 1), "closed": end["closed"],
                      "refused": end["refused"]})
        say(f"  {facts[-1]}")
    context.stop()
    mine = next((fact for fact in facts if fact["server"] == Tutti.label), None)
    limit = 15 * count / 10_000
    checks = [Check(f"growth ≤ {limit:g} MB: not measured", None)]
    if mine:
        checks = [Check(f"growth ≤ {limit:g} MB: {mine['growth_mib']}", mine["growth_mib"] <= limit),
                  Check(f"all {count:,} held: {mine['connections'] - mine['closed']:,}", mine["connections"] - mine["closed"] == count)]
    return {"id": "P11", "title": f"{count:,} idle keep-alive connections", "facts": {"memory": facts},
            "target": "router's PSS + ≤ 15 MB for 10,000"}, checks


def p12(context):
    """The transport alone: the micro-benchmark of `crates/wire`, which holds a bare ping-pong beside it."""
    title = {"id": "P12", "title": "transport round trip", "target":
             "≤ 1 µs median with the worker awake and no system call; asleep on the other core ≤ 1.2 × a bare futex ping-pong of the same run"}
    if not shutil.which("cargo"):
        return {**title, "facts": {}}, [Check("cargo is not there: not measured", None)]
    output = subprocess.run(["cargo", "bench", "-q", "-p", "tutti-wire", "--features", "bench", "--bench", "transport"], cwd=context.root,
                            capture_output=True, text=True, check=False)
    if output.returncode:
        return {**title, "facts": {}}, [Check(f"the micro-benchmark failed: {output.stderr[-500:]}", None)]
    facts = read_transport(output.stdout)
    return {**title, "facts": {"round trips": facts}}, transport_checks(facts)


def p41(context):
    """Metrics: the micro-benchmark of `crates/request-log`, which counts a request."""
    return _micro(context, {"id": "P41", "title": "metrics of a request", "target": "≤ 0.3 µs of CPU a request"}, "tutti-request-log", "count")


def p44(context):
    """A rate limit: the micro-benchmark of `crates/guard`."""
    return _micro(context, {"id": "P44", "title": "a rate limit", "target": "≤ 0.3 µs a request, 1,000,000 keys in ≤ 100 MB"}, "tutti-guard", "rate")


def _micro(context, title, package, bench):
    """The time of one, told by a micro-benchmark of a crate; at most 0.3 µs."""
    if not shutil.which("cargo"):
        return {**title, "facts": {}}, [Check("cargo is not there: not measured", None)]
    output = subprocess.run(["cargo", "bench", "-q", "-p", package, "--bench", bench], cwd=context.root, capture_output=True, text=True, check=False)
    if output.returncode:
        return {**title, "facts": {}}, [Check(f"the micro-benchmark failed: {output.stderr[-500:]}", None)]
    facts = read_transport(output.stdout)
    return {**title, "facts": {"time of one": facts}}, limit_checks(facts, output.stdout)


def limit_checks(facts, text):
    checks = [Check(f"{fact['what']} ≤ 300 ns: {fact['median_ns']}", fact["median_ns"] <= 300) for fact in facts]
    memory = re.search(r"memory of 1000000 keys\s+(\d+) KiB", text)
    if memory:
        mib = int(memory[1]) / 1024
        checks.append(Check(f"1,000,000 keys ≤ 100 MB: {mib:.1f}", mib <= 100))
    return checks or [Check("the micro-benchmark printed nothing known: not measured", None)]


def read_transport(text):
    """Lines such as `awake: round trip, 1 workers   median 1371 ns (1340..1472)  p99 1618 ns`."""
    pattern = r"^(.+?)\s+median\s+(\d+) ns \((\d+)\.\.(\d+)\)\s+p99\s+(\d+) ns"
    return [{"what": what, "median_ns": int(median), "least_ns": int(least), "most_ns": int(most), "p99_ns": int(p99)}
            for what, median, least, most, p99 in re.findall(pattern, text, re.M)]


def transport_checks(facts):
    medians = {fact["what"]: fact["median_ns"] for fact in facts}
    checks = []
    awake = medians.get("awake: round trip, 1 workers")
    if awake:
        checks.append(Check(f"awake ≤ 1 µs median: {awake / 1000:.2f}", awake <= 1000))
    bare = medians.get("asleep: bare ping-pong")
    for what, median in medians.items():
        if bare and what.startswith("asleep: round trip"):
            checks.append(Check(f"{what} ≤ 1.2 × bare futex ping-pong: {median / bare:.2f}", median <= 1.2 * bare))
    return checks or [Check("the micro-benchmark printed nothing known: not measured", None)]


def s1(context):
    """System calls per request, counted by strace: under load one read and one write on the client's socket are enough."""
    pages = ("/return", "/file-1k.txt", "/hello.php")
    title = {"id": "S1", "title": "system calls per request, all processes of the server, 64 connections",
             "target": "two on a kept connection: one read, one write (epoll_wait is shared by many under load; strace slows the server and makes it rarer)"}
    if not shutil.which("strace"):
        return {**title, "facts": {}}, [Check("strace is not installed: not measured", None)]
    facts = []
    for server in context.start([(NginxFpm, 4, None), (Tutti, 4, None)]):
        for path in pages:
            counts, requests = _count_calls(server, path)
            most = sorted(counts.items(), key=lambda item: -item[1])[:8]
            facts.append({"server": server.name, "path": path, "calls_per_request": round(sum(counts.values()) / requests, 2),
                          "which": ", ".join(f"{name} {count / requests:.2f}" for name, count in most if count / requests >= 0.005)})
            say(f"  {facts[-1]}")
    context.stop()
    # Under strace every process is so slow that workers sleep between requests, which they do not under load: no verdict there.
    checks = [Check(f"{fact['path']}: {fact['calls_per_request']} calls", fact["calls_per_request"] <= 2.5)
              for fact in facts if fact["server"] == Tutti.label and not fact["path"].endswith(".php")]
    return {**title, "facts": {"calls": facts}}, checks or [Check("not measured", None)]


def _count_calls(server, path):
    """({call: count}, requests) of one short load under strace."""
    Wrk(1, 64, 1).run(server.url(path))
    report = server.folder / "strace"
    targets = [argument for root in server.roots for pid in tree(root) for argument in ("-p", str(pid))]
    tracer = subprocess.Popen(["strace", "-f", "-c", "-o", str(report), *targets], stderr=subprocess.PIPE, text=True)
    try:
        for _ in targets[::2]:
            tracer.stderr.readline()  # "strace: Process N attached", once for each
        sample = Wrk(1, 64, 2).run(server.url(path))
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(30)
    counts = {}
    for line in report.read_text().splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[0].replace(".", "").isdigit() and fields[-1] != "total":
            counts[fields[-1]] = int(fields[3])
    return counts, max(1, sample.requests)
