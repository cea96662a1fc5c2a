"""Tells what an application sees of a request, as the ones beside it do in their languages: by WSGI, ASGI, and as an HTTP server."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def of_environ(environ):
    fields = {name[5:].lower().replace("_", "-"): value for name, value in environ.items() if name.startswith("HTTP_")}
    seen = {"uri": environ["REQUEST_URI"], "path": environ["PATH_INFO"], "query": environ["QUERY_STRING"], "fields": fields}
    seen |= {"name": environ["SERVER_NAME"], "software": environ["SERVER_SOFTWARE"]}
    return seen | {"script": environ["SCRIPT_NAME"]}


def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return json.dumps(of_environ(environ)).encode()


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    query = scope["query_string"].decode()
    fields = {name.decode(): value.decode() for name, value in scope["headers"]}
    seen = {"uri": scope["raw_path"].decode() + ("?" + query if query else ""), "path": scope["path"], "query": query, "fields": fields}
    if "root_path" in scope:
        seen["script"] = scope["root_path"]
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": json.dumps(seen).encode()})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        fields = {name.lower(): value for name, value in self.headers.items()}
        body = json.dumps({"uri": self.path, "fields": fields}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    sys.stderr = open(os.devnull, "w")
    ThreadingHTTPServer((os.environ["HOST"], int(os.environ["PORT"])), Handler).serve_forever()
