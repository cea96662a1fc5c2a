"""Collectors for agents: each keeps what it receives, on a port of this machine."""

import gzip
import http.server
import json
import threading
import urllib.parse
import zlib

import msgpack
import protobuf
from harness.processes import wait_until


class Collector:
    """Answers every POST of an agent and keeps its bodies; subclasses read them."""

    def __init__(self, tls=None):
        collector = self
        self.requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                if self.headers.get("Transfer-Encoding") == "chunked":
                    body = b""
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                else:
                    body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                encoding = self.headers.get("Content-Encoding", "identity")
                if encoding == "gzip":
                    body = gzip.decompress(body)
                elif encoding == "deflate":
                    body = zlib.decompress(body)
                answer, kind = collector.answer(self.path, body)
                # Kept after the answer is made, so that what is seen has been read whole.
                collector.requests.append((self.path, body))
                self.reply(answer, kind)

            def do_GET(self):
                self.reply(*collector.answer(self.path, b""))

            do_PUT = do_POST

            def reply(self, answer, kind):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.server.daemon_threads = True
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path, body):
        return b"{}", "application/json"

    def spans(self):
        """Returns the reports so far."""
        raise NotImplementedError

    def wait_for(self, count, kept, seconds=90):
        """The spans that `kept` accepts, once there are `count`."""
        def found():
            spans = [span for span in self.spans() if kept(span)]
            return spans if len(spans) >= count else None
        try:
            found_spans = wait_until(found, seconds, f"{count} spans")
        except TimeoutError as late:
            raise AssertionError(f"{late}; there are {list(self.spans())}; requests for {sorted({path for path, _ in self.requests})}") from None
        return found_spans

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class OpenTelemetry(Collector):
    """OTLP over HTTP, as protobuf."""

    def answer(self, path, body):
        return b"", "application/x-protobuf"

    def spans(self):
        for path, body in list(self.requests):
            if path == "/v1/traces":
                yield from protobuf.spans(body)


class Datadog(Collector):
    """Datadog's agent: traces as MessagePack."""

    def answer(self, path, body):
        if path == "/info":
            return json.dumps({"endpoints": ["/v0.4/traces"], "client_drop_p0s": False}).encode(), "application/json"
        return b'{"rate_by_service": {}}', "application/json"

    def spans(self):
        for path, body in list(self.requests):
            if path == "/v0.4/traces":
                for trace in msgpack.read(body)[0]:
                    yield from trace
            elif path == "/v0.5/traces":
                yield from self.numbered(*msgpack.read(body)[0])

    @staticmethod
    def numbered(texts, traces):
        """Spans as arrays, whose texts are places in a list."""
        for trace in traces:
            for service, name, resource, trace_id, span_id, parent, _start, _duration, error, meta, _metrics, kind in trace:
                yield {"service": texts[service], "name": texts[name], "resource": texts[resource], "trace_id": trace_id, "span_id": span_id,
                       "parent_id": parent, "error": error, "type": texts[kind], "meta": {texts[key]: texts[value] for key, value in meta.items()}}


class Sentry(Collector):
    """Sentry's endpoint for envelopes: a line of JSON for the envelope, and two for each item."""

    def answer(self, path, body):
        return b'{"id": "0"}', "application/json"

    def items(self):
        """(kind, item) of all envelopes."""
        for path, body in list(self.requests):
            if path.split("?")[0].endswith("/envelope/"):
                _, _, rest = body.partition(b"\n")
                while rest.strip():
                    head, _, rest = rest.partition(b"\n")
                    head = json.loads(head)
                    if "length" in head:
                        item, rest = rest[:head["length"]], rest[head["length"]:].lstrip(b"\n")
                    else:
                        item, _, rest = rest.partition(b"\n")
                    if item[:1] == b"{":
                        yield head["type"], json.loads(item)

    def spans(self):
        """Events, and the outermost span of each request: some libraries send it as a transaction, others as a span among others."""
        for kind, item in self.items():
            if kind == "span":
                for span in item["items"]:
                    if span["is_segment"]:
                        yield {"kind": "transaction", "transaction": span["name"], "trace": span["trace_id"]}
            else:
                yield {"kind": kind, **item}


class NewRelic(Collector):
    """New Relic's collector: `preconnect`, `connect`, then events with each harvest."""

    HARVEST = {"report_period_ms": 5000, "harvest_limits": {"analytic_event_data": 1000, "error_event_data": 100, "custom_event_data": 100,
                                                           "span_event_data": 100, "log_event_data": 100}}

    # Where the agent is to go after `preconnect`.
    redirect = "localhost"

    def method(self, path):
        return urllib.parse.parse_qs(urllib.parse.urlsplit(path).query).get("method", [""])[0]

    def answer(self, path, body):
        value = {
            "preconnect": {"redirect_host": self.redirect},
            "connect": {"agent_run_id": "1", "data_report_period": 5, "collect_analytics_events": True, "collect_error_events": True,
                        "collect_errors": True, "collect_traces": True, "collect_span_events": True, "apdex_t": 0.5, "messages": [],
                        "event_harvest_config": self.HARVEST, "span_event_harvest_config": {"report_period_ms": 5000, "harvest_limit": 100},
                        "account_id": "1", "primary_application_id": "1", "trusted_account_key": "1", "entity_guid": "1"},
            "get_agent_commands": [],
        }.get(self.method(path))
        return json.dumps({"return_value": value}).encode(), "application/json"


    def spans(self):
        """The events of transactions and errors."""
        for path, body in list(self.requests):
            if self.method(path) in ("analytic_event_data", "error_event_data"):
                for event in json.loads(body)[-1]:
                    yield event[0]
