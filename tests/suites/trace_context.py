"""W3C Trace Context: `traceparent` and `tracestate` as an upstream server gets them, with `settings.telemetry`: the W3C's cases."""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from base import Case, exchange

VERSION = "acab820 (30 June 2026), its 41 cases written from the specification"
QUICK = True

TRACE, PARENT = "12345678901234567890123456789012", "1234567890123456"
VALID = f"00-{TRACE}-{PARENT}-01"
UNSAMPLED = f"00-{TRACE}-{PARENT}-00"
# Every character that a key and a value may have.
KEY = "abcdefghijklmnopqrstuvwxyz0123456789_-*/"
VALUE = "".join(chr(byte) for byte in range(0x20, 0x7F) if chr(byte) not in ",=")


class Behind(BaseHTTPRequestHandler):
    """The server behind, which says which fields it got, and the collector."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps([[name.lower(), value] for name, value in self.headers.items()]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


class Harness:
    """Sends requests, and reads the context that arrives."""

    def __init__(self, port):
        self.port = port

    def fields(self, *fields):
        """Returns what the server behind gets: (the parts of `traceparent`, the members of `tracestate`)."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
        data = f"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n"
        (response,), _ = exchange(self.port, data.encode("latin-1"))
        assert response.status == 200, f"status {response.status}"
        received = json.loads(response.body)
        parents = [value for name, value in received if name == "traceparent"]
        assert len(parents) == 1, f"{len(parents)} `traceparent` fields"
        assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", parents[0]), f"`traceparent: {parents[0]}`"
        members = [part.strip(" \t") for name, value in received if name == "tracestate" for part in value.split(",")]
        return parents[0].split("-"), [member for member in members if member]

    def continues(self, *parents):
        """The trace goes on with each of these."""
        for parent in parents:
            (_, trace, span, _), _ = self.fields(("traceparent", parent))
            assert trace == TRACE, f"`{parent}` is taken for none"
            assert span != PARENT, f"the span of `{parent}` is passed on"

    def begins(self, *parents):
        """A new trace begins with each of these."""
        for parent in parents:
            (_, trace, _, _), _ = self.fields(("traceparent", parent))
            assert trace not in parent and trace != TRACE and int(trace, 16), f"`{parent}` is taken for a parent"

    def state(self, expected, *values, name="tracestate"):
        """These values of `tracestate` arrive as these members."""
        (_, trace, _, _), members = self.fields(("traceparent", UNSAMPLED), *((name, value) for value in values))
        assert trace == TRACE, "the trace does not go on"
        assert members == expected, f"{members} of {list(values)}"[:160]

    # The cases.

    def both_traceparent_and_tracestate_missing(self):
        self.fields()

    def traceparent_included_tracestate_missing(self):
        self.continues(VALID)

    def traceparent_duplicated(self):
        other = TRACE[:-1] + "1"
        (_, trace, _, _), _ = self.fields(("traceparent", f"00-{other}-{PARENT}-01"), ("traceparent", VALID))
        assert trace not in (TRACE, other), "one of two is taken"

    def traceparent_header_name(self):
        for name in ("trace-parent", "trace.parent"):
            (_, trace, _, _), _ = self.fields((name, VALID))
            assert trace != TRACE, f"`{name}` is taken"

    def traceparent_header_name_valid_casing(self):
        for name in ("TraceParent", "TrAcEpArEnT", "TRACEPARENT"):
            (_, trace, _, _), _ = self.fields((name, VALID))
            assert trace == TRACE, f"`{name}` is not taken"

    def traceparent_version_0x00(self):
        self.begins(f"{VALID}.", f"{VALID}-what-the-future-will-be-like")

    def traceparent_version_0xcc(self):
        later = f"cc{VALID[2:]}"
        self.continues(later, f"{later}-what-the-future-will-be-like")
        self.begins(f"{later}.what-the-future-will-be-like")

    def traceparent_version_0xff(self):
        self.begins(f"ff{VALID[2:]}")

    def traceparent_version_illegal_characters(self):
        self.begins(f".0{VALID[2:]}", f"0.{VALID[2:]}")

    def traceparent_version_too_long(self):
        self.begins(f"0{VALID}", f"00{VALID}")

    def traceparent_version_too_short(self):
        self.begins(VALID[1:])

    def traceparent_trace_id_all_zero(self):
        self.begins(f"00-{'0' * 32}-{PARENT}-01")

    def traceparent_trace_id_illegal_characters(self):
        self.begins(f"00-.{TRACE[1:]}-{PARENT}-01", f"00-{TRACE[:-1]}.-{PARENT}-01")

    def traceparent_trace_id_too_long(self):
        self.begins(f"00-{TRACE}3-{PARENT}-01")

    def traceparent_trace_id_too_short(self):
        self.begins(f"00-{TRACE[:-1]}-{PARENT}-01")

    def traceparent_parent_id_all_zero(self):
        self.begins(f"00-{TRACE}-{'0' * 16}-01")

    def traceparent_parent_id_illegal_characters(self):
        self.begins(f"00-{TRACE}-.{PARENT[1:]}-01", f"00-{TRACE}-{PARENT[:-1]}.-01")

    def traceparent_parent_id_too_long(self):
        self.begins(f"00-{TRACE}-{PARENT}7-01")

    def traceparent_parent_id_too_short(self):
        self.begins(f"00-{TRACE}-{PARENT[:-1]}-01")

    def traceparent_trace_flags_illegal_characters(self):
        self.begins(f"{VALID[:-2]}.0", f"{VALID[:-2]}0.")

    def traceparent_trace_flags_too_long(self):
        self.begins(f"{VALID[:-2]}001")

    def traceparent_trace_flags_too_short(self):
        self.begins(f"{VALID[:-2]}1")

    def traceparent_ows_handling(self):
        self.continues(f" {VALID}", f"\t{VALID}", f"{VALID} ", f"{VALID}\t", f"\t {VALID} \t")

    def tracestate_included_traceparent_missing(self):
        for value in ("foo=1", "foo=1,bar=2"):
            _, members = self.fields(("tracestate", value))
            assert not members, f"{members} without a parent"

    def tracestate_included_traceparent_included(self):
        self.state(["foo=1", "bar=2"], "foo=1,bar=2")

    def tracestate_header_name(self):
        for name in ("trace-state", "trace.state"):
            self.state([], "foo=1", name=name)

    def tracestate_header_name_valid_casing(self):
        for name in ("TraceState", "TrAcEsTaTe", "TRACESTATE"):
            self.state(["foo=1"], "foo=1", name=name)

    def tracestate_empty_header(self):
        self.state([], "")
        self.state(["foo=1"], "foo=1", "")
        self.state(["foo=1"], "", "foo=1")

    def tracestate_multiple_headers_different_keys(self):
        self.state(["foo=1", "bar=2", "rojo=1", "congo=2", "baz=3"], "foo=1,bar=2", "rojo=1,congo=2", "baz=3")

    def tracestate_duplicated_keys(self):
        for values in (["foo=1,foo=1"], ["foo=1,foo=2"], ["foo=1", "foo=1"], ["foo=1", "foo=2"]):
            self.state(",".join(values).split(","), *values)

    def tracestate_all_allowed_characters(self):
        for key in (KEY, f"{KEY}@a-z0-9_-*/"):
            # White space at the end of a value is not a part of it, and this one has none there.
            self.state([f"{key}={VALUE}"], f"{key}={VALUE}")

    def tracestate_ows_handling(self):
        self.state(["foo=1", "bar=2", "baz=3"], "foo=1 \t , \t bar=2, \t baz=3")
        self.state(["foo=1", "bar=2", "baz=3"], "foo=1\t \t,\t \tbar=2,\t \tbaz=3")
        for value in (" foo=1", "\tfoo=1", "foo=1 ", "foo=1\t", "\t foo=1 \t"):
            self.state(["foo=1"], value)

    def tracestate_key_illegal_characters(self):
        for value in ("foo =1", "FOO=1", "foo.bar=1"):
            self.state([], value)

    def tracestate_key_illegal_vendor_format(self):
        for key in ("foo@", "foo@@bar", "foo@bar@baz"):
            self.state([f"{key}=1", "bar=2"], f"{key}=1,bar=2")
        self.state([], "@foo=1,bar=2")

    def tracestate_member_count_limit(self):
        members = [f"bar{number:02}={number:02}" for number in range(1, 34)]
        self.state(members[:32], ",".join(members[:10]), ",".join(members[10:20]), ",".join(members[20:32]))
        self.state([], ",".join(members[:10]), ",".join(members[10:20]), ",".join(members[20:]))

    def tracestate_key_length_limit(self):
        for key in ("z" * 256, f"{'t' * 241}@{'v' * 14}", f"{'t' * 242}@v", f"t@{'v' * 15}"):
            self.state(["foo=1", f"{key}=1"], "foo=1", f"{key}=1")
        self.state([], "foo=1", f"{'z' * 257}=1")

    def tracestate_value_illegal_characters(self):
        self.state([], "foo=bar=baz")
        self.state([], "foo=,bar=3")

    def multiple_requests_with_valid_traceparent(self):
        seen = [self.fields(("traceparent", VALID))[0] for _ in range(3)]
        assert {trace for _, trace, _, _ in seen} == {TRACE}, "the trace does not go on"
        assert len({span for _, _, span, _ in seen}) == 3, "spans are the same"

    def multiple_requests_without_traceparent(self):
        assert len({self.fields()[0][2] for _ in range(3)}) == 3, "spans are the same"

    def multiple_requests_with_illegal_traceparent(self):
        seen = [self.fields(("traceparent", f"00-{'0' * 32}-{PARENT}-01"))[0] for _ in range(3)]
        assert all(int(trace, 16) for _, trace, _, _ in seen), "a trace is zero"
        assert len({span for _, _, span, _ in seen}) == 3, "spans are the same"

    def propagates_random_flag(self):
        (_, trace, span, flags), _ = self.fields(("traceparent", f"00-{TRACE}-{PARENT}-02"))
        assert (trace, int(flags, 16) & 2) == (TRACE, 2) and span != PARENT, f"flags {flags}"


# The suite's names, in its order.
CASES = [name for name in vars(Harness) if name.startswith(("both_", "trace", "multiple_", "propagates_"))]


def case(harness, name):
    try:
        getattr(harness, name)()
    except AssertionError as wrong:
        return Case(f"test_{name}", "fail", str(wrong))
    return Case(f"test_{name}", "pass")


def run(context):
    behind = ThreadingHTTPServer(("127.0.0.1", context.free_port()), Behind)
    thread = Thread(target=behind.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{behind.server_port}"
    try:
        server = context.server(lambda port: {
            "listeners": {f"127.0.0.1:{port}": {"pass": "routes"}},
            "routes": [{"action": {"proxy": address}}],
            "settings": {"telemetry": {"endpoint": f"{address}/v1/traces", "protocol": "http"}},
        })
        return [case(Harness(server.port), name) for name in CASES]
    finally:
        behind.shutdown()
        behind.server_close()
        thread.join()
