"""Answers of all kinds, for a server that compresses them."""

import gzip
import os
import time

TEXT = b"Some text that an application made. " * 500


def lines(path):
    """Gives one event, and the next when the file is there."""
    yield b"data: one\n\n"
    while not os.path.exists(path):
        time.sleep(0.01)
    yield b"data: two\n\n"


def application(environ, start_response):
    path = environ["PATH_INFO"]
    fields = [("Content-Type", "text/html; charset=utf-8")]
    body = [TEXT]
    if path == "/length":
        fields += [("Content-Length", str(len(TEXT))), ("ETag", '"v1"')]
    elif path == "/pieces":
        body = (TEXT[:1000] for _ in range(300))
    elif path == "/short":
        fields += [("Content-Length", str(len(TEXT) + 1))]
    elif path == "/coded":
        body = [gzip.compress(TEXT)]
        fields += [("Content-Encoding", "gzip")]
    elif path == "/varies":
        fields += [("Vary", "Cookie"), ("Vary", "Accept-Encoding")]
    elif path == "/fixed":
        fields += [("Cache-Control", "private, no-transform")]
    elif path == "/binary":
        fields = [("Content-Type", "application/octet-stream")]
    elif path == "/events":
        fields = [("Content-Type", "text/event-stream")]
        body = lines(environ["QUERY_STRING"])
    start_response("200 OK", fields)
    return body
