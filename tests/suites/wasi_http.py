"""wasi:http 0.2 of components in the language host: the requests that they get, send and answer: the cases of Wasmtime's test programs."""

import http.client
import shutil
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from base import Case, Missing
from harness.processes import wait_until

VERSION = "e6b33de513 (21 August 2026), its cases written from its test programs' checks"
HERE = Path(__file__).resolve().parent / "wasi"
SECONDS = 30
OUTBOUND = ("get", "post", "large_post", "put", "invalid_version", "invalid_header", "unknown_method", "unsupported_scheme", "invalid_port",
            "invalid_dnsname", "response_build", "content_length", "missing_path_and_query", "timeout")
OWN_OPTIONS = "it is about options of Wasmtime's own server"
LEFT_OUT = {
    **dict.fromkeys(("p2_cli_serve_header_replaces_request_header", "p2_cli_serve_header_file", "p2_cli_serve_outgoing_body_config",
                     "p2_cli_serve_with_print_no_prefix", "p2_cli_serve_only_one_process_allowed", "p2_cli_serve_quick_rebind_allowed"), OWN_OPTIONS),
    "p2_cli_serve_config": "it needs wasi:config, which the world wasi:http/proxy does not have",
    "p2_cli_serve_keyvalue": "it needs wasi:keyvalue, which the world wasi:http/proxy does not have",
    "wasi_http_hash_all_with_override": "it is about a function that a program sets for Wasmtime",
    "wasi_http_without_port": "it needs a server at port 80",
    "p3_*": "it is for WASI 0.3, as are all of WASI's own tests of wasi:http",
}


class Origin(BaseHTTPRequestHandler):
    """Sends a body back, at `/echo` while it gets it, and names the method and the target."""

    protocol_version = "HTTP/1.1"
    dropped = threading.Event()

    def chunks(self):
        """The chunks of the body, each with its frame."""
        while self.headers.get("Transfer-Encoding") == "chunked":
            head = self.rfile.readline()
            chunk = self.rfile.read(int(head, 16) + 2)
            yield head + chunk
            if len(chunk) == 2:
                return

    def answer(self):
        if self.path == "/dropped":
            self.dropped.set()
        body = self.chunks() if self.path == "/echo" else list(self.chunks()) or [b"0\r\n\r\n"]
        self.send_response(200)
        self.send_header("X-Method", self.command)
        self.send_header("X-Target", self.path)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in body:
            self.wfile.write(chunk)

    do_GET = do_POST = do_PUT = answer

    def do_CONNECT(self):
        self.close_connection = True

    def log_message(self, *_):
        pass


