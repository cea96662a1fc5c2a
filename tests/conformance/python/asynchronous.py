"""Does what ASGI lets an application do, one thing for each path."""

import asyncio
import contextvars
import json
import os
import sys
import threading
import urllib.parse

ROUTES = {}
notes = {"lifespan": [], "threads": []}
variable = contextvars.ContextVar("variable", default="unset")


def route(function):
    ROUTES["/" + function.__name__] = function
    return function


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        return await lifespan(scope, receive, send)
    query = dict(urllib.parse.parse_qsl(scope["query_string"].decode()))
    if scope["type"] == "websocket":
        return await SOCKETS[scope["path"]](scope, receive, send, **query)
    await ROUTES.get(scope["path"], hello)(scope, receive, send, **query)


async def lifespan(scope, receive, send):
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            scope["state"]["greeting"] = "made at startup"
            notes["loop"] = asyncio.get_running_loop()
            await send({"type": "lifespan.startup.complete"})
        else:
            folder = os.environ.get("FOLDER")
            if folder:
                with open(f"{folder}/shutdown", "w") as file:
                    file.write("shut down")
            await send({"type": "lifespan.shutdown.complete"})
            return


async def answer(send, body, status=200, headers=()):
    if not isinstance(body, bytes):
        body = (body if isinstance(body, str) else json.dumps(body)).encode()
    await send({"type": "http.response.start", "status": status,
                "headers": [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode()), *headers]})
    await send({"type": "http.response.body", "body": body})


async def until(path):
    while not os.path.exists(path):
        await asyncio.sleep(0.01)


async def hello(scope, receive, send, **query):
    await answer(send, "Hello from ASGI\n")


@route
async def scope(scope, receive, send, **query):
    shown = {name: value.decode("latin-1") if isinstance(value, bytes) else value for name, value in scope.items()}
    shown["headers"] = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
    shown["kinds"] = sorted({type(part).__name__ for pair in scope["headers"] for part in pair})
    shown["loop"] = type(asyncio.get_running_loop()).__module__
    shown["is_same_loop"] = notes.get("loop") is asyncio.get_running_loop()
    await answer(send, shown)


@route
async def state(scope, receive, send):
    shown = dict(scope["state"])
    scope["state"]["greeting"] = "changed by a request"
    await answer(send, shown)


@route
async def echo(scope, receive, send):
    body, pieces = b"", 0
    while True:
        message = await receive()
        assert message["type"] == "http.request", message
        body += message["body"]
        pieces += 1
        if not message["more_body"]:
            break
    await answer(send, body, headers=[(b"x-pieces", str(pieces).encode())])


@route
async def meet(scope, receive, send, count):
    """Moves work off the loop; it comes back when `count` threads at once are at it, and says how many there were at most."""
    barrier = threading.Barrier(int(count))
    lock = threading.Lock()
    now = most = 0

    def work():
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        barrier.wait(60)
        with lock:
            now -= 1

    await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4 * int(count))))
    await answer(send, {"most": most, "stack": threading.stack_size()})


