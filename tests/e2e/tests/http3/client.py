"""Requests and a WebSocket over HTTP/3 with aioquic: GET, POST with what was sent, many at once, RFC 9220."""

import asyncio
import hashlib
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.waiting = {}
        self.streams = {}

    def open(self, method, path, fields=(), scheme=b"https", ends=False):
        stream = self._quic.get_next_available_stream_id()
        self.streams[stream] = asyncio.Queue()
        head = [(b":method", method), (b":scheme", scheme), (b":authority", b"localhost"), (b":path", path)]
        self.http.send_headers(stream, head + list(fields), end_stream=ends)
        return stream

    def quic_event_received(self, event):
        for event in self.http.handle_event(event):
            if isinstance(event, (HeadersReceived, DataReceived)):
                self.streams[event.stream_id].put_nowait(event)

    async def answer(self, stream):
        status, body = None, b""
        while True:
            event = await self.streams[stream].get()
            if isinstance(event, HeadersReceived):
                status = dict(event.headers).get(b":status", status)
            else:
                body += event.data
            if event.stream_ended:
                return status, body

    async def request(self, method, path, body=b"", fields=()):
        stream = self.open(method, path, fields, ends=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        return await self.answer(stream)

    async def websocket(self, path, text):
        """Opens a WebSocket, sends a text, and returns the first frame that comes."""
        fields = [(b":protocol", b"websocket"), (b"sec-websocket-version", b"13")]
        stream = self._quic.get_next_available_stream_id()
        self.streams[stream] = asyncio.Queue()
        head = [(b":method", b"CONNECT"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path)]
        self.http.send_headers(stream, head + fields)
        self.transmit()
        head = await self.streams[stream].get()
        assert dict(head.headers)[b":status"] == b"200", head
        self.http.send_data(stream, bytes([0x81, 0x80 | len(text)]) + b"\0\0\0\0" + text, end_stream=False)
        self.transmit()
        received = b""
        while len(received) < 2 or len(received) < 2 + received[1]:
            received += (await self.streams[stream].get()).data
        return received


async def main(port, with_websocket):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE, server_name="localhost")
    async with connect("127.0.0.1", port, configuration=configuration, create_protocol=Client) as client:
        assert await client.request(b"GET", b"/small.txt") == (b"200", b"small")
        assert (await client.request(b"GET", b"/none"))[0] == b"404"
        body = bytes(at * 7 % 256 for at in range(300_000))
        expected = b"HTTP/3.0 https 300000 " + hashlib.sha1(body).hexdigest().encode()
        assert await client.request(b"POST", b"/digest.php", body) == (b"200", expected)
        many = await asyncio.gather(*(client.request(b"GET", b"/large.bin") for _ in range(5)))
        assert all(len(body) == 3_000_000 for _, body in many)
        if with_websocket:
            assert await client.websocket(b"/echo", b"hello") == b"\x81\x05hello"
            # A file is no WebSocket, and 200 would open one.
            fields = [(b":protocol", b"websocket"), (b"sec-websocket-version", b"13")]
            assert (await client.request(b"CONNECT", b"/small.txt", fields=fields))[0] == b"400"
    print("good")


asyncio.run(asyncio.wait_for(main(int(sys.argv[1]), len(sys.argv) > 2), 300))
