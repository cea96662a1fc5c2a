"""Starlette's test client with its transport replaced: requests and messages go through the server, over TCP."""

import os
import socket

import starlette.testclient as original
import websockets.exceptions
import websockets.sync.client
from suite import NUMBER, PATIENCE, Served

httpx = original.httpx
ADDRESS = ("127.0.0.1", int(os.environ["SERVER_PORT"]))


class Transport(httpx.BaseTransport):
    def __init__(self, client, raise_server_exceptions, root_path):
        self.client = client
        self.raise_server_exceptions = raise_server_exceptions
        self.root_path = root_path
        self.connections = httpx.HTTPTransport()

    def handle_request(self, request):
        served = Served(self.client.app, self.client.app_state, self.root_path)
        if request.url.scheme in ("ws", "wss"):
            raise original._Upgrade(Session(served, request))
        number = (NUMBER, served.number.encode())
        # The client's Host stays in the fields.
        url = request.url.copy_with(scheme="http", host=ADDRESS[0], port=ADDRESS[1])
        sent = httpx.Request(request.method, url, headers=[*request.headers.raw, number], stream=request.stream,
                             extensions={"timeout": {"read": PATIENCE, "connect": PATIENCE}})
        answer = self.connections.handle_request(sent)
        body = b"".join(answer.stream)
        answer.close()
        served.wait()
        if served.exception is not None and self.raise_server_exceptions:
            raise served.exception
        response = httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(body), request=request)
        if served.debug is not None:
            response.template, response.context = served.debug["template"], served.debug["context"]
        return response


class Session(original.WebSocketTestSession):
    """A WebSocket over TCP."""

    def __init__(self, served, request):
        self.served = served
        self.request = request
        self.accepted_subprotocol = None
        self.extra_headers = None

    def __enter__(self):
        ours = {"connection", "upgrade", "host", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol"}
        headers = [(name, value) for name, value in self.request.headers.multi_items() if name.lower() not in ours]
        headers.append((NUMBER.decode(), self.served.number))
        subprotocols = self.request.headers.get("sec-websocket-protocol")
        try:
            self.connection = websockets.sync.client.connect(
                str(self.request.url.copy_with(scheme="ws")), sock=socket.create_connection(ADDRESS), additional_headers=headers,
                user_agent_header=None, compression=None, open_timeout=PATIENCE, close_timeout=PATIENCE, max_size=None,
                subprotocols=subprotocols and [name.strip() for name in subprotocols.split(",")])
        except websockets.exceptions.InvalidStatus as refusal:
            self.served.wait()
            if self.served.exception is not None:
                raise self.served.exception from None
            if self.served.closed is not None:
                # A 403, which does not tell the code.
                raise original.WebSocketDisconnect(*self.served.closed) from None
            answer = refusal.response
            response = original.WebSocketDenialResponse(
                status_code=answer.status_code, headers=list(answer.headers.raw_items()), content=bytes(answer.body or b""))
            response.read()
            raise response from None
        self.accepted_subprotocol = self.connection.subprotocol
        server = {"connection", "upgrade", "sec-websocket-accept", "sec-websocket-protocol", "date", "server"}
        fields = self.connection.response.headers.raw_items()
        self.extra_headers = [(n.lower().encode(), v.encode()) for n, v in fields if n.lower() not in server]
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.served.wait()
        if self.served.exception is not None:
            raise self.served.exception

    def send(self, message):
        if message["type"] == "websocket.disconnect":
            self.connection.close(message["code"], message.get("reason") or "")
        else:
            self.connection.send(message["text"] if message.get("text") is not None else message["bytes"])

    def receive(self):
        try:
            data = self.connection.recv(PATIENCE)
        except websockets.exceptions.ConnectionClosed as closed:
            end = closed.rcvd
            return {"type": "websocket.close", "code": end.code if end else 1006, "reason": end.reason if end else ""}
        return {"type": "websocket.send", "text" if isinstance(data, str) else "bytes": data}


class TestClient(original.TestClient):
    def __init__(self, app, *arguments, raise_server_exceptions=True, root_path="", **options):
        super().__init__(app, *arguments, raise_server_exceptions=raise_server_exceptions, root_path=root_path, **options)
        self._transport.close()
        self._transport = Transport(self, raise_server_exceptions, root_path)
