"""Notes where it was imported, and what its process has of asyncio."""

import asyncio
import json
import os

imported = os.getpid()
lock = asyncio.Lock()


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    async with lock:
        await asyncio.sleep(0.001)
        in_thread = await asyncio.to_thread(os.getpid)
    program = await asyncio.create_subprocess_exec("/bin/echo", "said", stdout=asyncio.subprocess.PIPE)
    said, _ = await program.communicate()
    body = json.dumps({"imported": imported, "pid": os.getpid(), "in_thread": in_thread, "said": said.decode()}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})
