"""Clients of HTTP/1.1, HTTP/2 and HTTP/3 with one interface: a response, or `Lost` if the connection ended without one.

Each client has one connection, which it opens when it needs one. A connection that the server closed between two requests is replaced;
a request that was sent on it is never sent again.
"""

import asyncio
import contextlib
import socket
import ssl
from dataclasses import dataclass, field

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived, StreamReset
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2 import events as h2_events
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings

# A response that does not come is a fault of the server, not of a slow machine.
PATIENCE = 40
# The same for a client that waits for all events.
PAUSED = 220
# A client of HTTP/3 that waits for a response sends something at this interval of seconds: otherwise it would not learn that the server has
# lost its connection, which only its own packets are answered with.
PING = 1.0
# The window of a stream of HTTP/3, about that of HTTP/2 and the socket's: a client that does not read has to stop the server soon.
STREAM_WINDOW = 65536
# A stateless reset has at least this length, and ends with its token (RFC 9000 §10.3).
RESET, TOKEN = 21, 16
# The reason that aioquic gives if it has heard nothing for too long.
IDLE = "Idle timeout"


class Lost(Exception):
    """The connection or the stream ended before the response was complete."""


class Silence(Lost):
    """Neither a response nor the end of the connection came in time."""


class NotAccepted(Lost):
    """The server says that it has not processed a request, which the client sends again (RFC 9113 §8.7, RFC 9114 §4.1.1)."""


# REFUSED_STREAM of HTTP/2, and H3_REQUEST_REJECTED.
REJECTED = {7, 0x10B}


def ended_with(code):
    return (NotAccepted if code in REJECTED else Lost)(f"reset with {code}")


@dataclass
class Response:
    """A response as the client received it."""

    status: int
    fields: list
    body: bytes = b""
    # The interim responses before it: (status, fields).
    interim: list = field(default_factory=list)

    def get(self, name, default=None):
        values = [value for key, value in self.fields if key == name]
        return ", ".join(values) if values else default


@dataclass
class Place:
    """The address of a listener, and the client's own."""

    port: int
    source: str = "127.0.0.1"
    # The address that a PROXY protocol header names.
    announced: str = ""
    tls: bool = False


def tls_context(protocol):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


async def dial(place, protocol):
    """(reader, writer) of a new connection."""
    # A client that does not read has to stop the server soon.
    raw = socket.socket(socket.AF_INET)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    raw.setblocking(False)
    raw.bind((place.source, 0))
    try:
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", place.port))
    except OSError as error:
        raw.close()
        raise Lost(f"no connection: {error}") from error
    reader, writer = await asyncio.open_connection(sock=raw)
    if place.announced:
        writer.write(f"PROXY TCP4 {place.announced} 192.0.2.1 4711 80\r\n".encode())
        await writer.drain()
    if place.tls:
        try:
            await writer.start_tls(tls_context(protocol), server_hostname="localhost")
        except (OSError, ssl.SSLError, EOFError) as error:
            raise Lost(f"no TLS: {error}") from error
    return reader, writer


def frame(opcode, payload):
    """A masked frame of a WebSocket client."""
    assert len(payload) < 126
    return bytes([0x80 | opcode, 0x80 | len(payload)]) + b"\0\0\0\0" + payload


class Frames:
    """Takes the server's frames from bytes as they arrive."""

    def __init__(self, more):
        self.more = more
        self.held = b""

    async def _take(self, count):
        while len(self.held) < count:
            piece = await self.more()
            if not piece:
                raise Lost("the WebSocket ended")
            self.held += piece
        taken, self.held = self.held[:count], self.held[count:]
        return taken

    async def next(self):
        """(opcode, payload)."""
        first, length = await self._take(2)
        if length == 126:
            length = int.from_bytes(await self._take(2), "big")
        return first & 15, await self._take(length)

    async def message(self, send):
        """The next frame that is no ping, which is answered."""
        while True:
            opcode, payload = await self.next()
            if opcode != 9:
                return opcode, payload
            await send(frame(10, payload))


class WebSocket:
    """An open WebSocket."""

    def __init__(self, send, more, close):
        self.send, self.frames, self.close = send, Frames(more), close

    async def echo(self, text):
        await self.send(frame(1, text.encode()))
        opcode, payload = await asyncio.wait_for(self.frames.message(self.send), PATIENCE)
        return payload.decode() if opcode == 1 else f"opcode {opcode}: {payload!r}"

    async def end(self):
        """Closes it with the handshake of RFC 6455 §7; the code that the server answered."""
        await self.send(frame(8, (1000).to_bytes(2, "big")))
        opcode, payload = await asyncio.wait_for(self.frames.message(self.send), PATIENCE)
        await self.close()
        return int.from_bytes(payload[:2], "big") if opcode == 8 else -1


