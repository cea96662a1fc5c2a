"""HTTP/3 with aioquic: its interop client's tests, and requests, early data, priorities, migration and WebSocket of its example client."""

import asyncio
import os
import ssl
import sys
import time

from base import Case

PACKAGES = ("aioquic==1.7.2", "httpx==0.28.1", "wsproto==1.3.2")
SOURCE = PACKAGES[0]
VERSION = "aioquic 1.7.2"
SECONDS = 30

# A test of interop.py, the results that it sets, and what they say.
INTEROP = {
    "version_negotiation": {"V": ""},
    "handshake_and_close": {"H": "-handshake", "C": "-close"},
    "quantum_readiness": {"Q": ""},
    "http_3": {"three": "-request", "d": "-dynamic-table", "p": "-push"},
    "session_resumption": {"R": "-session", "Z": "-early-data"},
    "key_update": {"U": ""},
    "server_cid_change": {"M": ""},
    "nat_rebinding": {"B": ""},
    "address_mobility": {"A": ""},
    "spin_bit": {"P": ""},
    # The last one, since its handshakes stay under way for a while.
    "retry": {"S": ""},
}
NOT_RUN = {
    "http_0": "it speaks HTTP/0.9",
    "throughput": "it compares times, over TCP on another port",
    "http_3-push": "it asks for server push, which browsers have removed and this server does not have",
}
# RFC 9000 section 17.4: each endpoint disables the spin bit on at least one of 16 connections.
CONNECTIONS = {"spin_bit": 8}
# From 64 handshakes under way on, new clients of a socket have to prove their address; each thread has one, which a hash of the address chooses.
UNDER_WAY = 64 * 2 * (os.cpu_count() or 1)

APPLICATION = '''
"""Echoes bodies, fields and messages."""

import json


async def application(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept", "subprotocol": next(iter(scope["subprotocols"]), None)})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    path, _, number = scope["path"].rpartition("/")
    fields = [(b"content-type", b"text/plain")]
    if path == "/bytes":
        body = b"0123456789abcdef" * (int(number) // 16)
    elif path == "/fields":
        body = json.dumps([(name.decode(), value.decode()) for name, value in scope["headers"]]).encode()
    elif path == "/answers":
        fields += [(b"x-field-%d" % each, b"v" * 400) for each in range(int(number))]
    elif path == "/status":
        await send({"type": "http.response.start", "status": int(number), "headers": fields})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": body})
'''


class Wrong(Exception):
    """The server does something else than the case expects."""


def expect(is_so, text):
    if not is_so:
        raise Wrong(text)


class Site:
    """A server, and clients of it."""

    def __init__(self, port):
        self.port = port
        self.url = f"https://localhost:{port}"

    @staticmethod
    def configuration(**more):
        from aioquic.h3.connection import H3_ALPN
        from aioquic.quic.configuration import QuicConfiguration

        return QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE, server_name="localhost", **more)

    def client(self, configuration=None, **more):
        from aioquic.asyncio import connect
        from http3_client import HttpClient

        return connect("127.0.0.1", self.port, configuration=configuration or self.configuration(), create_protocol=HttpClient, **more)


def answer(events):
    """(status, fields, body) of a response's events."""
    from aioquic.h3.events import DataReceived, HeadersReceived

    fields = dict(next(event.headers for event in events if isinstance(event, HeadersReceived)))
    return int(fields[b":status"]), fields, b"".join(event.data for event in events if isinstance(event, DataReceived))


async def get(site, client, path, **fields):
    return answer(await client.get(site.url + path, {name.replace("_", "-"): value for name, value in fields.items()}))


async def is_served(site, client):
    expect((await get(site, client, "/bytes/16"))[2] == b"0123456789abcdef", "the next request is not answered")


# The cases of the example client: each raises what is wrong.

async def get_small(site):
    async with site.client() as client:
        status, _, body = await get(site, client, "/bytes/1024")
        expect(status == 200 and len(body) == 1024, f"status {status} with {len(body)} bytes")


async def get_large(site):
    async with site.client() as client:
        _, _, body = await get(site, client, "/bytes/20000000")
        expect(body == b"0123456789abcdef" * 1250000, f"{len(body)} bytes, or other ones")


