"""Does what WSGI lets an application do, one thing for each path. `validated` is the same under `wsgiref.validate`."""

import atexit
import io
import json
import os
import sys
import threading
import time
import urllib.parse
from wsgiref.validate import validator

TEXT = [("Content-Type", "text/plain")]
ROUTES = {}
kept = {}
kept_write = []
ticks = [0]


def route(function):
    ROUTES["/" + function.__name__] = function
    return function


def application(environ, start_response):
    query = dict(urllib.parse.parse_qsl(environ["QUERY_STRING"]))
    return ROUTES.get(environ["PATH_INFO"], hello)(environ, start_response, **query)


def answer(start_response, body, status="200 OK", headers=()):
    start_response(status, [*TEXT, *headers])
    return [body.encode() if isinstance(body, str) else body]


def hello(environ, start_response):
    return answer(start_response, "Hello from Python\n")


@route
def one_piece(environ, start_response, size):
    start_response("200 OK", TEXT)
    return b"x" * int(size)


@route
def environ(environ, start_response, **query):
    shown = {name: value if isinstance(value, (str, int, bool)) else repr(value) for name, value in environ.items()}
    shown["wsgi.version"] = list(environ["wsgi.version"])
    shown["sys.path"] = sys.path
    shown["sys.prefix"] = sys.prefix
    shown["os.environ"] = dict(os.environ)
    shown["cwd"] = os.getcwd()
    return answer(start_response, json.dumps(shown))


@route
def echo(environ, start_response, how="read", size="-1"):
    body, size = environ["wsgi.input"], int(size)
    if how == "read":
        data = body.read(size)
    elif how == "pieces":
        data = b"".join(iter(lambda: body.read(size), b""))
    elif how == "readline":
        data = b"|".join(iter(lambda: body.readline(), b""))
    elif how == "readline_size":
        data = b"|".join(iter(lambda: body.readline(size), b""))
    elif how == "readlines":
        data = b"|".join(body.readlines())
    elif how == "iterate":
        data = b"|".join(body)
    elif how == "mixed":
        data = b"|".join([body.readline(), body.read(3), body.readline(), body.read(size)])
    else:
        data = b""
    return answer(start_response, data)


@route
def chunks(environ, start_response, kind="list"):
    start_response("200 OK", TEXT)
    parts = [b"one ", b"", b"two ", b"three"]
    return {"list": list, "tuple": tuple, "generator": lambda parts: (part for part in parts)}[kind](parts)


@route
def large(environ, start_response, size="1000000", kind="list"):
    """Lines of 64 bytes, numbered, so that a piece lost or doubled shows."""
    start_response("200 OK", TEXT)
    lines = (b"%063d\n" % number for number in range(int(size) // 64))
    return [b"".join(lines)] if kind == "list" else lines


@route
def write(environ, start_response):
    push = start_response("200 OK", TEXT)
    push(b"pushed ")
    push(b"twice ")
    return [b"and returned"]


@route
def stepwise(environ, start_response, folder):
    start_response("200 OK", TEXT)
    for step in range(3):
        yield b"step %d\n" % step
        while not os.path.exists(f"{folder}/step{step}"):
            time.sleep(0.01)


class Closing:
    """An iterable that reports its end."""

    def __init__(self, folder, parts, fail=False):
        self.folder, self.parts, self.fail = folder, iter(parts), fail

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.parts)

    def close(self):
        with open(f"{self.folder}/closed", "a") as file:
            file.write("closed\n")
        if self.fail:
            raise RuntimeError("close fails")


@route
def closing(environ, start_response, folder, how="whole"):
    def broken():
        yield b"x" * 100
        raise RuntimeError("iteration breaks off")

    start_response("200 OK", TEXT)
    if how == "whole":
        return Closing(folder, [b"whole"])
    if how == "endless":
        return Closing(folder, (b"x" * 1000 for _ in iter(int, 1)))
    breaks_off = how in ("broken", "broken twice")
    return Closing(folder, broken() if breaks_off else [b"whole"], how in ("fails", "broken twice"))


@route
def afterwards(environ, start_response, folder):
    """The declared length has been sent while the application goes on."""
    start_response("200 OK", [*TEXT, ("Content-Length", "5")])
    yield b"whole"
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.01)
    with open(f"{folder}/done", "w") as file:
        file.write("1")