class Client:
    """The interface. `request` returns a [Response], `websocket` a [WebSocket] or a [Response]."""

    name = "?"

    def __init__(self, place):
        self.place = place
        # For the report of a response that does not come.
        self.stage = "has not begun"

    async def request(self, method, path, fields=(), body=b"", pause=None):
        """One request. `pause` is awaited when half of its body has been sent, or else when the head of the response and some of its body have
        arrived: meanwhile the client sends and reads nothing."""
        try:
            return await self._accepted(method, path, list(fields), body, pause)
        except NotAccepted:
            await self.close()
            return await self._accepted(method, path, list(fields), body, pause)

    async def _accepted(self, method, path, fields, body, pause):
        return await self._in_time(self._request(method, path, fields, body, pause), PAUSED if pause else PATIENCE)

    async def _in_time(self, task, patience):
        try:
            return await asyncio.wait_for(task, patience)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError) as error:
            raise Lost(f"{type(error).__name__}: {error}") from error
        except asyncio.TimeoutError as error:
            # The next request must not use a connection that may be half open.
            await self.close()
            raise Silence(f"no response in time; the client {self.stage}") from error

    async def websocket(self, path, fields=()):
        return await self._in_time(self._websocket(path, list(fields)), PATIENCE)

    async def close(self):
        raise NotImplementedError


class Http1(Client):
    name = "HTTP/1"

    def __init__(self, place):
        super().__init__(place)
        self.reader = self.writer = None

    async def _connect(self):
        if self.writer and (self.reader.at_eof() or self.writer.is_closing()):
            await self.close()
        if not self.writer:
            self.reader, self.writer = await dial(self.place, "http/1.1")

    async def _send(self, method, path, fields, body, pause=None):
        await self._connect()
        if not any(name == "Host" for name, _ in fields):
            fields = [("Host", "localhost"), *fields]
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        half = len(body) // 2 if pause else len(body)
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body[:half])
        await self.writer.drain()
        if half < len(body):
            await pause
            self.writer.write(body[half:])
            await self.writer.drain()

    async def _head(self):
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        return int(first.split(" ")[1]), fields

    async def _final(self):
        interim = []
        while True:
            status, fields = await self._head()
            if status >= 200 or status == 101:
                return Response(status, fields, interim=interim)
            interim.append((status, fields))

    async def _request(self, method, path, fields, body, pause):
        try:
            await self._send(method, path, fields, body, pause if body else None)
            pause = None if body else pause
            response = await self._final()
            if method != "HEAD" and response.status not in (204, 304):
                response.body = await self._body(response, pause)
            if "close" in response.get("connection", ""):
                await self.close()
            return response
        except BaseException:
            await self.close()
            raise

    async def _body(self, response, pause):
        first = b""
        if pause:
            first = await self.reader.readexactly(512)
            await pause
        if "chunked" in response.get("transfer-encoding", ""):
            assert not first, "slow responses have a length"
            return await self._chunks()
        length = response.get("content-length")
        if length is None:
            return first + await self.reader.read()
        return first + await self.reader.readexactly(int(length) - len(first))

    async def _chunks(self):
        body = b""
        while True:
            size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
            if size == 0:
                while await self.reader.readuntil(b"\r\n") != b"\r\n":
                    pass
                return body
            body += await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"

    async def _websocket(self, path, fields):
        upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                   ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]
        await self._send("GET", path, [*fields, *upgrade], b"")
        response = await self._final()
        if response.status != 101:
            response.body = await self._body(response, None)
            await self.close()
            return response

        async def send(data):
            self.writer.write(data)
            await self.writer.drain()
        return WebSocket(send, lambda: self.reader.read(4096), self.close)

    async def close(self):
        if self.writer:
            self.writer.close()
            self.reader = self.writer = None


class Stream:
    """The events that have arrived on one stream of HTTP/2 or HTTP/3."""

    def __init__(self):
        self.arrived = asyncio.Queue()
        # No more events will arrive.
        self.is_over = False

    def put(self, event):
        self.is_over = self.is_over or isinstance(event, Exception) or event[0] == "end"
        self.arrived.put_nowait(event)

    async def next(self):
        event = await self.arrived.get()
        if isinstance(event, Exception):
            raise event
        return event