async def get_many(site):
    async with site.client() as client:
        answers = await asyncio.gather(*(get(site, client, f"/bytes/{16 * number}") for number in range(80)))
        expect([len(body) for _, _, body in answers] == [16 * number for number in range(80)], "some of 80 requests at once have another's body")


async def get_file(site):
    async with site.client() as client:
        status, fields, body = await get(site, client, "/files/page.txt")
        expect(status == 200 and body == b"a page\n" and b"etag" in fields, f"status {status}")
        status, _, body = await get(site, client, "/files/page.txt", if_none_match=fields[b"etag"].decode())
        expect(status == 304 and not body, f"status {status} for `If-None-Match`")
        status, fields, body = await get(site, client, "/files/page.txt", range="bytes=2-5")
        expect(status == 206 and body == b"page", f"status {status} for a range")


async def empty(site):
    async with site.client() as client:
        for status in (204, 304, 404):
            found, _, body = await get(site, client, f"/status/{status}")
            expect(found == status and not body, f"status {found}, and not {status}")


async def post(site):
    async with site.client() as client:
        for size in (1, 1000, 16385, 3_000_000):
            status, _, body = answer(await client.post(f"{site.url}/echo/", b"x" * size))
            expect(status == 200 and body == b"x" * size, f"status {status} with {len(body)} of {size} bytes")


async def fields(site):
    """Requests with 24 KB of fields, which is less than the limit of 32 KB."""
    async with site.client() as client:
        sent = {f"x-field-{number}": "v" * 400 for number in range(60)}
        status, _, body = answer(await client.get(f"{site.url}/fields/", sent))
        expect(status == 200 and body.count(b"v" * 400) == 60, f"status {status}")
        status, found, _ = await get(site, client, "/answers/60")
        expect(status == 200 and sum(name.startswith(b"x-field-") for name in found) == 60, f"status {status} with {len(found)} fields")


async def fields_beyond_limit(site):
    async with site.client() as client:
        status, _, _ = answer(await client.get(f"{site.url}/fields/", {f"x-field-{number}": "v" * 4000 for number in range(40)}))
        expect(status == 431, f"status {status}")
        await is_served(site, client)


async def cancelled(site):
    """A client that stops a response goes on with the next request."""
    async with site.client() as client:
        stream = client._quic.get_next_available_stream_id()
        pending = asyncio.ensure_future(client.get(f"{site.url}/bytes/20000000"))
        await asyncio.sleep(0.05)
        client._quic.stop_stream(stream, 0x10C)
        client.transmit()
        await is_served(site, client)
        pending.cancel()
        client._request_waiter.pop(stream).cancel()


async def retried(site):
    """The address has to be proved while there are many handshakes."""
    hold = hold_handshakes(site.port)
    try:
        async with site.client() as client:
            await is_served(site, client)
            expect(client._quic._retry_source_connection_id, "the server takes the first packet")
    finally:
        for each in hold:
            each.close()


async def key_update(site):
    async with site.client() as client:
        pending = asyncio.ensure_future(get(site, client, "/bytes/8000000"))
        for _ in range(3):
            await asyncio.sleep(0.02)
            client.request_key_update()
            await client.ping()
        expect(len((await pending)[2]) == 8000000, "the response is not whole")


async def move(client):
    client._transport.close()
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: client, local_addr=("::", 0))


async def migration(site):
    async with site.client() as client:
        pending = asyncio.ensure_future(get(site, client, "/bytes/8000000"))
        await asyncio.sleep(0.02)
        await move(client)
        client.change_connection_id()
        await client.ping()
        expect(len((await pending)[2]) == 8000000, "the response is not whole")


async def session(site):
    """The ticket of a first connection, and a token that proves the client's address: options of the next connection."""
    tickets, tokens = [], []
    async with site.client(session_ticket_handler=tickets.append, token_handler=tokens.append) as client:
        await is_served(site, client)
    expect(tickets, "there is no ticket")
    expect(tokens, "there is no token")
    return {"session_ticket": tickets[-1], "token": tokens[-1]}


