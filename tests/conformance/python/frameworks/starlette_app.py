"""Starlette: WebSocket functions and endpoints beside a page."""

from starlette.applications import Starlette
from starlette.endpoints import WebSocketEndpoint
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute


async def page(request):
    return PlainTextResponse(f"{request.method} {request.url.path} {len(await request.body())}")


class Echo(WebSocketEndpoint):
    encoding = "text"

    async def on_receive(self, websocket, data):
        await websocket.send_text("you said " + data)


async def greets(websocket):
    await websocket.accept(subprotocol="chat")
    await websocket.send_text("hello")
    assert await websocket.receive_text() == "bye"
    await websocket.close(4009, "bye")


async def refuses(websocket):
    await websocket.send_denial_response(PlainTextResponse("not you", 401))


app = Starlette(routes=[
    Route("/", page, methods=["GET", "POST"]), WebSocketRoute("/echo", Echo), WebSocketRoute("/greets", greets), WebSocketRoute("/refuses", refuses),
])
