"""The application of the suite: an ASGI application whose responses depend on nothing but the request.

`SERVED` in its environment names a file, to which each request that it begins adds a line of JSON.
"""

import asyncio
import json
import os

PAGE = 100
BIG = 4 << 20
LARGE = 900_000


def note(scope, fields):
    line = {"path": scope["path"], "id": fields.get("x-test-id", ""), "job": fields.get("x-tutti-job-id", ""),
            "schedule": fields.get("x-tutti-job-schedule", ""), "early": fields.get("early-data", ""), "slot": fields.get("x-slot", ""), "method": scope.get("method", "")}
    with open(os.environ["SERVED"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def user(fields):
    return fields.get("remote-user") or fields.get("authorization", "-")


async def body_of(receive):
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


def big():
    return b"".join(b"%015d\n" % line for line in range(BIG // 16))


async def respond(scope, receive, fields):
    """(status, fields, body)."""
    path = scope["path"]
    if path.startswith("/page/"):
        return 200, [("cache-control", "public, max-age=600"), ("etag", '"page"')], f"the page {path} for all\n".encode() * PAGE
    if path == "/mine":
        return 200, [], f"this is for {user(fields)} alone\n".encode() * PAGE
    if path == "/echo":
        return 200, [("cache-control", "no-store")], await body_of(receive)
    if path == "/who":
        host, _ = scope["client"] or ("?", 0)
        early = fields.get("early-data", "0")
        return 200, [("cache-control", "no-store")], f"{host} {scope['scheme']} early={early}\n".encode()
    if path == "/fail":
        return 500, [], b"the application fails\n"
    if path == "/sorry":
        return 200, [], b"the error page of 5xx\n"
    if path == "/accel":
        return 200, [("x-accel-redirect", "/protected/data.bin"), ("content-type", "application/x-report"), ("set-cookie", "kept=1")], b"not this\n"
    if path == "/scheme":
        return 200, [("cache-control", "public, max-age=600")], f"{scope['scheme']}\n".encode()
    if path == "/accel-nothing":
        return 200, [("x-accel-redirect", "/protected/nothing")], b"not this\n"
    if path == "/accel-text":
        return 200, [("x-accel-redirect", "/protected/text.txt")], b"not this\n"
    if path == "/large":
        return 200, [("cache-control", "public, max-age=600"), ("content-length", str(LARGE))], big()[:LARGE]
    if path == "/big":
        return 200, [("cache-control", "no-store"), ("content-length", str(BIG))], big()
    if path == "/slow":
        await asyncio.sleep(0.2)
        return 200, [("cache-control", "no-store")], b"slow\n"
    if path == "/wait":
        while not os.path.exists(f"{os.environ['SERVED']}-{fields['x-slot']}"):
            await asyncio.sleep(0.02)
        return 200, [("cache-control", "no-store")], b"waited\n"
    if path == "/auth":
        name = fields.get("x-name", "")
        return (200, [("remote-user", name)], b"") if name in ("anna", "ben") else (401, [("www-authenticate", "Forward")], b"who are you?\n")
    if path in ("/jobs/one", "/tick"):
        await body_of(receive)
        return 200, [], b"done\n"
    return 404, [], b"the application has no such page\n"


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        return await send({"type": "lifespan.shutdown.complete"})
    fields = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
    note(scope, fields)
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"] + f" from {user(fields)}"})
        return None
    status, head, body = await respond(scope, receive, fields)
    if not any(name == "content-type" for name, _ in head):
        head = [("content-type", "text/plain"), *head]
    head = [(name.encode(), value.encode()) for name, value in head]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
