"""TLS: hello over kept connections, and new handshakes, beside nginx (P25). One P-256 certificate for both."""

import http.client
import re
import ssl
import subprocess
from dataclasses import dataclass

from .cases import Case, no_errors, ratio
from .loads import Sample, Wrk, _run
from .servers import Nginx, Tutti


class Encrypted:
    """The part that both servers have in common: the certificate, and clients that speak TLS."""

    def certificate(self):
        """(chain, key), made anew."""
        key, chain = self.folder / "key.pem", self.folder / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
                        "-subj", "/CN=bench", "-keyout", key, "-out", chain], check=True, capture_output=True)
        return chain, key

    def url(self, path):
        return f"https://{self.place.host}:{self.port}{path}"

    def get(self, path):
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(self.place.host, self.port, timeout=20, context=context)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


class NginxTls(Encrypted, Nginx):
    label = "nginx, TLS"
    protocol = "ssl"

    def locations(self):
        chain, key = self.certificate()
        return f"ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets off;"


class TuttiTls(Encrypted, Tutti):
    label = "tutti, TLS"

    def launch(self):
        super().launch()
        chain, key = self.certificate()
        status, body = self.control_request("PUT", "/certificates/bench", chain.read_text() + key.read_text())
        if status == 200:
            configuration = self.configuration()
            for listener in configuration["listeners"].values():
                listener.update(self.encryption())
            status, body = self.put("/config", configuration)
        if status != 200:
            raise RuntimeError(f"the configuration was refused: {body}")

    def encryption(self):
        """The part of a listener that says it is encrypted."""
        return {"tls": {"certificate": "bench"}}


@dataclass
class Handshakes:
    """`openssl s_time -new`: one connection after the other, each with a full handshake and one request."""

    seconds: float = 4
    name = "openssl s_time -new"

    def run(self, url, prefix=()):
        place, _, path = url.removeprefix("https://").partition("/")
        output, cost = _run(["openssl", "s_time", "-new", "-connect", place, "-www", f"/{path}", "-time", round(self.seconds)], prefix)
        count, seconds = re.search(r"(\d+) connections in (\d+) real seconds", output).groups()
        each = 1000 * float(seconds) / max(int(count), 1)
        return Sample(requests=int(count), rps=int(count) / max(float(seconds), 1), p50=each, p99=each, max=each, errors=0, **cost)


def p25(context):
    kept, small, new = Wrk(1, 64, context.seconds), "/return", Handshakes(context.seconds)
    loads = [(kept, small), (kept, "/file-100k.txt"), (new, small)]

    def verdict(table):
        checks = [ratio(table, "rps", load.name, small, at_least=bound, peer=NginxTls.label, own=TuttiTls.label)
                  for load, bound in ((kept, 1.1), (new, 1.0))]
        return [*checks, no_errors(table, TuttiTls.label)]

    return Case("P25", "TLS 1.3: hello over kept connections, a file of 100 KB, new handshakes (P-256)", "hello ≥ 1.1 × nginx, handshakes ≥ 1.0 ×",
                [(NginxTls, 0, None), (TuttiTls, 0, None)], loads, verdict,
                note="Neither keeps sessions. `s_time` is one client: handshakes for each second are also its own speed, CPU is the server's.")