async def early(site, method, data=b""):
    """(accepted, status, fields seen) of a request in the first packets."""
    from http3_client import URL, HttpRequest

    configuration = site.configuration(**await session(site))
    async with site.client(configuration, wait_connected=False) as client:
        request = HttpRequest(method=method, url=URL(f"{site.url}/{'fields/' if method == 'GET' else 'echo/'}"), content=data)
        status, _, body = answer(await client._request(request))
        await client.ping()
        return client._quic.tls.early_data_accepted, status, body


async def early_get(site):
    is_accepted, status, body = await early(site, "GET")
    expect(is_accepted and status == 200, f"accepted: {is_accepted}, status {status}")
    expect(b'["early-data", "1"]' in body, "the application does not receive `Early-Data: 1` (RFC 8470)")


async def early_post(site):
    """It waits until the handshake is complete, so that no replay reaches the application."""
    _, status, body = await early(site, "POST", b"once")
    expect(status == 200 and body == b"once", f"status {status}")


async def early_again(site):
    """A ticket is for one connection."""
    known = await session(site)
    taken = []
    for _ in range(2):
        async with site.client(site.configuration(**known), wait_connected=False) as client:
            status, _, _ = await get(site, client, "/bytes/16")
            expect(status == 200, f"status {status}")
            await client.ping()
            taken.append(client._quic.tls.early_data_accepted)
    expect(taken == [True, False], f"accepted: {taken}")


async def priority(site):
    """A response of urgency 0 that is asked for last overtakes those of urgency 7 (RFC 9218)."""
    async with site.client() as client:
        order = []

        async def one(name, urgency):
            await get(site, client, "/bytes/6000000", priority=f"u={urgency}")
            order.append(name)

        late = [asyncio.ensure_future(one(f"late {number}", 7)) for number in range(3)]
        await asyncio.sleep(0.05)
        await asyncio.gather(one("first", 0), *late)
        expect(order[0] == "first", f"order {order}")


async def incremental(site):
    """Incremental responses of one urgency share the connection, so that a short one does not wait for the end of a long one."""
    async with site.client() as client:
        begun = time.monotonic()

        async def one(size):
            await get(site, client, f"/bytes/{size}", priority="u=3, i")
            return time.monotonic() - begun

        long = asyncio.ensure_future(one(12_000_000))
        await asyncio.sleep(0.02)
        short = await one(160_000)
        expect(short < await long, "the short one is last")


async def websocket(site):
    async with site.client() as client:
        socket = await client.websocket(f"{site.url.replace('https', 'wss')}/echo/", subprotocols=["chat"])
        for text in ("short", "x" * 100_000, "ä€"):
            await socket.send(text)
            back = ""
            while len(back) < len(text):  # The example takes each part that has arrived for a message.
                back += await socket.recv()
            expect(back == text, "another message comes back")
        expect(socket.subprotocol == "chat", f"subprotocol {socket.subprotocol}")
        await socket.close()
        await is_served(site, client)


async def datagrams(site):
    """They are not announced (RFC 9221 and RFC 9297), and sent all the same they end the connection, as RFC 9221 section 3 has it."""
    async with site.client(site.configuration(max_datagram_frame_size=65536)) as client:
        await is_served(site, client)
        expect(client._quic._remote_max_datagram_frame_size is None, "the server announces that it takes datagrams")
        expect(not (client._http.received_settings or {}).get(0x33), "the server announces datagrams of HTTP/3")
        client._quic._remote_max_datagram_frame_size = 65536
        client._quic.send_datagram_frame(b"\0hello")
        client.transmit()
        await asyncio.wait_for(client.wait_closed(), SECONDS)
        code = client._quic._close_event.error_code
        expect(code == 0x0A, f"the connection ends with error {code}, and not with PROTOCOL_VIOLATION")


async def push_refused(site):
    """The limit of pushes is not the server's business to use: MAX_PUSH_ID changes nothing."""
    from aioquic.buffer import encode_uint_var
    from aioquic.h3.connection import FrameType, encode_frame

    async with site.client() as client:
        client._quic.send_stream_data(client._http._local_control_stream_id, encode_frame(FrameType.MAX_PUSH_ID, encode_uint_var(100)))
        await is_served(site, client)
        expect(not client.pushes, "the server pushes")


