"""A FastCGI server that lists its variables: `fcgi.py PORT`."""

import socketserver
import struct
import sys

BEGIN, PARAMS, STDIN, STDOUT, END = 1, 4, 5, 6, 3
THEIR_OWN = ("SERVER_SOFTWARE", "REMOTE_PORT", "HTTP_CONNECTION", "HTTP_TRACEPARENT", "HTTP_ACCEPT_ENCODING", "GATEWAY_INTERFACE")


def length(data, at):
    if data[at] < 128:
        return data[at], at + 1
    return struct.unpack(">I", data[at:at + 4])[0] & 0x7FFFFFFF, at + 4


def pairs(data):
    at = 0
    while at < len(data):
        name, at = length(data, at)
        value, at = length(data, at)
        yield data[at:at + name].decode(), data[at + name:at + name + value].decode("latin-1")
        at += name + value


class Handler(socketserver.StreamRequestHandler):
    def record(self):
        head = self.rfile.read(8)
        if len(head) < 8:
            return None
        _, kind, request, size, padding, _ = struct.unpack(">BBHHBB", head)
        content = self.rfile.read(size)
        self.rfile.read(padding)
        return kind, request, content

    def send(self, kind, request, content):
        self.wfile.write(struct.pack(">BBHHBB", 1, kind, request, len(content), 0, 0) + content)

    def handle(self):
        params, body, keep = b"", b"", False
        while True:
            record = self.record()
            if record is None:
                return
            kind, request, content = record
            if kind == BEGIN:
                keep = bool(content[2] & 1)
                params, body = b"", b""
            elif kind == PARAMS:
                params += content
            elif kind == STDIN and content:
                body += content
            elif kind == STDIN:
                named = dict(pairs(params))
                lines = [f"{name}={value}" for name, value in sorted(named.items()) if name not in THEIR_OWN]
                text = "\n".join([*lines, f"{len(body)} bytes"]) + "\n"
                status = {"/missing.php": "404 Not Found", "/error.php": "500 Internal Server Error"}.get(named.get("SCRIPT_NAME"), "200 OK")
                head = f"Status: {status}\r\nContent-Type: text/plain\r\nX-Application: fcgi\r\nX-Powered-By: test\r\n\r\n"
                self.send(STDOUT, request, (head + text).encode("latin-1"))
                self.send(STDOUT, request, b"")
                self.send(END, request, struct.pack(">IBBBB", 0, 0, 0, 0, 0))
                if not keep:
                    return


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
