"""HTTP/2 field sections of fourteen encoders: hpack-test-case's stories, sent to a listener; requests are compared with what an application received, and the table with what the story leaves in it"""

import json
import socket
import struct
import sys

from base import Case

CRATE = ("httlib-hpack", "0.1.3")
VERSION = "hpack-test-case as in {} {}".format(*CRATE)
PACKAGES = ("hpack==4.2.0",)

# Answers with the fields of its request.
APPLICATION = '''
import json

async def application(scope, receive, send):
    fields = [[":method", scope["method"]], [":path", scope["raw_path"].decode("latin-1") + ("?" + scope["query_string"].decode("latin-1") if scope["query_string"] else "")]]
    fields += [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(fields).encode()})
'''
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
MOST_PAYLOAD = 16384
STATIC_ENTRIES = 61
# The server ends a connection after 500 streams that it resets because of their clients' errors (CVE-2025-8671). A story that has more sections
# that are no request ends sooner.
MOST_ERRORS = 490
# RFC 9113 §8.2.2: these have no place in HTTP/2, so no request can have them.
FORBIDDEN = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te", "content-length", "host", "expect"}


class Connection:
    """HTTP/2 with prior knowledge, which sends field sections as they are."""

    def __init__(self, port):
        import hpack
        self.decoder = hpack.Decoder()
        self.decoder.max_header_list_size = 1 << 20
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.buffer = b""
        self.stream = -1
        # Windows so large that none is ever used up.
        self.socket.sendall(PREFACE + self.frame(SETTINGS, 0, 0, struct.pack(">HI", 4, (1 << 31) - 1)) +
                            self.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 1 - 65535)))

    def close(self):
        self.socket.close()

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload

    def read(self):
        """(kind, flags, stream, payload) of the next frame."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("the server closed the connection")
            self.buffer += data
        length = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big") & 0x7FFFFFFF
        payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
        return kind, flags, stream, payload

    def send(self, block):
        """A request of this field section; returns its stream."""
        self.stream += 2
        pieces = [block[at:at + MOST_PAYLOAD] for at in range(0, len(block), MOST_PAYLOAD)]
        kind, flags = HEADERS, END_STREAM
        for index, piece in enumerate(pieces):
            self.socket.sendall(self.frame(kind, flags | (END_HEADERS if index + 1 == len(pieces) else 0), self.stream, piece))
            kind, flags = CONTINUATION, 0
        return self.stream

    def answer(self, stream):
        """(status, body), or None when the stream was reset: the section was read, and is no request."""
        status, body = None, b""
        while True:
            kind, flags, of, payload = self.read()
            if kind == GOAWAY:
                raise ConnectionError(f"GOAWAY with error {int.from_bytes(payload[4:8], 'big')}")
            if kind == SETTINGS and not flags & ACK:
                self.socket.sendall(self.frame(SETTINGS, ACK, 0, b""))
            elif kind == PING and not flags & ACK:
                self.socket.sendall(self.frame(PING, ACK, 0, payload))
            elif kind == HEADERS:
                fields = self.decoder.decode(payload)
                if of == stream:
                    status = int(dict(fields)[":status"])
            elif kind == RST_STREAM and of == stream:
                return None
            elif kind == DATA and of == stream:
                body += payload
            if of == stream and kind in (HEADERS, DATA) and flags & END_STREAM:
                return status, body


def integer(value, bits, first):
    """RFC 7541 §5.1."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((first | value,))
    value -= most
    out = [first | most]
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes((*out, value))


def is_request(fields):
    names = [name for name, _ in fields]
    return ":method" in names and not FORBIDDEN & set(names)


def expected(fields):
    """{name: value} as an application has it: several values are one, and the parts of a cookie are joined by `; ` (RFC 9113 §8.2.3)."""
    values = {}
    for name, value in fields:
        name = "host" if name == ":authority" else name
        if name != ":scheme":
            values.setdefault(name, []).append(value.strip(" \t"))
    return {name: ("; " if name == "cookie" else ", ").join(parts) for name, parts in values.items()}


def difference(sent, body):
    """Returns what an application did not receive as it was sent, or None."""
    received = expected([(name, value) for name, value in json.loads(body)])
    for name, value in sent.items():
        if received.get(name) != value:
            return f"`{name}` is `{received.get(name)}` and not `{value}`"
    return None


def in_table(reference):
    """A section that refers to each entry of the dynamic table that a request may have, and these fields."""
    block, fields = b"\x82\x86\x84" + b"\x01\x01a", []
    for index, (name, value) in enumerate(reference.header_table.dynamic_entries):
        name, value = name.decode("latin-1"), value.decode("latin-1")
        if not name.startswith(":") and name not in FORBIDDEN:
            block += integer(STATIC_ENTRIES + 1 + index, 7, 0x80)
            fields.append((name, value))
    return block, expected(fields)


def story(port, cases):
    """Returns what is wrong with one story, or None."""
    import hpack
    reference = hpack.Decoder()
    reference.max_header_list_size = 1 << 20
    connection = Connection(port)
    errors = 0
    try:
        for number, case in enumerate(cases):
            if errors == MOST_ERRORS:
                break
            wire = bytes.fromhex(case["wire"])
            fields = [pair for each in case["headers"] for pair in each.items()]
            reference.decode(wire, raw=True)
            answer = connection.answer(connection.send(wire))
            if not is_request(fields):
                errors += 1
                if answer and answer[0] != 400:
                    return f"section {number} is no request, and its status is {answer[0]}"
            elif not answer or answer[0] != 200:
                return f"section {number} is refused with {answer[0] if answer else 'a reset'}"
            elif wrong := difference(expected(fields), answer[1]):
                return f"section {number}: {wrong}"
        block, fields = in_table(reference)
        answer = connection.answer(connection.send(block))
        if not answer or answer[0] != 200:
            return f"the table after all sections is refused with {answer[0] if answer else 'a reset'}"
        if wrong := difference(fields, answer[1]):
            return f"the table after all sections: {wrong}"
        return None
    except (ConnectionError, TimeoutError) as error:
        return f"section {number}: {error}"
    finally:
        connection.close()


def run(context):
    context.module("tutti-python*")
    folder = context.folder / "application"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "echo.py").write_text(APPLICATION)
    data = context.crate(*CRATE) / "fixtures"
    sys.path.insert(0, str(context.pip(*PACKAGES)))
    application = {"type": "python", "path": str(folder), "module": "echo", "callable": "application"}
    server = context.server(lambda port: {
        "listeners": {f"127.0.0.1:{port}": {"pass": "applications/echo"}},
        "applications": {"echo": application},
    })
    for file in sorted(data.glob("*/*.json")):
        name = f"{file.parent.name}/{file.stem}"
        cases = json.loads(file.read_text())["cases"]
        if any((case.get("header_table_size") or 0) > 4096 for case in cases):
            yield Case(name, "skip", "it needs a larger table than the 4096 octets that the server announces")
            continue
        wrong = story(server.port, cases)
        yield Case(name, "fail" if wrong else "pass", wrong or "")