@route
async def stream(scope, receive, send, size="1000000", piece="10000", kind="bytes"):
    """Numbered lines of 64 bytes."""
    await send({"type": "http.response.start", "status": 200, "headers": [[b"content-type", b"text/plain"]]})
    body = b"".join(b"%063d\n" % number for number in range(int(size) // 64))
    wrap = {"bytes": bytes, "bytearray": bytearray, "memoryview": memoryview}[kind]
    for start in range(0, len(body), int(piece)):
        await send({"type": "http.response.body", "body": wrap(body[start:start + int(piece)]), "more_body": True})
    await send({"type": "http.response.body"})


@route
async def stepwise(scope, receive, send, folder):
    await send({"type": "http.response.start", "status": 200})
    for step in range(3):
        await send({"type": "http.response.body", "body": b"step %d\n" % step, "more_body": True})
        await until(f"{folder}/step{step}")
    await send({"type": "http.response.body", "body": b""})


@route
async def disconnect(scope, receive, send, folder):
    """Waits for the client's end, after the body."""
    first = await receive()
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    messages = [first, await receive(), await receive()]
    try:
        await send({"type": "http.response.body", "body": b"more", "more_body": True})
        outcome = "sent"
    except OSError as error:
        outcome = str(error)
    with open(f"{folder}/disconnect", "w") as file:
        json.dump([[message["type"] for message in messages], outcome], file)


@route
async def endless(scope, receive, send, folder):
    """Never asks; the exception of `send` ends it."""
    await send({"type": "http.response.start", "status": 200})
    try:
        while True:
            await send({"type": "http.response.body", "body": b"x" * 10000, "more_body": True})
    finally:
        with open(f"{folder}/ended", "w") as file:
            file.write(repr(sys.exc_info()[1]))


@route
async def after(scope, receive, send):
    """`receive` after the response is a disconnect."""
    await answer(send, "done")
    notes["after"] = [(await receive())["type"] for _ in range(2)]


@route
async def noted(scope, receive, send, name):
    await answer(send, notes.get(name))


@route
async def cancelled(scope, receive, send):
    """A wait that is given up loses nothing."""
    first = await receive()
    try:
        await asyncio.wait_for(receive(), 0.05)
    except asyncio.TimeoutError:
        pass
    waiting = asyncio.create_task(receive())
    await asyncio.sleep(0)
    waiting.cancel()
    try:
        await waiting
    except asyncio.CancelledError:
        first["outcome"] = "cancelled"
    first["body"] = first["body"].decode()
    await answer(send, first)


@route
async def task(scope, receive, send):
    """Does what libraries ask of the task they run in."""
    current = asyncio.current_task()
    before = current is not None
    variable.set("set by a request")
    await asyncio.sleep(0)
    inner = await asyncio.gather(asyncio.sleep(0, "a"), asyncio.to_thread(lambda: "b"))
    if sys.version_info >= (3, 11):
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(10)
        except TimeoutError:
            inner.append("timed out")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0, number)) for number in range(3)]
        inner.extend(task.result() for task in tasks)
    await answer(send, {"had": before, "same": current is asyncio.current_task(), "inner": inner})


@route
async def context(scope, receive, send):
    await answer(send, variable.get())


@route
async def forks(scope, receive, send, how):
    """The child must do nothing to the response of its parent."""
    child = os.fork()
    if child:
        return await answer(send, f"parent {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")
    if how == "exit":
        sys.exit(3)
    if how == "raise":
        raise RuntimeError("the child's own")
    if how == "wait":
        await asyncio.sleep(0)
    await answer(send, "child")


@route
async def together(scope, receive, send, folder):
    """Waits until as many requests are here as `here` says."""
    notes["here"] = notes.get("here", 0) + 1
    while notes["here"] < 20:
        await asyncio.sleep(0.01)
    await answer(send, str(os.getpid()))


@route
async def fails(scope, receive, send, at="start"):
    if at == "start":
        raise RuntimeError("fails before the start")
    if at == "later":
        await asyncio.sleep(0.01)
        raise RuntimeError("fails after a wait")
    if at == "silent":
        return
    if at == "body":
        await send({"type": "http.response.body", "body": b"x"})
    if at == "kind":
        await send({"type": "http.nonsense"})
    if at == "text":
        await send({"type": "http.response.start", "status": 200, "headers": [("a", "b")]})
    if at == "header":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b\r\nx-evil: 1")]})
    if at == "status":
        await send({"type": "http.response.start", "status": 99})
    if at == "exit":
        sys.exit("leaves")
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"begun ", "more_body": True})
    if at == "unfinished":
        return
    if at == "middle":
        raise RuntimeError("fails in the middle")
    await send({"type": "http.response.body", "body": b"and ended"})
    if at == "end":
        raise RuntimeError("fails after the end")
    await send({"type": "http.response.body", "body": b"too much"})