def full_server():
    """A listening socket whose queue is full: it takes no other connection."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = []
    while True:
        client = socket.socket()
        client.settimeout(1)
        try:
            client.connect(listener.getsockname())
        except TimeoutError:
            return listener, waiting
        waiting.append(client)


def build(context):
    cargo = context.program("cargo")
    target = context.kept / "wasi-target"
    done = subprocess.run([cargo, "build", "--quiet", "--release", "--locked", "--target", "wasm32-wasip2", "--target-dir", target], cwd=HERE,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if "can't find crate for `core`" in done.stderr:
        raise Missing("the target wasm32-wasip2 is not installed: rustup target add wasm32-wasip2")
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    component = context.folder / "cases.wasm"
    shutil.copy(target / "wasm32-wasip2/release/wasi_http_cases.wasm", component)
    component.chmod(0o644)
    return component


class Client:
    def __init__(self, server):
        self.server = server

    def log(self):
        return (self.server.folder / "log").read_text(errors="replace")

    def ask(self, name, body=None, fields=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SECONDS)
        connection.putrequest("GET" if body is None else "POST", f"/{name}", skip_host=True)
        for field, value in (("Host", "localhost"), *fields):
            connection.putheader(field, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return response, response.read()

    def case(self, name, status=200, expected=b"", logged=(), **request):
        """The outcome of one request; the log has to have the lines of `logged`."""
        response, body = self.ask(name, **request)
        if response.status != status:
            return Case(name, "fail", f"{response.status} in place of {status}")
        if status == 200 and body != expected:
            return Case(name, "fail", f"{len(body)} bytes in place of {len(expected)}")
        try:
            wait_until(lambda: all(line in self.log() for line in logged), SECONDS, "lines of the log")
        except TimeoutError:
            return Case(name, "fail", "the log lacks a line")
        return Case(name, "pass")


def environment(client):
    values = [client.ask("p2_cli_serve_echo_env", fields=[("env", name)])[0].headers.get("env") for name in ("FOO", "BAR")]
    return Case("p2_cli_serve_echo_env", "pass") if values == ["bar", None] else Case("p2_cli_serve_echo_env", "fail", str(values))


def early_drop(client):
    """The client is gone while the component writes."""
    name = "wasi_http_no_trap_on_early_drop"
    with socket.create_connection(("127.0.0.1", client.server.port), SECONDS) as connection:
        connection.sendall(f"GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        connection.recv(1)
    return Case(name, "pass") if Origin.dropped.wait(SECONDS) else Case(name, "fail", "the component did not come to its end")


def run(context):
    context.module("tutti-wasm")
    component = build(context)
    origin = ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    listener, waiting = full_server()
    authority, full = (f"127.0.0.1:{port}" for port in (origin.server_address[1], listener.getsockname()[1]))
    application = {
        "type": "wasm-wasi-component", "component": str(component), "access": {"network": [authority, full, "localhost:3000", "some.invalid.dnsname:3000"]},
        "environment": {"HTTP_SERVER": authority, "FULL_SERVER": full, "FOO": "bar"},
    }
    server = context.server(lambda port: {
        "listeners": {f"127.0.0.1:{port}": {"pass": "routes"}},
        "routes": [{"match": {"uri": "/p2_cli_serve_sleep"}, "action": {"pass": "applications/limited"}}, {"action": {"pass": "applications/cases"}}],
        "applications": {"cases": application, "limited": {**application, "limits": {"timeout": 1}}},
    })
    client = Client(server)
    for name in OUTBOUND:
        yield client.case(f"p2_http_outbound_request_{name}")
    yield client.case("wasi_http_proxy_tests", expected=b"hello, world!", fields=[("X-Sent", "yes")])
    paths = ["/a", "/b", "/c", "/d"]
    yield client.case("wasi_http_hash_all", expected="".join(f"{path}\n" for path in paths).encode(), fields=[("url", f"http://{authority}{path}") for path in paths])
    yield client.case("wasi_http_hash_all_with_reject")
    body = bytes(range(256)) * 4096
    for name in ("wasi_http_echo", "wasi_http_double_echo"):
        yield client.case(name, expected=body, body=body)
    yield early_drop(client)
    few = client.case("wasi_http_fields_limit_incoming_request?50")
    many = client.case("wasi_http_fields_limit_incoming_request?1000000", status=500, logged=["total size of fields exceeds limit"])
    yield Case("wasi_http_fields_limit_incoming_request", "pass" if few.outcome == many.outcome == "pass" else "fail", few.detail or many.detail)
    names = ("p2-append", "p2-append-empty", "p2-append-same", "p2-append-same-empty")
    wrong = [case.detail for case in (client.case(f"p2_cli_http_headers?{name}", status=500) for name in names) if case.outcome != "pass"]
    yield Case("p2_cli_http_headers", "fail" if wrong else "pass", "; ".join(wrong))
    yield environment(client)
    yield client.case("p2_cli_serve_authority_and_scheme")
    yield client.case("p2_cli_serve_hello_world", expected=b"Hello, WASI!")
    yield client.case("p2_cli_serve_return_before_set", status=500, logged=["the component came back without an answer"])
    yield client.case("p2_cli_serve_trap_before_set", status=500, logged=["GET /p2_cli_serve_trap_before_set: the component failed: wasm trap"])
    yield client.case("p2_cli_serve_sleep", status=504)
    yield client.case("p2_cli_serve_with_print", logged=["this is half a print to stdout\n", "after empty\n", "start a print 1234\n"])
    for name, reason in LEFT_OUT.items():
        yield Case(name, "skip", reason)
    origin.shutdown()
    for each in (listener, *waiting):
        each.close()
