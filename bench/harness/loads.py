"""The load generators: wrk, ab, h2load, and our own clients (open loop, HTTP/3, handshakes). Each returns the same Sample fields."""

import json
import re
import resource
import signal
import subprocess
import time
from dataclasses import dataclass, field

_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}


@dataclass
class Sample:
    """The outcome of one load. Times in milliseconds; `errors` is everything that was not a good answer."""

    requests: int
    rps: float
    p50: float
    p99: float
    max: float
    errors: int
    detail: dict = field(default_factory=dict)
    load_cpu: float = 0.0
    seconds: float = 0.0
    p90: float = 0.0  # where the generator tells it


def _run(arguments, prefix=(), timeout=600):
    """Runs a generator; returns (what it printed, {"seconds": wall, "load_cpu": CPU seconds it used})."""
    begin, before = time.monotonic(), _children_cpu()
    popen = subprocess.Popen([*prefix, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             preexec_fn=_more_descriptors)
    try:
        output, errors = popen.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.communicate()
        raise
    cost = {"seconds": time.monotonic() - begin, "load_cpu": _children_cpu() - before}
    if popen.returncode != 0:
        raise RuntimeError(f"{arguments[0]} failed ({popen.returncode}): {errors.strip() or output.strip()}")
    return output + errors, cost


def _children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _more_descriptors():
    """In the child, before it becomes the generator: all descriptors, and signals as everybody else has them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m|h)", text).groups()
    return float(number) * _UNITS[unit]


@dataclass
class Wrk:
    """`wrk -t THREADS -c CONNECTIONS -d SECONDS --latency`, keep-alive, closed loop."""

    threads: int
    connections: int
    seconds: float = 4
    timeout: int = 30
    header: str | None = None

    @property
    def name(self):
        return f"wrk -t{self.threads} -c{self.connections}{f' -H {self.header!r}' if self.header else ''}"

    def run(self, url, prefix=()):
        output, cost = _run(["wrk", f"-t{self.threads}", f"-c{self.connections}", f"-d{round(self.seconds)}s",
                             f"--timeout={self.timeout}s", "--latency", *(["-H", self.header] if self.header else []), url], prefix)
        return parse_wrk(output, cost)


def parse_wrk(output, cost):
    """Reads wrk's report. Its `Max` is the slowest answer of the run."""
    latency = re.search(r"Latency\s+\S+\s+\S+\s+(\S+)\s", output)
    p50 = re.search(r"^\s+50%\s+(\S+)", output, re.M)
    p90 = re.search(r"^\s+90%\s+(\S+)", output, re.M)
    p99 = re.search(r"^\s+99%\s+(\S+)", output, re.M)
    total = re.search(r"(\d+) requests in (\S+),", output)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", output)
    sockets = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    status = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    detail = {}
    if sockets:
        detail = dict(zip(("connect", "read", "write", "timeout"), map(int, sockets.groups())))
    if status:
        detail["status"] = int(status.group(1))
    requests = int(total.group(1))
    bad = detail.get("status", 0)
    share_good = (requests - bad) / requests if requests else 0
    return Sample(requests=requests - bad, rps=float(rate.group(1)) * share_good, p50=_milliseconds(p50.group(1)),
                  p99=_milliseconds(p99.group(1)), max=_milliseconds(latency.group(1)), errors=sum(detail.values()),
                  detail=detail, p90=_milliseconds(p90.group(1)), **cost)


@dataclass
class H2load:
    """`h2load -c CONNECTIONS -m STREAMS -D SECONDS`: so many requests at once on each connection."""

    connections: int
    streams: int
    seconds: float = 4

    @property
    def name(self):
        return f"h2load -c{self.connections} -m{self.streams}"

    def run(self, url, prefix=()):
        output, cost = _run(["h2load", f"-c{self.connections}", f"-m{self.streams}", "-t1", f"-D{max(1, round(self.seconds))}",
                             "--warm-up-time=1", url], prefix)
        return parse_h2load(output, cost)


def parse_h2load(output, cost):
    """Reads h2load's report; it gives no percentiles, so the mean stands for the median, and the slowest for the 99th."""
    total = re.search(r"finished in \S+, ([\d.]+) req/s", output)
    counts = re.search(r"requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", output)
    status = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", output)
    times = re.search(r"time for request:\s+(\S+)\s+(\S+)\s+(\S+)", output)
    failed = sum(int(counts.group(index)) for index in (4, 5, 6))
    bad = sum(int(status.group(index)) for index in (3, 4))
    return Sample(requests=int(counts.group(3)) - bad, rps=float(total.group(1)), p50=_milliseconds(times.group(3)),
                  p99=_milliseconds(times.group(2)), max=_milliseconds(times.group(2)), errors=failed + bad,
                  detail={"failed": failed, "status": bad} if failed or bad else {}, **cost)


@dataclass
class Ab:
    """`ab -n REQUESTS -c CONCURRENCY`, a new connection for each request unless `keepalive`."""

    requests: int
    concurrency: int
    keepalive: bool = False

    @property
    def name(self):
        return f"ab -n {self.requests} -c {self.concurrency}{' -k' if self.keepalive else ''}"

    def run(self, url, prefix=()):
        # -l: a length that changes (a date in a page) is not an error; -r: go on after a socket error.
        output, cost = _run(["ab", "-q", "-l", "-r", "-s", "60", *(["-k"] if self.keepalive else []),
                             "-n", self.requests, "-c", self.concurrency, url], prefix)
        return parse_ab(output, cost)


def parse_ab(output, cost):
    """Reads ab's report: percentiles are whole milliseconds there."""
    def number(pattern, default=None):
        found = re.search(pattern, output)
        return float(found.group(1)) if found else default

    complete = int(number(r"Complete requests:\s+(\d+)", 0))
    failed = int(number(r"Failed requests:\s+(\d+)", 0))
    bad_status = int(number(r"Non-2xx responses:\s+(\d+)", 0))
    good = complete - failed - bad_status
    rate = number(r"Requests per second:\s+([\d.]+)", 0.0) * (good / complete if complete else 0)
    return Sample(requests=good, rps=rate, p50=number(r"50%\s+(\d+)", 0.0), p99=number(r"99%\s+(\d+)", 0.0),
                  max=number(r"100%\s+(\d+)", 0.0), errors=failed + bad_status,
                  detail={"failed": failed, "status": bad_status} if failed or bad_status else {}, **cost)


@dataclass
class Paced:
    """Our own open loop: `clients` keep-alive clients, each asking once per `interval` seconds."""

    program: str
    clients: int
    interval: float
    seconds: int

    @property
    def name(self):
        return f"{self.clients} clients, each {self.interval:g} s"

    def run(self, url, prefix=()):
        address, _, path = url.removeprefix("http://").partition("/")
        output, cost = _run([self.program, "paced", address, "/" + path, self.clients, int(self.interval * 1000),
                             self.seconds], prefix)
        report = json.loads(output)
        detail = {key: report[key] for key in ("failed", "timed_out", "skipped", "reconnects", "statuses", "slot_ms", "slots")}
        return Sample(requests=report["good"], rps=report["rps"], p50=report["p50_ms"], p90=report["p90_ms"], p99=report["p99_ms"],
                      max=report["max_ms"], errors=report["errors"], detail=detail, **cost)


@dataclass
class Http3:
    """Our own client of HTTP/3: `streams` requests at once on each connection."""

    program: str
    connections: int
    streams: int
    seconds: float = 4

    @property
    def name(self):
        return f"HTTP/3 -c{self.connections} -m{self.streams}"

    def run(self, url, prefix=()):
        address, path = _place(url)
        output, cost = _run([self.program, "http3", address, path, self.connections, self.streams, max(1, round(self.seconds))], prefix)
        return parse_report(output, cost)


@dataclass
class NewConnections:
    """Our own clients, each with one connection after the other: a handshake of TLS 1.3 over TCP or QUIC, whole or with a ticket, and a request."""

    program: str
    transport: str
    kind: str
    clients: int
    seconds: float = 4

    @property
    def name(self):
        return f"{self.transport}, {self.kind} -c{self.clients}"

    def run(self, url, prefix=()):
        address, path = _place(url)
        output, cost = _run([self.program, "handshakes", address, path, self.clients, self.transport, self.kind, max(1, round(self.seconds))], prefix)
        sample = parse_report(output, cost)
        if self.kind == "resumed":
            # Each client's first one is whole; more of them are another load than this one.
            sample.detail["whole"] = max(0, json.loads(output)["whole"] - self.clients)
            sample.errors += sample.detail["whole"]
        return sample


def _place(url):
    address, _, path = url.partition("://")[2].partition("/")
    return address, f"/{path}"


def parse_report(output, cost):
    """Reads the report of our own client's closed loops."""
    report = json.loads(output)
    detail = {"first error": report["first_error"]} if report["errors"] else {}
    return Sample(requests=report["good"], rps=report["rps"], p50=report["p50_ms"], p90=report["p90_ms"], p99=report["p99_ms"],
                  max=report["max_ms"], errors=report["errors"], detail=detail, **cost)


class Hold:
    """Idle keep-alive connections, held while the object lives (a context manager)."""

    def __init__(self, program, url, connections):
        address, _, path = url.removeprefix("http://").partition("/")
        self.popen = subprocess.Popen([program, "hold", address, "/" + path, str(connections)], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, preexec_fn=_more_descriptors)
        self.ready = json.loads(self.popen.stdout.readline())

    def release(self):
        """Lets the connections go; returns {"held", "closed" (by the server meanwhile), "refused"}."""
        output, _ = self.popen.communicate("", timeout=60)
        return json.loads(output)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
