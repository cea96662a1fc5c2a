"""Tells which request an application is given, as the ones beside it do in their languages: by WSGI, ASGI, and as an HTTP server."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def told(stamp, method, target, body):
    return json.dumps({"stamp": stamp, "method": method, "target": target, "body": body.decode("latin-1")}).encode() + b"\n"


def wsgi(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [told(environ.get("HTTP_X_ROUTER", ""), environ["REQUEST_METHOD"], environ.get("REQUEST_URI") or environ["RAW_URI"], body)]


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    body, more = b"", True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        body, more = body + event.get("body", b""), event.get("more_body", False)
    query = scope["query_string"]
    target = (scope["raw_path"] + (b"?" + query if query else b"")).decode("latin-1")
    stamp = dict(scope["headers"]).get(b"x-router", b"").decode("latin-1")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": told(stamp, scope["method"], target, body)})


class Handler(BaseHTTPRequestHandler):
    """Python's own server, which reads what a length says, and nothing that is chunked: a client gets 501."""

    protocol_version = "HTTP/1.1"
    log = None

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def answer(self):
        chunked = "Transfer-Encoding" in self.headers
        body = b"" if chunked else self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.close_connection = self.close_connection or chunked
        text = told(self.headers.get("X-Router", ""), self.command, self.path, body)
        self.log.write(text)
        self.log.flush()
        self.send_response(501 if chunked else 200)
        self.send_header("Content-Length", str(len(text)))
        if chunked:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    Handler.log = open(sys.argv[2], "ab")
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
