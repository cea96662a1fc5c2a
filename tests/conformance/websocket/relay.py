#!/usr/bin/env python3
"""Lets a client that knows nothing but WebSocket over HTTP/1.1 reach a server over TLS, or over HTTP/2 (RFC 8441).

relay.py tls|http2|https2 PORT [CA-FILE]

Prints the port it listens at, and relays each connection to that port of 127.0.0.1 until its input ends. Frames pass as they are; over
HTTP/2 (spoken by the library h2) the handshake becomes an extended CONNECT, and the server's 200 the 101 that the client waits for.
"""

import asyncio
import base64
import hashlib
import ssl
import sys

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (ConnectionTerminated, DataReceived, RemoteSettingsChanged, ResponseReceived, StreamEnded, StreamReset, WindowUpdated)
from h2.settings import SettingCodes

# RFC 6455 §1.3.
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
# Fields of HTTP/1.1's handshake that RFC 8441 §5 has no use for.
LEFT_OUT = {"host", "upgrade", "connection", "sec-websocket-key"}


async def pump(reader, writer):
    """Everything that comes, until the end."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def plain(reader, writer, server_reader, server_writer):
    """Bytes as they are, until either side ends."""
    tasks = [asyncio.create_task(pump(reader, server_writer)), asyncio.create_task(pump(server_reader, writer))]
    _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Http2:
    """One WebSocket as the only stream of a connection."""

    def __init__(self, reader, writer, server_reader, server_writer):
        self.reader, self.writer, self.server_reader, self.server_writer = reader, writer, server_reader, server_writer
        self.connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.may_connect, self.window, self.stream, self.key = asyncio.Event(), asyncio.Event(), None, None

    async def flush(self):
        self.server_writer.write(self.connection.data_to_send())
        await self.server_writer.drain()

    async def run(self, scheme):
        self.connection.initiate_connection()
        await self.flush()
        # It goes when the server ends the stream, after what it has said.
        heard = asyncio.create_task(self.hear())
        said = asyncio.create_task(self.say(scheme))
        await heard
        said.cancel()
        await asyncio.gather(said, return_exceptions=True)

    async def say(self, scheme):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        target = head[0].split(" ")[1]
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in head[1:] if line)]
        given = dict(fields)
        self.key = given["sec-websocket-key"]
        await self.may_connect.wait()
        self.stream = self.connection.get_next_available_stream_id()
        self.connection.send_headers(self.stream, [
            (":method", "CONNECT"), (":protocol", "websocket"), (":scheme", scheme), (":path", target), (":authority", given["host"]),
            *(field for field in fields if field[0] not in LEFT_OUT)])
        await self.flush()
        while data := await self.reader.read(65536):
            while data:
                self.window.clear()
                room = min(self.connection.local_flow_control_window(self.stream), self.connection.max_outbound_frame_size)
                if room == 0:
                    await self.window.wait()
                    continue
                self.connection.send_data(self.stream, data[:room])
                data = data[room:]
                await self.flush()
        self.connection.end_stream(self.stream)
        await self.flush()

    async def hear(self):
        while data := await self.server_reader.read(65536):
            for event in self.connection.receive_data(data):
                if isinstance(event, RemoteSettingsChanged):
                    self.window.set()
                    setting = event.changed_settings.get(SettingCodes.ENABLE_CONNECT_PROTOCOL)
                    if setting and setting.new_value == 1:
                        self.may_connect.set()
                elif isinstance(event, WindowUpdated):
                    self.window.set()
                elif isinstance(event, ResponseReceived):
                    self.answer(event.headers)
                elif isinstance(event, DataReceived):
                    self.writer.write(event.data)
                    await self.writer.drain()
                    self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, (StreamEnded, StreamReset, ConnectionTerminated)):
                    await self.flush()
                    return
            await self.flush()

    def answer(self, headers):
        status = dict(headers)[":status"]
        lines = [f"HTTP/1.1 {status} -"]
        if status == "200":
            accept = base64.b64encode(hashlib.sha1((self.key + GUID).encode()).digest()).decode()
            lines = ["HTTP/1.1 101 -", "Upgrade: websocket", "Connection: upgrade", f"Sec-WebSocket-Accept: {accept}"]
        lines += [f"{name}: {value}" for name, value in headers if not name.startswith(":")]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())


async def main():
    mode, port, *authority = sys.argv[1:]
    context = None
    if mode != "http2":
        context = ssl.create_default_context(cafile=authority[0])
        context.set_alpn_protocols(["h2"] if mode == "https2" else ["http/1.1"])

    async def relay(reader, writer):
        server_writer = None
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", int(port), ssl=context)
            if mode == "tls":
                await plain(reader, writer, server_reader, server_writer)
            else:
                if mode == "https2":
                    assert server_writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
                await Http2(reader, writer, server_reader, server_writer).run("https" if context else "http")
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            pass
        finally:
            for one in (writer, server_writer):
                if one:
                    one.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    # An application that still talks has been left by its client.
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
