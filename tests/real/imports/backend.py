"""A server behind a proxy, which says what it was asked: `backend.py PORT`."""

import gzip
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Fields that two proxies may say differently: how they keep connections, and who they are.
THEIR_OWN = {"connection", "user-agent", "content-length", "transfer-encoding", "traceparent", "tracestate", "accept-encoding"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        fields = sorted(f"{name.lower()}: {value}" for name, value in self.headers.items() if name.lower() not in THEIR_OWN)
        text = "\n".join([f"{self.command} {self.path}", *fields, f"{len(body)} bytes"]).encode() + b"\n"
        status = {"/redirect": 302, "/error": 500}.get(self.path.split("?")[0], 200)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere?x=1")
        if self.path == "/absolute":
            self.send_header("Refresh", f"5; url=http://{self.headers.get('Host')}/later")
        if self.path == "/cookie":
            self.send_header("Set-Cookie", "name=value; Path=/; Domain=backend.example")
        if self.path.startswith("/leave/"):
            self.send_header("X-Accel-Redirect", f"/private/{self.path.removeprefix('/leave/')}")
        if self.close_connection:
            # Without it a proxy keeps the connection, and may send the next request to one that is being closed.
            self.send_header("Connection", "close")
        self.send_header("X-Backend", "secret")
        self.send_header("X-Application", "backend")
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        if self.path.startswith("/gzip"):
            text = gzip.compress(text, mtime=0)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = answer

    def log_message(self, *arguments):
        pass


def datagrams(port):
    """Answers a datagram with its text: once, twice if it begins with `twice`, not at all if it begins with `silent`."""
    with socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", port))
        while True:
            text, client = udp.recvfrom(1 << 16)
            for _ in range({b"twice": 2, b"silen": 0}.get(text[:5], 1)):
                udp.sendto(b"asked " + text, client)


threading.Thread(target=datagrams, args=(int(sys.argv[1]),), daemon=True).start()
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