class Multiplexed(Client):
    """Common to HTTP/2 and HTTP/3: the events of a stream are ("head", fields), ("data", bytes) and ("end", None)."""

    async def _response(self, stream, pause=None):
        interim, response = [], None
        while True:
            kind, value = await stream.next()
            if kind == "end":
                if response is None:
                    raise Lost("the stream ended without a response")
                return response
            if kind == "head" and response is None:
                fields = [(name.decode(), text.decode("latin-1")) for name, text in value]
                status = int(dict(fields)[":status"])
                fields = [pair for pair in fields if pair[0] != ":status"]
                if status < 200:
                    interim.append((status, fields))
                else:
                    response = Response(status, fields, interim=interim)
            elif kind == "data":
                if pause and response:
                    await self._paused(pause)
                    pause = None
                response.body += value

    async def _paused(self, pause):
        await pause

    def _heads(self, method, path, fields, body):
        length = [("content-length", str(len(body)))] if body else []
        host = next((value for name, value in fields if name == "Host"), "localhost")
        heads = [(":method", method), (":scheme", "https" if self.place.tls else "http"), (":authority", host), (":path", path),
                 *((name.lower(), value) for name, value in fields if name != "Host"), *length]
        return [(name.encode(), value.encode()) for name, value in heads]

    async def _websocket(self, path, fields):
        heads = self._heads("CONNECT", path, [*fields, ("sec-websocket-version", "13")], b"")
        heads.insert(1, (b":protocol", b"websocket"))
        stream = await self._open(heads, False)
        kind, value = await stream.next()
        while kind == "head" and int(dict(value)[b":status"]) < 200:
            kind, value = await stream.next()
        status = int(dict(value)[b":status"])
        if status != 200:
            stream.put((kind, value))
            again = Stream()
            again.put((kind, value))
            while (event := await stream.next()) != ("end", None):
                if event != (kind, value):
                    again.put(event)
            again.put(("end", None))
            return await self._response(again)

        async def more():
            while True:
                kind, value = await stream.next()
                if kind == "end":
                    return b""
                if kind == "data" and value:
                    return value

        async def send(data):
            await self._data(stream, data, False)

        async def close():
            # The server may have ended the stream already.
            with contextlib.suppress(Lost):
                await self._data(stream, b"", True)
        return WebSocket(send, more, close)

    async def _request(self, method, path, fields, body, pause):
        stream = await self._open(self._heads(method, path, fields, body), not body)
        if body and pause:
            await self._data(stream, body[:len(body) // 2], False)
            await pause
            body, pause = body[len(body) // 2:], None
        if body:
            await self._data(stream, body, True)
        return await self._response(stream, pause)


class Http2Connection(H2Connection):
    """h2's, which takes GOAWAY for the end of the connection: requests that were accepted are still answered (RFC 9113 §6.8)."""

    def _receive_goaway_frame(self, frame):
        event = h2_events.ConnectionTerminated()
        event.last_stream_id = frame.last_stream_id
        return [], [event]


class Http2(Multiplexed):
    name = "HTTP/2"

    def __init__(self, place):
        super().__init__(place)
        self.task = self.writer = None

    async def _connect(self):
        if self.task and not self.task.done() and not self.is_leaving:
            return
        await self.close()
        self.stage = "connects"
        self.reader, self.writer = await dial(self.place, "h2")
        self.stage = f"waits for SETTINGS at {self.writer.get_extra_info('sockname')}"
        self.is_leaving = False
        self.streams = {}
        self.room = asyncio.Event()
        self.http = Http2Connection(H2Configuration(client_side=True, header_encoding=None, validate_outbound_headers=False))
        self.http.local_settings = Settings(client=True, initial_values={SettingCodes.ENABLE_PUSH: 0})
        self.http.initiate_connection()
        self._flush()
        self.settled = asyncio.Event()
        self.task = asyncio.create_task(self._read(self.reader, self.http, self.streams))
        settled = asyncio.create_task(self.settled.wait())
        await asyncio.wait([self.task, settled], return_when=asyncio.FIRST_COMPLETED)
        settled.cancel()
        if not self.settled.is_set():
            raise Lost("the connection ended before SETTINGS")

    def _flush(self):
        data = self.http.data_to_send()
        if data and not self.writer.is_closing():
            self.writer.write(data)

    async def _read(self, reader, http, streams):
        reason = "the connection ended"
        try:
            while data := await reader.read(65536):
                for event in http.receive_data(data):
                    self._event(event, streams)
                self._flush()
        except (OSError, ssl.SSLError, ProtocolError) as error:
            reason = f"{type(error).__name__}: {error}"
        for stream in streams.values():
            stream.put(Lost(reason))

    def _event(self, event, streams):
        stream = streams.get(getattr(event, "stream_id", None))
        if isinstance(event, h2_events.RemoteSettingsChanged):
            self.settled.set()
        elif isinstance(event, h2_events.WindowUpdated):
            self.room.set()
        elif isinstance(event, h2_events.ConnectionTerminated):
            self.is_leaving = True
            self.stage += f", and got GOAWAY with {event.last_stream_id}"
            for number, each in streams.items():
                if event.last_stream_id is not None and number > event.last_stream_id:
                    each.put(NotAccepted("GOAWAY"))
        elif stream is None:
            pass
        elif isinstance(event, (h2_events.ResponseReceived, h2_events.InformationalResponseReceived, h2_events.TrailersReceived)):
            stream.put(("head", event.headers))
        elif isinstance(event, h2_events.DataReceived):
            stream.put(("data", (event.data, event.flow_controlled_length)))
        elif isinstance(event, h2_events.StreamEnded):
            stream.put(("end", None))
        elif isinstance(event, h2_events.StreamReset):
            stream.put(ended_with(event.error_code))

    async def _open(self, heads, ends):
        await self._connect()
        if self.is_leaving:
            raise NotAccepted("GOAWAY on a new connection")
        if self.task.done():
            raise Lost("the new connection has ended")
        number = self.http.get_next_available_stream_id()
        stream = self.streams[number] = Stream()
        stream.number = number
        self.stage = f"has sent stream {number} of {self.writer.get_extra_info('sockname')}"
        inner = stream.next

        async def next_event():
            kind, value = await inner()
            if kind == "data":
                # The window opens as the data is read.
                data, length = value
                if length:
                    self.http.acknowledge_received_data(length, number)
                    self._flush()
                return kind, data
            return kind, value
        stream.next = next_event
        self.http.send_headers(number, heads, end_stream=ends)
        self._flush()
        return stream

    async def _data(self, stream, data, ends):
        try:
            await self._pieces(stream, data, ends)
        except StreamClosedError as error:
            raise Lost("the stream has ended") from error

    async def _pieces(self, stream, data, ends):
        while True:
            window = min(self.http.local_flow_control_window(stream.number), self.http.max_outbound_frame_size)
            piece, data = data[:window], data[window:]
            if piece or not data:
                self.http.send_data(stream.number, piece, end_stream=ends and not data)
                self._flush()
            if not data:
                return
            self.room.clear()
            if self.http.local_flow_control_window(stream.number) == 0:
                # A response that comes before the end of the body may be an error.
                if stream.arrived.qsize():
                    return
                await self.room.wait()

    async def close(self):
        if self.writer:
            self.writer.close()
        if self.task:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        self.task = self.writer = None


class Http3Connection(H3Connection):
    """aioquic's, which expects a body after the response to a HEAD."""

    def __init__(self, quic):
        super().__init__(quic)
        self.heads = set()

    def _check_content_length(self, stream):
        if stream.stream_id not in self.heads:
            super()._check_content_length(stream)


class QuicState(QuicConnection):
    """aioquic's, which opens the window of a stream whether its data is read or not."""

    reads = True

    def _write_stream_limits(self, builder, space, stream):
        if self.reads:
            super()._write_stream_limits(builder=builder, space=space, stream=stream)


class Quic(QuicConnectionProtocol):
    """The connection below [Http3]. It pings while a response is due, and takes stateless resets, which aioquic ignores."""

    def __init__(self, quic):
        super().__init__(quic)
        self.http = Http3Connection(quic)
        self.streams = {}
        self.end = None
        self.pinger = asyncio.get_running_loop().call_later(PING, self._ping)

    @property
    def is_over(self):
        """True if it has ended, or the server has closed it: then aioquic reports the end later, after a time for packets on their way."""
        return self.end is not None or self._quic._close_event is not None

    @property
    def address(self):
        return self._transport.get_extra_info("sockname")

    @property
    def is_connecting(self):
        return self._connected_waiter is not None

    def give_up(self):
        """Ends a handshake that is not complete."""
        if self.is_connecting:
            self._end(Lost("the client gave up the handshake"))

    def _ping(self):
        if any(not stream.is_over for stream in self.streams.values()) and not self.is_over:
            self._quic.send_ping(0)
            self.transmit()
        self.pinger = asyncio.get_running_loop().call_later(PING, self._ping)

    def _end(self, reason):
        if self.end is not None:
            return
        self.end = reason
        self.pinger.cancel()
        if waiter := self._connected_waiter:
            self._connected_waiter = None
            waiter.set_exception(ConnectionError)
        for stream in self.streams.values():
            stream.put(self.end)

    def transmit(self):
        if not self._transport.is_closing():
            super().transmit()

    def datagram_received(self, data, addr):
        ids = (self._quic._peer_cid, *self._quic._peer_cid_available)
        if len(data) >= RESET and any(data[-TOKEN:] == each.stateless_reset_token for each in ids):
            self._end(Lost("a stateless reset"))
            self.shut()
            return
        super().datagram_received(data, addr)

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            kind = Silence if event.reason_phrase == IDLE else Lost
            self._end(kind(f"the connection ended: {event.error_code} {event.reason_phrase}"))
            return
        if isinstance(event, StreamReset) and event.stream_id in self.streams:
            self.streams[event.stream_id].put(ended_with(event.error_code))
        if isinstance(event, StopSendingReceived):
            return
        for each in self.http.handle_event(event):
            stream = self.streams.get(getattr(each, "stream_id", None))
            if stream is None:
                continue
            if isinstance(each, HeadersReceived):
                stream.put(("head", each.headers))
            elif isinstance(each, DataReceived):
                stream.put(("data", each.data))
            if getattr(each, "stream_ended", False):
                stream.put(("end", None))

    def shut(self):
        """Sends nothing more."""
        self.pinger.cancel()
        if self._timer:
            self._timer.cancel()
        self._transport.close()


class Http3(Multiplexed):
    name = "HTTP/3"

    def __init__(self, place):
        super().__init__(place)
        self.quic = None
        self.tickets = []
        self.tokens = []

    async def _connect(self, early=False):
        if self.quic and not self.quic.is_over:
            return
        await self.close()
        configuration = QuicConfiguration(
            is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE, server_name="localhost", max_stream_data=STREAM_WINDOW)
        if early and self.tickets:
            configuration.session_ticket = self.tickets.pop()
            # It proves the client's address; otherwise the request would wait.
            configuration.token = self.tokens.pop()
        connection = QuicState(configuration=configuration, session_ticket_handler=self.tickets.append, token_handler=self.tokens.append)
        loop = asyncio.get_running_loop()
        _, self.quic = await loop.create_datagram_endpoint(lambda: Quic(connection), local_addr=(self.place.source, 0))
        self.stage = f"shakes hands at {self.quic.address}"
        self.quic.connect(("127.0.0.1", self.place.port), transmit=not early)
        if not early:
            try:
                await self.quic.wait_connected()
            except ConnectionError as error:
                raise self.quic.end or Lost("no connection") from error

    async def early(self, path, fields):
        """A GET in the first packets of a new connection; (its response, True if the server has accepted it early)."""
        await self.close()
        await self._connect(early=True)
        heads = self._heads("GET", path, list(fields), b"")
        stream = await self._open(heads, True)
        response = await self._in_time(self._response(stream), PATIENCE)
        return response, self.quic._quic.tls.early_data_accepted

    async def _open(self, heads, ends):
        await self._connect()
        number = self.quic._quic.get_next_available_stream_id()
        stream = self.quic.streams[number] = Stream()
        stream.number = number
        self.stage = f"has sent stream {number} of {self.quic.address}"
        if (b":method", b"HEAD") in heads:
            self.quic.http.heads.add(number)
        self.quic.http.send_headers(number, heads, end_stream=ends)
        self.quic.transmit()
        return stream

    async def _data(self, stream, data, ends):
        try:
            self.quic.http.send_data(stream.number, data, end_stream=ends)
        except RuntimeError as error:
            raise Lost(f"the stream has ended: {error}") from error
        self.quic.transmit()

    async def _paused(self, pause):
        # Packets are acknowledged, as those of a browser whose user does not read on; only the window stays closed.
        quic, quic_state = self.quic, self.quic._quic
        quic_state.reads = False
        await pause
        quic_state.reads = True
        quic.transmit()

    async def close(self):
        if self.quic:
            self.quic.close()
            self.quic.shut()
            self.quic = None


PROTOCOLS = {client.name: client for client in (Http1, Http2, Http3)}
