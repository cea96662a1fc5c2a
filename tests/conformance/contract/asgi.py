"""The application of the language contract (`tests/e2e/tests/contract.rs`) in Python, by ASGI."""

import asyncio
import os
import signal
import sys

LOADED = os.getpid()
grown = []


async def start(send, status=200, headers=(), **more):
    await send({"type": "http.response.start", "status": status, "headers": headers, **more})


async def write(send, body, more_body=False):
    await send({"type": "http.response.body", "body": body, "more_body": more_body})


async def text(send, body):
    await start(send, headers=[(b"content-type", b"text/plain")])
    await write(send, body)


async def hello(scope, receive, send):
    await text(send, b"" if scope["method"] == "HEAD" else b"Hello from ASGI\n")


async def echo(scope, receive, send):
    await start(send)
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            print("cut short", file=sys.stderr)
            return
        more = message["more_body"]
        await write(send, message["body"], True)
    await write(send, b"")


async def head(scope, receive, send):
    values = [value for name, value in scope["headers"] if name == b"x-seen"]
    back = next(value for name, value in scope["headers"] if name == b"x-long")
    cookies = [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
    await start(send, 201, [*cookies, (b"x-empty", b""), (b"x-back", back)])
    await write(send, b", ".join(values))


async def hints(scope, receive, send):
    await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload; as=style"]})
    await start(send, headers=[(b"trailer", b"X-Sum")], trailers=True)
    await write(send, b"whole")
    await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"5")]})


async def slow(scope, receive, send):
    await start(send)
    await write(send, b"first\n", True)
    while not os.path.exists(os.environ["WORK"] + "/go"):
        await asyncio.sleep(0.005)
    await write(send, b"second\n")


async def endless(scope, receive, send):
    await start(send)
    while True:
        await write(send, b"x" * 65536, True)


async def fail(scope, receive, send):
    raise RuntimeError("asked to fail")


async def end(scope, receive, send):
    os.kill(os.getpid(), signal.SIGKILL)


async def hang(scope, receive, send):
    while True:
        pass


async def grow(scope, receive, send):
    grown.append(b"x" * (200 << 20))
    await asyncio.sleep(0.5)
    await text(send, b"grown")


async def loaded(scope, receive, send):
    await text(send, f"{LOADED} {os.getpid()}".encode())


PAGES = {
    "/": hello, "/body": echo, "/head": head, "/hints": hints, "/slow": slow, "/endless": endless,
    "/fails": fail, "/ends": end, "/hangs": hang, "/grows": grow, "/loaded": loaded,
}


async def talk(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": "heard: " + message["text"]})


async def application(scope, receive, send):
    if scope["type"] == "websocket":
        return await talk(receive, send)
    if scope["type"] != "http":
        raise NotImplementedError
    await PAGES[scope["path"]](scope, receive, send)
