"""Orders of receive, accept and close of a WebSocket, from one task and from several.

Each is a function; `GET /CASE` returns what it saw once it has ended. The client does what it is sent: `say TEXT` has it send the text,
`close CODE` close, `drop` go away. Run by Tutti and by uvicorn, both must say the same.
"""

import asyncio
import json

CASES = {}
seen = {}


def case(function):
    CASES["/" + function.__name__] = function
    return function


def shown(message):
    if message is None:
        return "done"
    kind = message["type"].removeprefix("websocket.")
    return " ".join([kind, *(str(message[key]) for key in ("text", "code") if message.get(key) is not None)])


class Notes(list):
    async def of(self, awaitable):
        try:
            self.append(shown(await awaitable))
        except Exception:
            self.append("raises")


async def turns():
    """Others get as far as they can."""
    for _ in range(50):
        await asyncio.sleep(0)


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    if scope["type"] == "http":
        body = json.dumps(seen.get(scope["path"])).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
        return await send({"type": "http.response.body", "body": body})
    notes = Notes()
    seen[scope["path"] + "/begun"] = True
    try:
        await CASES[scope["path"]](receive, send, notes)
    finally:
        seen[scope["path"]] = notes


ACCEPT = {"type": "websocket.accept"}
CLOSE = {"type": "websocket.close"}


def text(value):
    return {"type": "websocket.send", "text": value}


def pending(awaitable):
    async def wait():
        return await awaitable

    return asyncio.create_task(wait())


@case
async def waits_before_accept(receive, send, notes):
    """As Quart does."""
    await notes.of(receive())
    waiting = pending(receive())
    await turns()
    await notes.of(send(ACCEPT))
    await notes.of(send(text("say a")))
    await notes.of(waiting)
    await notes.of(send(CLOSE))


@case
async def two_wait_before_accept(receive, send, notes):
    await notes.of(receive())
    first, second = pending(receive()), pending(receive())
    await turns()
    await send(ACCEPT)
    await send(text("say a"))
    await notes.of(first)
    await send(text("say b"))
    await notes.of(second)
    await send(CLOSE)


@case
async def one_loop_receives_while_another_task_accepts(receive, send, notes):
    async def loop():
        while not notes or not notes[-1].startswith("disconnect"):
            await notes.of(receive())

    receiving = asyncio.create_task(loop())
    await turns()
    await send(ACCEPT)
    for value in "abc":
        await send(text(f"say {value}"))
    await send(text("close 4005"))
    await receiving


@case
async def accepts_without_receiving(receive, send, notes):
    await notes.of(send(ACCEPT))
    await notes.of(receive())
    await send(text("say a"))
    await notes.of(receive())
    await send(CLOSE)


@case
async def connects_after_a_message(receive, send, notes):
    """`connect` is first, though the client has said something."""
    await send(ACCEPT)
    await send(text("say a"))
    await turns()
    await notes.of(receive())
    await notes.of(receive())
    await send(CLOSE)


@case
async def gives_up_waiting_before_accept(receive, send, notes):
    await notes.of(receive())
    waiting = pending(receive())
    await turns()
    waiting.cancel()
    await turns()
    await send(ACCEPT)
    await send(text("say a"))
    await notes.of(receive())
    await send(CLOSE)


@case
async def waits_while_refused(receive, send, notes):
    await notes.of(receive())
    waiting = pending(receive())
    await turns()
    await notes.of(send(CLOSE))
    await notes.of(waiting)


@case
async def waits_while_refused_with_a_response(receive, send, notes):
    await notes.of(receive())
    waiting = pending(receive())
    await turns()
    await notes.of(send({"type": "websocket.http.response.start", "status": 401, "headers": []}))
    await turns()
    notes.append("woken" if waiting.done() else "waits")
    await notes.of(send({"type": "websocket.http.response.body", "body": b"no"}))
    await notes.of(waiting)


@case
async def refuses_without_receiving(receive, send, notes):
    await notes.of(send(CLOSE))


@case
async def receives_after_refusing(receive, send, notes):
    await notes.of(receive())
    await notes.of(send(CLOSE))
    await notes.of(receive())


@case
async def accepts_after_refusing(receive, send, notes):
    await notes.of(receive())
    await notes.of(send(CLOSE))
    await notes.of(send(ACCEPT))


@case
async def waits_while_closing(receive, send, notes):
    await notes.of(receive())
    await send(ACCEPT)
    waiting = pending(receive())
    await turns()
    await notes.of(send({**CLOSE, "code": 4001, "reason": "so"}))
    await notes.of(waiting)


@case
async def receives_after_closing(receive, send, notes):
    await notes.of(receive())
    await send(ACCEPT)
    await notes.of(send({**CLOSE, "code": 4003}))
    await notes.of(receive())


@case
async def sends_after_closing(receive, send, notes):
    await notes.of(receive())
    await send(ACCEPT)
    await notes.of(send(CLOSE))
    await notes.of(send(text("say a")))
    await notes.of(send(CLOSE))
    await notes.of(send(ACCEPT))


@case
async def sends_before_accept(receive, send, notes):
    await notes.of(receive())
    await notes.of(send(text("say a")))
    await notes.of(send(ACCEPT))
    await send(CLOSE)


@case
async def accepts_twice(receive, send, notes):
    await notes.of(receive())
    await notes.of(send(ACCEPT))
    await notes.of(send(ACCEPT))
    await send(text("say a"))
    await notes.of(receive())
    await send(CLOSE)


@case
async def the_client_closes(receive, send, notes):
    await notes.of(receive())
    await send(ACCEPT)
    waiting = pending(receive())
    await send(text("close 4002"))
    await notes.of(waiting)
    await notes.of(send(text("too late")))


@case
async def the_client_goes(receive, send, notes):
    await notes.of(receive())
    waiting = pending(receive())
    await send(ACCEPT)
    await send(text("drop"))
    await notes.of(waiting)
    await notes.of(send(text("too late")))


@case
async def the_client_goes_before_accept(receive, send, notes):
    await notes.of(receive())
    await notes.of(receive())
    await notes.of(send(ACCEPT))


@case
async def returns_after_accept(receive, send, notes):
    await receive()
    await send(ACCEPT)


@case
async def returns_before_accept(receive, send, notes):
    await receive()


@case
async def raises_after_accept(receive, send, notes):
    await receive()
    await send(ACCEPT)
    raise RuntimeError("on purpose")


@case
async def raises_before_accept(receive, send, notes):
    await receive()
    raise RuntimeError("on purpose")
