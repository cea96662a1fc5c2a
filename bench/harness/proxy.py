"""The proxy beside nginx and HAProxy (P27), each in front of an nginx of its own that keeps connections; and what it costs to have
something in front of a program at all (P21)."""

import os

from .cases import Case, no_errors, ratio
from .loads import Wrk
from .measure import Check
from .servers import THREADS, WORKER_GROUP, WORKER_USER, GoAlone, Nginx, NginxCached, Server, Tutti, TuttiGoHttp, TuttiGoUnix


class Behind:
    """A server in front of another. The CPU of the one behind does not count."""

    behind = NginxCached

    def launch(self):
        self.backend = self.behind(self.folder.with_name(f"{self.folder.name}-behind"), self.site, 0, self.place).start()
        super().launch()

    @property
    def target(self):
        return f"{self.backend.place.host}:{self.backend.port}"

    def stop(self):
        super().stop()
        if backend := getattr(self, "backend", None):
            backend.stop()


class NginxProxy(Behind, Nginx):
    """`keepalive` as nginx's documentation has it: HTTP/1.1 and no `Connection` field."""

    label = "nginx, proxy_pass"

    def upstream(self):
        return f"upstream behind {{ server {self.target}; keepalive 64; keepalive_requests 100000000; }}"

    def locations(self):
        return """
        location / { proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host; }"""


class HaProxy(Behind, Server):
    label = "haproxy"
    programs = ("haproxy",)

    def arguments(self):
        identity = f"user {WORKER_USER}\n    group {WORKER_GROUP}" if os.geteuid() == 0 else ""
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(f"""
global
    nbthread {THREADS}
    maxconn 4000
    {identity}
defaults
    mode http
    http-reuse always
    timeout connect 10s
    timeout client 300s
    timeout server 60s
frontend front
    bind {self.place.host}:{self.port} backlog 4096
    default_backend back
backend back
    server one {self.target}
""")
        return ["haproxy", "-f", str(configuration)]


class TuttiProxy(Behind, Tutti):
    label = "tutti"

    def configuration(self):
        configuration = super().configuration()
        configuration["routes"] = [{"action": {"proxy": f"http://{self.target}", "proxy_options": {"keepalive": 64}}}]
        configuration.pop("applications", None)
        return configuration


class BeforeGo(Behind):
    """In front of the Go program of P20, whose CPU counts."""

    behind = GoAlone

    @property
    def roots(self):
        return super().roots + self.backend.roots


class NginxBeforeGo(BeforeGo, NginxProxy):
    label = "nginx before net/http"


class HaProxyBeforeGo(BeforeGo, HaProxy):
    label = "haproxy before net/http"


class TuttiBeforeGo(BeforeGo, TuttiProxy):
    label = "tutti's proxy before net/http"


def p21(context):
    load, path = Wrk(1, 64, context.seconds), "/hello"

    def verdict(table):
        alone = table.find(GoAlone.label, load.name, path)
        checks = []
        for own in (TuttiGoHttp.label, TuttiGoUnix.label):
            mine = table.find(own, load.name, path)
            if not mine or not alone:
                checks.append(Check(f"CPU above the program alone ({own}): not measured", None))
                continue
            above = mine.median("cpu_us") - alone.median("cpu_us")
            checks.append(Check(f"CPU ≤ 12 µs above the program alone ({own}): {above:.1f}", above <= 12))
            checks += [ratio(table, "cpu_us", load.name, path, at_most=1.0, peer=peer.label, own=own) for peer in (NginxBeforeGo, HaProxyBeforeGo)]
        return [*checks, no_errors(table, TuttiGoHttp.label), no_errors(table, TuttiGoUnix.label)]

    return Case("P21", "an unmodified program behind Tutti by HTTP", "≤ 12 µs of CPU a request above the program alone",
                [(server, 1, None) for server in (GoAlone, NginxBeforeGo, HaProxyBeforeGo, TuttiBeforeGo, TuttiGoHttp, TuttiGoUnix)], [(load, path)], verdict,
                note="CPU of all processes: what is in front (Tutti's router, and the worker that relays), and the program. "
                     "A proxy starts no program, and limits, restarts and isolates none.")


def p27(context):
    load = Wrk(1, 64, context.seconds)
    loads = [(load, "/file-1k.txt"), (load, "/file-100k.txt")]
    peers = (NginxProxy.label, HaProxy.label)

    def verdict(table):
        path = "/file-1k.txt"
        return [ratio(table, "rps", load.name, path, at_least=1.1, peer=NginxProxy.label),
                ratio(table, "rps", load.name, path, at_least=1.0, peer=HaProxy.label),
                *(ratio(table, "cpu_us", load.name, path, at_most=1.0, peer=peer) for peer in peers),
                *(ratio(table, "rps", load.name, "/file-100k.txt", at_least=1.0, peer=peer) for peer in peers), no_errors(table)]

    return Case("P27", "proxy to a backend that keeps connections", "≥ 1.1 × nginx, ≥ 1.0 × HAProxy, CPU ≤ 1.0 ×",
                [(NginxProxy, 0, None), (HaProxy, 0, None), (TuttiProxy, 0, None)], loads, verdict,
                note="The backend is an nginx for each, and shares the cores with the load and the proxy; its CPU is not counted.")


def cases(context):
    return [p21(context), p27(context)]
