"""HTTP/3 beside nginx and Caddy (P42): a small file, 100 requests at once; and new connections over TCP and QUIC, whole and resumed.

nginx is Debian 13's, since that of Debian 12 has no HTTP/3; Caddy is built from its Go module. Both serve the same certificate (P-256)."""

import subprocess
from pathlib import Path

from .cases import Case, no_errors, ratio
from .loads import Http3, NewConnections
from .servers import NginxCached, Server
from .tls import Encrypted, TuttiTls

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / ".work/programs"
CLIENTS = 4


def program_of_trixie(name, package):
    """The command of a program of Debian 13, which is got the first time."""
    folder = PROGRAMS / name
    subprocess.run([ROOT / "packaging/debian-programs", "trixie", folder, package], check=True)
    return [str(folder / "run"), name]


class OverHttp3(Encrypted):
    """The page by which the servers are compared comes over HTTP/3, too."""

    def get(self, path):
        command = [*program_of_trixie("curl", "curl"), "-sk", "--http3-only", "-w", "%{stderr}%{http_version} %{http_code}", self.url(path)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self.name} does not answer over HTTP/3: curl's status {done.returncode}")
        _, status = done.stderr.decode().split()
        return int(status), done.stdout


class NginxHttp3(OverHttp3, NginxCached):
    label = "nginx, HTTP/3"
    protocol = "ssl"

    def arguments(self):
        return [*program_of_trixie("nginx", "nginx-light"), *super().arguments()[1:]]

    def locations(self):
        chain, key = self.certificate()
        return (f"listen {self.place.host}:{self.port} quic reuseport; quic_gso on; "
                f"ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.3;")


class Caddy(OverHttp3, Server):
    label = "Caddy, HTTP/3"
    programs = ("go",)

    def launch(self):
        program = subprocess.run([ROOT / "packaging/fetch-tool", "caddy"], check=True, capture_output=True, text=True).stdout.strip()
        chain, key = self.certificate()
        configuration = self.folder / "Caddyfile"
        configuration.write_text(f"""
{{
    admin off
    auto_https off
    persist_config off
    default_sni bench
    fallback_sni bench
    storage file_system {self.folder}/storage
    log {{
        level ERROR
    }}
}}
:{self.port} {{
    bind {self.place.host}
    tls {chain} {key}
    handle /return {{
        respond 200
    }}
    handle {{
        root * {self.site}
        file_server
    }}
}}
""")
        self.spawn([program, "run", "--adapter", "caddyfile", "--config", str(configuration)])


class TuttiHttp3(OverHttp3, TuttiTls):
    label = "tutti, HTTP/3"

    def encryption(self):
        return {"tls": {"certificate": "bench", "session": {"tickets": True}}, "http3": True}


SERVERS = [(NginxHttp3, 0, None), (Caddy, 0, None), (TuttiHttp3, 0, None)]


def p42(context):
    load = Http3(context.load_program, CLIENTS, 100, context.seconds)
    loads = [(load, "/file-1k.txt"), (load, "/return")]

    def verdict(table):
        path = loads[0][1]
        own = TuttiHttp3.label
        return [ratio(table, "rps", load.name, path, at_least=1.5, peer=Caddy.label, own=own),
                ratio(table, "rps", load.name, path, at_least=1.0, peer=NginxHttp3.label, own=own),
                ratio(table, "cpu_us", load.name, path, at_most=0.67, peer=Caddy.label, own=own),
                ratio(table, "cpu_us", load.name, path, at_most=1.0, peer=NginxHttp3.label, own=own), no_errors(table, own)]

    return Case("P42", "HTTP/3: file of 1 KB, 100 streams", "≥ 1.5 × Caddy, ≥ 1.0 × nginx (Debian 13's)", SERVERS, loads, verdict,
                note="4 connections, 100 requests at once on each; one client for all, whose core is the limit where a server costs less.")


def p42_new(context):
    loads = [(NewConnections(context.load_program, transport, kind, CLIENTS, context.seconds), "/return")
             for transport in ("tcp", "quic") for kind in ("whole", "resumed")]

    def verdict(table):
        own = TuttiHttp3.label
        checks = [ratio(table, key, load.name, path, peer=peer.label, own=own, **bound)
                  for load, path in loads for peer in (NginxHttp3, Caddy) for key, bound in (("rps", {"at_least": 1.0}), ("cpu_us", {"at_most": 1.0}))]
        return [*checks, no_errors(table, own)]

    return Case("P42-new", "new connections with one request: TLS 1.3 over TCP and QUIC, whole and resumed", "≥ 1.0 × nginx and Caddy",
                SERVERS, loads, verdict, note="4 clients, each one connection after the other; X25519 and P-256. The clients' own work is most of it: CPU is the server's.")


def cases(context):
    return [p42(context), p42_new(context)]
