"""Echoes the body while it comes, with ASGI."""

import sys


async def application(scope, receive, send):
    headers = [(b"content-type", b"application/octet-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            print("cut short", file=sys.stderr)
            return
        more = message["more_body"]
        await send({"type": "http.response.body", "body": message["body"], "more_body": True})
    await send({"type": "http.response.body", "body": b""})
