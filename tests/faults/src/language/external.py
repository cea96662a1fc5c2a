#!/usr/bin/python3
"""A program that speaks HTTP by itself."""

import os
import socketserver
from http.server import BaseHTTPRequestHandler


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "9")
        self.end_headers()
        self.wfile.write(b"release 1")

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


Server(("127.0.0.1", int(os.environ["PORT"])), Page).serve_forever()
