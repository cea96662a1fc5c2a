"""The cases of agents that report each request: three that are answered and one that fails, by each agent's protocol."""

import ssl
import subprocess

from case import Case
from collectors import Datadog, NewRelic, OpenTelemetry, Sentry
from harness.processes import wait_until


class Collected(Case):
    """An agent whose collector is of this folder."""

    collector = None
    collector_class = None
    # More than one process shares the requests.
    members = {}

    def prepare(self):
        super().prepare()
        self.collector = self.collect()
        self.place = self.collector.port

    def collect(self):
        return self.collector_class()

    def application(self):
        return super().application() | self.members

    def send(self, server):
        for number in range(3):
            self.get(server, f"/items/{number}")
        self.get(server, "/fails", 500)

    def close(self):
        if self.collector:
            self.collector.close()


class OpenTelemetryCase(Collected):
    collector_class = OpenTelemetry
    port = 4318
    # The names that the framework has for the paths.
    routes = ()

    def configuration(self, address):
        settings = {"telemetry": {"endpoint": f"http://127.0.0.1:{self.place}", "protocol": "http"}}
        return super().configuration(address) | {"settings": settings}

    def check(self, server):
        self.send(server)
        spans = self.collector.wait_for(8, lambda span: span["kind"] == 2)
        ours = {span["id"]: span for span in spans if span["service"] == "tutti"}
        theirs = [span for span in spans if span["service"] == "shop"]
        assert len(ours) == len(theirs) == 4, spans
        seen = []
        for span in theirs:
            parent = ours.get(span["parent"])
            assert parent and parent["trace"] == span["trace"], (span, ours)
            status = span.get("http.status_code", span.get("http.response.status_code"))
            assert status == parent["http.response.status_code"], (parent, span)
            assert span.get("http.method", span.get("http.request.method")) == "GET", span
            seen.append((status, span.get("http.route")))
        item, fails = self.routes
        assert sorted(seen, key=str) == [*[(200, item)] * 3, (500, fails)], seen
        return "4 spans with method, route and status, each the child of the server's span of the request"


class DatadogCase(Collected):
    collector_class = Datadog
    port = 8126
    routes = ()

    def check(self, server):
        self.send(server)
        spans = self.collector.wait_for(4, lambda span: span["service"] == "shop" and span["meta"].get("span.kind") == "server")
        seen = sorted((span["meta"]["http.status_code"], span["meta"].get("http.route")) for span in spans)
        item, fails = self.routes
        assert seen == [*[("200", item)] * 3, ("500", fails)], seen
        assert all(span["meta"]["http.method"] == "GET" for span in spans), spans
        failed = [span for span in spans if span["error"]]
        assert len(failed) == 1, failed
        return "4 traces with method, route and status"


class SentryCase(Collected):
    collector_class = Sentry
    port = 9000
    transaction = None

    def check(self, server):
        self.send(server)
        transactions = self.collector.wait_for(4, lambda item: item["kind"] == "transaction")
        names = [item["transaction"] for item in transactions]
        assert names.count(self.transaction) == 3, names
        [event] = self.collector.wait_for(1, lambda item: item["kind"] == "event")
        assert event["exception"]["values"][-1]["value"] == "out of stock", event
        return "4 transactions and the exception"


class NewRelicCase(Collected):
    """The agent speaks TLS only: the collector has a certificate of its own, which the agent is configured to trust."""

    port = 8443
    transaction = None

    def collect(self):
        key, certificate = self.root / "key.pem", self.root / "collector.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate], check=True, capture_output=True)
        certificate.chmod(0o644)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return NewRelic(context)

    def application(self):
        application = super().application()
        # The agent would ask the networks of clouds who they are.
        for cloud in ("AWS", "AZURE", "AZUREFUNCTION", "GCP", "PCF"):
            application["environment"][f"NEW_RELIC_UTILIZATION_DETECT_{cloud}"] = "false"
        return application

    def check(self, server):
        # Requests before the agent is connected are not reported.
        def is_reported():
            self.get(server, "/items/0")
            return list(self.collector.spans())

        wait_until(is_reported, 90, f"a report; there are requests for {[path for path, _ in self.collector.requests]}")
        self.send(server)
        [error] = self.collector.wait_for(1, lambda event: event["type"] == "TransactionError")
        assert error["error.message"] == "out of stock", error
        names = [event["name"] for event in self.collector.wait_for(4, lambda event: event["type"] == "Transaction")]
        assert names.count(self.transaction) >= 3, names
        return f"{len(names)} transactions and the error"