@route
def file(environ, start_response, path, skip="0", length="", kind="rb", block="8192"):
    source = open(path, kind) if kind == "rb" else io.BytesIO(open(path, "rb").read())
    source.read(int(skip))
    start_response("200 OK", [*TEXT, *([("Content-Length", length)] if length else [])])
    return environ["wsgi.file_wrapper"](source, int(block))


@route
def number(environ, start_response):
    """No iterable."""
    start_response("200 OK", TEXT)
    return 5


@route
def fails(environ, start_response, at="start", folder=""):
    if at == "start":
        raise RuntimeError("fails before the start")
    if at == "exit":
        sys.exit("leaves")
    if at == "silent":
        return [b"no head"]
    start_response("200 OK", TEXT)
    if at == "head":
        raise RuntimeError("fails after the head")
    if at == "text":
        return ["text"]
    if at == "twice":
        start_response("200 OK", TEXT)

    def parts():
        yield b"begun "
        raise RuntimeError("fails in the middle")
    return parts()


@route
def replaced(environ, start_response, late=""):
    """An error page in place of the response, while that is possible."""
    push = start_response("200 OK", TEXT)
    if late:
        push(b"begun")
    try:
        raise ValueError("the reason")
    except ValueError:
        start_response("503 Service Unavailable", [*TEXT, ("X-Replaced", "1")], sys.exc_info())
    return [b"replaced"]


@route
def head(environ, start_response, status="200 OK", name="X-Name", value="value", length=""):
    fields = [("Content-Length", length)] if length else []
    return answer(start_response, "body", status, [*fields, (name, value)])


@route
def bare(environ, start_response, status="304 Not Modified"):
    start_response(status, [("ETag", '"1"')])
    return []


@route
def repeated(environ, start_response):
    return answer(start_response, "", headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-Latin", "\xe9")])


@route
def errors(environ, start_response):
    stream = environ["wsgi.errors"]
    stream.write("a complaint\nin two lines\n")
    print("printed", file=stream)
    stream.writelines(["first of two\n", "second of two\n"])
    stream.flush()
    print("to stdout")
    print("to stderr", file=sys.stderr)
    return answer(start_response, "ok")


@route
def keep(environ, start_response):
    if kept:
        try:
            kept["input"].read()
        except RuntimeError as error:
            first = str(error)
        try:
            kept["start_response"]("200 OK", TEXT)
        except RuntimeError as error:
            return answer(start_response, f"{first}; {error}")
    kept.update(input=environ["wsgi.input"], start_response=start_response, environ=environ)
    return answer(start_response, "kept")


@route
def keep_write(environ, start_response):
    """Keeps only what `start_response` returned; `environ` and `start_response` go with their request."""
    push, kept_write[:] = kept_write[:], [start_response("200 OK", TEXT)]
    try:
        for write in push:
            write(b"for another client; ")
    except RuntimeError as error:
        return [str(error).encode()]
    return [b"kept"]


@route
def forks(environ, start_response, how):
    """The child must do nothing to the response of its parent."""
    push = start_response("200 OK", TEXT)
    child = os.fork()
    if child:
        yield f"parent {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}".encode()
        return
    print(f"child, {how}")
    if how == "exit":
        sys.exit(3)
    if how == "raise":
        raise RuntimeError("the child's own")
    if how == "push":
        push(b"child")
    yield b"child"


@route
def background(environ, start_response):
    """A thread of the application's own runs between requests."""
    def tick():
        while True:
            ticks[0] += 1
            time.sleep(0.001)
    if not ticks[0]:
        threading.Thread(target=tick, daemon=True).start()
    return answer(start_response, str(ticks[0]))


@route
def pid(environ, start_response):
    return answer(start_response, str(os.getpid()))


@route
def thread(environ, start_response, folder="", wait=""):
    """Waits for a file, so that a test can hold a thread."""
    if wait:
        open(f"{folder}/at-{wait}", "w").close()
    while wait and not os.path.exists(f"{folder}/{wait}"):
        time.sleep(0.01)
    return answer(start_response, f"{os.getpid()} {threading.get_ident()}")


@route
def spin(environ, start_response):
    while True:
        pass


@route
def sometimes(environ, start_response, every):
    ticks[0] += 1
    if ticks[0] % int(every) == 0:
        os.abort()
    return hello(environ, start_response)


@route
def farewell(environ, start_response, folder):
    atexit.register(lambda: open(f"{folder}/farewell", "w").write("good bye"))
    return answer(start_response, "noted")


@route
def crash(environ, start_response):
    os.abort()


validated = validator(application)
