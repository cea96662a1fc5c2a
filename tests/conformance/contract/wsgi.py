"""The application of the language contract (`tests/e2e/tests/contract.rs`) in Python, by WSGI."""

import os
import signal
import time

LOADED = os.getpid()
grown = []


def slow():
    yield b"first\n"
    while not os.path.exists(os.environ["WORK"] + "/go"):
        time.sleep(0.005)
    yield b"second\n"


def endless():
    while True:
        yield b"x" * 65536


def hang():
    while True:
        pass


def grow():
    grown.append(b"x" * (200 << 20))
    time.sleep(0.5)
    return [b"grown"]


def fail():
    raise RuntimeError("asked to fail")


def pieces(environ):
    body = environ["wsgi.input"]
    read = body.readline if "HTTP_X_LINES" in environ else body.read
    try:
        while piece := read(8192):
            yield piece
    # The client may also be seen to have gone between two reads.
    except (OSError, GeneratorExit) as error:
        print("cut short:", error, file=environ["wsgi.errors"])
        raise


PAGES = {
    "/": lambda: [b"Hello from Python\n"],
    "/slow": slow,
    "/endless": endless,
    "/fails": fail,
    "/ends": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "/hangs": hang,
    "/grows": grow,
    "/loaded": lambda: [f"{LOADED} {os.getpid()}".encode()],
}


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/body":
        start_response("200 OK", [("Content-Type", "application/octet-stream")])
        return pieces(environ)
    if path == "/head":
        back = ("X-Back", environ["HTTP_X_LONG"])
        start_response("201 Created", [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-Empty", ""), back])
        return [environ["HTTP_X_SEEN"].encode("latin-1")]
    body = PAGES[path]()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else body
