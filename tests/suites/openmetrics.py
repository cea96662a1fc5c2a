"""The page of metrics: Prometheus's text by promtool, OpenMetrics by the parser of Prometheus's client for Python, each family a case."""

import subprocess
import sys

from base import Case, exchange

VERSION = "prometheus-client 0.22.1, promtool of Debian"
QUICK = True


def page(port, accept):
    """(media type, text) of the page."""
    data = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    (response,), _ = exchange(port, data.encode())
    return response.first("content-type"), response.body.decode()


def families(text):
    return [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]


def by_promtool(context, text):
    """Its complaints, of which each line begins with the family."""
    promtool = context.program("promtool", "prometheus")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    complaints = {}
    for line in (done.stdout + done.stderr).splitlines():
        name, _, complaint = line.partition(" ")
        complaints.setdefault(name, []).append(complaint)
    return complaints


PARSER = """
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    print(family.name, len(family.samples))
"""


def by_client(context, text):
    """{family: samples} that it reads, and its complaint about the page."""
    folder = context.pip("prometheus-client==0.22.1")
    done = subprocess.run([sys.executable, "-c", PARSER], input=text, capture_output=True, text=True, env={"PYTHONPATH": str(folder)})
    read = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    return read, done.stderr.strip().splitlines()[-1:] if done.returncode else []


def run(context):
    (context.folder / "index.html").write_text("x")
    server = context.server(lambda port: {
        "listeners": {f"127.0.0.1:{port}": {"pass": "routes"}},
        "routes": [
            {"match": {"uri": "/metrics"}, "action": {"pass": "metrics"}},
            {"match": {"uri": "/cached"}, "action": {"proxy": f"http://127.0.0.1:{port}", "cache": {"store": "pages"}}},
            {"action": {"share": f"{context.folder}/index.html"}},
        ],
        "settings": {"cache": {"pages": {}}},
    })
    for path in ("/", "/none", "/cached"):
        exchange(server.port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    kind, text = page(server.port, "text/plain")
    yield Case("text/media-type", "pass" if kind.startswith("text/plain; version=0.0.4") else "fail", kind)
    complaints = by_promtool(context, text)
    for name in families(text):
        yield Case(f"text/{name}", "fail" if name in complaints else "pass", "; ".join(complaints.pop(name, [])))
    for name, about in complaints.items():
        yield Case(f"text/unknown-{name}", "fail", "; ".join(about))
    kind, text = page(server.port, "application/openmetrics-text; version=1.0.0")
    yield Case("openmetrics/media-type", "pass" if kind.startswith("application/openmetrics-text; version=1.0.0") else "fail", kind)
    read, complaint = by_client(context, text)
    yield Case("openmetrics/page", "fail" if complaint else "pass", "; ".join(complaint))
    for name in families(text):
        yield Case(f"openmetrics/{name}", "pass" if name in read else "fail", "" if name in read else "not read")
