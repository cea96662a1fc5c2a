"""A chat in Litestar: rooms, names, a page."""

from litestar import Litestar, WebSocket, get, websocket
from litestar.exceptions import WebSocketDisconnect

rooms = {}


@get("/", media_type="text/html", sync_to_thread=False)
def page() -> str:
    return "<title>Chat</title><h1>The chat is up</h1>"


@get("/rooms", sync_to_thread=False)
def occupied() -> dict[str, int]:
    return {name: len(members) for name, members in rooms.items() if members}


@websocket("/room/{room:str}")
async def join(socket: WebSocket, room: str) -> None:
    name = socket.query_params.get("name", "")
    if not name:
        await socket.close(code=4003, reason="who are you?")
        return
    await socket.accept(subprotocols="chat" if "chat" in socket.scope["subprotocols"] else None)
    members = rooms.setdefault(room, {})
    members[name] = socket

    async def tell(text):
        for member in list(members.values()):
            await member.send_text(text)

    await tell(f"{name} comes")
    try:
        while True:
            text = await socket.receive_text()
            if text == "/leave":
                await socket.close(code=4000, reason="bye")
                break
            await tell(f"{name}: {text}")
    except WebSocketDisconnect:
        pass
    finally:
        del members[name]
        await tell(f"{name} goes")


app = Litestar([page, occupied, join])