@route
async def bodiless(scope, receive, send, status="200"):
    """Says all it has to say with its start."""
    await send({"type": "http.response.start", "status": int(status), "headers": [(b"x-said", b"all")]})


@route
async def background(scope, receive, send, folder):
    """Goes on after its response."""
    await answer(send, "at once")
    await until(f"{folder}/go")
    with open(f"{folder}/done", "w") as file:
        file.write("1")


@route
async def pid(scope, receive, send):
    await answer(send, str(os.getpid()))


@route
async def spin(scope, receive, send):
    while True:
        pass


SOCKETS = {}


def socket(function):
    SOCKETS["/" + function.__name__] = function
    return function


@socket
async def talk(scope, receive, send, subprotocol=None, **query):
    """Sends back what comes; `close CODE REASON` closes."""
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": [(b"x-accepted", b"1")]})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            notes["closed"] = [message["code"], message["reason"]]
            return
        if (message.get("text") or "").startswith("close "):
            _, code, reason = message["text"].split(" ", 2)
            await send({"type": "websocket.close", "code": int(code), "reason": reason})
            notes["closed"] = "by us"
            return
        if message.get("text") == "fail":
            raise RuntimeError("fails in a WebSocket")
        if message.get("text") == "return":
            return
        if "text" in message:
            await send({"type": "websocket.send", "text": message["text"]})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"]})


@socket
async def refused(scope, receive, send, how="close", **query):
    await receive()
    if how == "close":
        await send({"type": "websocket.close"})
    elif how == "response":
        await send({"type": "websocket.http.response.start", "status": 401, "headers": [(b"x-why", b"because")]})
        await send({"type": "websocket.http.response.body", "body": b"not "  , "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b"you"})
    elif how == "exception":
        raise RuntimeError("fails before accepting")


@socket
async def seen(scope, receive, send, **query):
    await receive()
    await send({"type": "websocket.accept"})
    shown = {name: value for name, value in scope.items() if isinstance(value, (str, int, list, dict)) and name != "headers"}
    await send({"type": "websocket.send", "text": json.dumps(shown)})
    await send({"type": "websocket.close"})


@socket
async def push(scope, receive, send, count="100", size="100000", **query):
    """More than fits anywhere, with no reader at first."""
    await receive()
    await send({"type": "websocket.accept"})
    for number in range(int(count)):
        await send({"type": "websocket.send", "bytes": bytes([number % 256]) * int(size)})
    await send({"type": "websocket.close", "code": 4000, "reason": "all sent"})


class Double:
    """ASGI 2: called twice."""

    def __init__(self, scope):
        self.scope = scope

    async def __call__(self, receive, send):
        if self.scope["type"] != "http":
            raise ValueError("only http")
        await answer(send, f"double {self.scope['asgi']['version']}")


def context_outside(scope, receive, send):
    """Middleware that is no coroutine function; it leaves the variable as it sets it."""
    before = variable.get()
    variable.set("set outside")

    async def respond():
        await answer(send, f"{before}, {variable.get()}")

    return respond()


class DoubleContext:
    """The same in ASGI 2."""

    def __init__(self, scope):
        self.before = variable.get()
        variable.set("set outside")

    async def __call__(self, receive, send):
        await answer(send, f"{self.before}, {variable.get()}")


class Instance:
    """ASGI 3 by an object."""

    async def __call__(self, scope, receive, send):
        assert scope["type"] == "http"
        await answer(send, f"instance {scope.get('root_path')}")


instance = Instance()


async def no_lifespan(scope, receive, send):
    assert scope["type"] == "http", "lifespan is not supported"
    await answer(send, "no lifespan")


async def fails_at_startup(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "the database is away"})


async def fails_and_raises_at_startup(scope, receive, send):
    await receive()
    try:
        connect_to_the_database()
    except OSError:
        await send({"type": "lifespan.startup.failed"})
        raise


async def raises_at_startup(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        connect_to_the_database()
    await answer(send, "served nevertheless")


def connect_to_the_database():
    raise OSError("the database does not answer")
