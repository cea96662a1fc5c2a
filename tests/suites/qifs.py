"""HTTP/3 field sections of the QPACK interop's lists: aioquic sends them, and what an application received is compared"""

import asyncio
import re
import ssl
import sys

from base import Case
from hpack_test_case import APPLICATION, FORBIDDEN, difference, expected

PACKAGES = ("aioquic==1.7.2", "pylsqpack==1.0.0")
VERSION = "qifs as in {1}, {0}".format(*PACKAGES)
SOURCE = "pylsqpack==1.0.0"
# RFC 9110 §5.1 and §5.5; `long-codes` has what neither allows.
NAME = re.compile(r":?[!#$%&'*+.^_`|~0-9a-z-]+")
VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
PSEUDO = (":method", ":scheme", ":authority", ":path")


def sections(text):
    """The field sections of a list: a name, a tab and a value a line, and an empty line after each section."""
    for part in text.split("\n\n"):
        lines = [line for line in part.splitlines() if line and not line.startswith("#")]
        if lines:
            yield [(name, value) for name, _, value in (line.partition("\t") for line in lines)]


def request(fields):
    """The request that has these fields: those of a response, too, are sent by a client, but for what only HTTP/1 has."""
    given = {name: value for name, value in fields if name in PSEUDO}
    head = {":method": "GET", ":scheme": "https", ":authority": "localhost", ":path": "/", **given, ":scheme": "https"}
    return [*head.items(), *((name.lower(), value) for name, value in fields if not name.startswith(":") and name.lower() not in FORBIDDEN)]


def is_valid(fields):
    return all(NAME.fullmatch(name) and VALUE.fullmatch(value) for name, value in fields)


async def exchange(port, lists):
    """(name, what is wrong with it or None) for each list, over one connection."""
    from aioquic.asyncio.client import connect
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.h3.connection import H3Connection
    from aioquic.h3.events import DataReceived, HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import ConnectionTerminated

    class Client(QuicConnectionProtocol):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.http = H3Connection(self._quic)
            self.events = asyncio.Queue()

        def quic_event_received(self, event):
            if isinstance(event, ConnectionTerminated):
                self.events.put_nowait(event)
            for each in self.http.handle_event(event):
                self.events.put_nowait(each)

        async def answer(self, fields):
            stream = self._quic.get_next_available_stream_id()
            self.http.send_headers(stream, [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields], end_stream=True)
            self.transmit()
            status, body = None, b""
            while True:
                event = await asyncio.wait_for(self.events.get(), 60)
                if isinstance(event, ConnectionTerminated):
                    raise ConnectionError(f"the server closed the connection with error {event.error_code}")
                if isinstance(event, HeadersReceived) and event.stream_id == stream:
                    status = dict(event.headers)[b":status"]
                if isinstance(event, DataReceived) and event.stream_id == stream:
                    body += event.data
                if isinstance(event, (HeadersReceived, DataReceived)) and event.stream_id == stream and event.stream_ended:
                    return status, body

    results = []
    for name, found in lists:
        configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE, server_name="localhost")
        async with connect("127.0.0.1", port, configuration=configuration, create_protocol=Client) as client:
            wrong = None
            for number, fields in enumerate(found):
                fields = request(fields)
                try:
                    status, body = await client.answer(fields)
                except (ConnectionError, TimeoutError) as error:
                    wrong = f"section {number}: {error or 'no answer'}"
                    break
                if status != (b"200" if is_valid(fields) else b"400"):
                    wrong = f"section {number} is answered with {status.decode()}"
                elif status == b"200":
                    wrong = difference(expected(fields), body)
                if wrong:
                    break
            results.append((name, wrong))
    return results


def run(context):
    context.module("tutti-python*")
    data = context.sdist(SOURCE) / "vendor/ls-qpack/test/qifs"
    sys.path.insert(0, str(context.pip(*PACKAGES)))
    folder = context.folder / "application"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "echo.py").write_text(APPLICATION)
    chain, key = context.certificate()
    application = {"type": "python", "path": str(folder), "module": "echo", "callable": "application"}
    server = context.server(lambda port: {
        "listeners": {f"127.0.0.1:{port}": {
            "pass": "applications/echo", "http3": True, "tls": {"certificate": {"file": str(chain), "key": str(key)}}}},
        "applications": {"echo": application},
    })
    lists = [(file.stem, list(sections(file.read_text("latin-1")))) for file in sorted(data.glob("*.qif"))]
    for name, wrong in asyncio.run(exchange(server.port, lists)):
        yield Case(name, "fail" if wrong else "pass", wrong or "")
