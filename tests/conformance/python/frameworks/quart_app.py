"""Quart: its WebSocket receives in a task of its own, which waits before the handler has accepted."""

from quart import Quart, request, websocket

app = Quart(__name__)
app.secret_key = "a test's"


@app.route("/", methods=["GET", "POST"])
async def page():
    return f"{request.method} {request.path} {len(await request.get_data())}"


@app.websocket("/echo")
async def echo():
    while True:
        await websocket.send("you said " + await websocket.receive())


@app.websocket("/greets")
async def greets():
    await websocket.accept(subprotocol="chat")
    await websocket.send("hello")
    assert await websocket.receive() == "bye"
    await websocket.close(4009, "bye")


@app.websocket("/refuses")
async def refuses():
    return "not you", 401