CASES = {
    "get": get_small, "get-large": get_large, "get-many": get_many, "get-file": get_file, "empty": empty, "post": post,
    "fields": fields, "fields-beyond-limit": fields_beyond_limit, "cancelled": cancelled, "key-update": key_update,
    "migration": migration, "early-get": early_get, "early-post": early_post, "early-again": early_again, "priority": priority,
    "incremental": incremental, "websocket": websocket, "datagrams": datagrams, "max-push-id": push_refused, "retry": retried,
}


def hold_handshakes(port):
    """First packets of clients that never go on; returns their sockets."""
    import socket

    from aioquic.quic.connection import QuicConnection

    held = []
    for _ in range(UNDER_WAY):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.connect(("127.0.0.1", port))
        quic = QuicConnection(configuration=Site.configuration())
        quic.connect(("127.0.0.1", port), now=time.time())
        for data, _ in quic.datagrams_to_send(now=time.time()):
            one.send(data)
        # The server has taken it when it answers.
        one.settimeout(SECONDS)
        one.recv(2048)
        held.append(one)
    return held


async def interop(test, port):
    """The results that a test of interop.py sets, and its error."""
    import interop as suite
    from aioquic.quic.logger import QuicLogger

    server = suite.Server("tutti", "127.0.0.1", port=port, retry_port=port, path="/bytes/16", push_path="/bytes/16", verify_mode=ssl.CERT_NONE)
    error = None
    for _ in range(CONNECTIONS.get(test, 1)):
        held = hold_handshakes(port) if test == "retry" else []
        configuration = Site.configuration(quic_logger=QuicLogger())
        try:
            await asyncio.wait_for(getattr(suite, f"test_{test}")(server, configuration), SECONDS)
        except Exception as reason:  # As interop.py does.
            error = f"{type(reason).__name__} {reason}".strip()
        for each in held:
            each.close()
    return {name for name in INTEROP[test] if getattr(suite.Result, name) & server.result}, error


def configuration(folder, chain, key):
    def of(port):
        return {
            "listeners": {f"127.0.0.1:{port}": {
                "pass": "routes", "http3": {"early_data": True}, "tls": {"certificate": {"file": str(chain), "key": str(key)}}}},
            "routes": [
                {"match": {"uri": "/files/*"}, "action": {"share": f"{folder}$uri"}},
                {"action": {"pass": "applications/echo"}},
            ],
            "applications": {"echo": {"type": "python", "protocol": "asgi", "path": str(folder), "module": "echo", "processes": 1}},
        }
    return of


def example_cases(site):
    for name, case in CASES.items():
        try:
            asyncio.run(asyncio.wait_for(case(site), SECONDS))
        except Wrong as wrong:
            yield Case(f"http3/{name}", "fail", str(wrong))
        except (ConnectionError, TimeoutError) as error:
            yield Case(f"http3/{name}", "fail", f"{type(error).__name__}: {error or 'no answer'}")
        else:
            yield Case(f"http3/{name}", "pass")


def serve(context):
    """Returns a server with the site of the cases."""
    folder = context.folder / "site"
    (folder / "files").mkdir(parents=True)
    (folder / "files/page.txt").write_text("a page\n")
    (folder / "echo.py").write_text(APPLICATION)
    context.open_to_all(folder)
    return context.server(configuration(folder, *context.certificate()))


def run(context):
    context.module("tutti-python*")
    sys.path.insert(0, str(context.pip(*PACKAGES)))
    sys.path.insert(0, str(context.sdist(SOURCE) / "examples"))
    server = serve(context)
    for test, results in INTEROP.items():
        if test == "retry":
            yield from example_cases(Site(server.port))
        found, error = asyncio.run(interop(test, server.port))
        for result, suffix in results.items():
            if (name := f"{test}{suffix}") not in NOT_RUN:
                yield Case(f"interop/{name}", "pass" if result in found else "fail", "" if result in found else error or "the test's result is not set")
    for name, reason in NOT_RUN.items():
        yield Case(f"interop/{name}", "skip", reason)
