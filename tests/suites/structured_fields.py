"""RFC 9651's structured fields, as HTTP/2 reads a priority: the values of structured-field-tests, each with a member of our own, decide which of two responses is sent first"""

import json
import socket
import struct

from base import Case
from hpack_test_case import DATA, GOAWAY, HEADERS, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, Connection

COMMIT = "1e280c3ed9ffe0ca5fdb1d97219dddc389007677"
VERSION = f"structured-field-tests {COMMIT[:12]}"
PRIORITY_UPDATE = 0x10
# The initial window of a connection (RFC 9113 section 6.9.2).
WINDOW = 65535
PAGE = b"a page\n"
# `:method: GET`, `:scheme: http`, `:authority: test`, and `:path` before its value.
REQUEST = b"\x82\x86\x01\x04test\x04"
# `:method: HEAD` and the rest of a request.
HEAD = b"\x02\x04HEAD" + REQUEST[1:] + b"\x05/page"
# The value that decides is this one, if it is valid: the other response has urgency 3.
MOST_URGENT = "u=0"

NO_DICTIONARY = "a list is no member of a dictionary"
EMPTY = "an empty value says nothing about its neighbour"
COMMA = "in a dictionary, the comma begins another member"
SPACE = "in a dictionary, white space may follow a member"
LONG = "it is longer than a frame"


class Pairs(Connection):
    """Asks for two responses at once, and looks which comes first. No response has a window before both wait for it."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.stream = b"", -1
        self.socket.sendall(PREFACE + self.frame(SETTINGS, 0, 0, b""))
        self.send(REQUEST + b"\x07/window")
        received = 0
        while received < WINDOW:
            received += len(self.next(DATA)[1])

    def is_second_first(self, lines):
        """True if the second of two requests is answered first, with this priority."""
        first, second, last = self.stream + 2, self.stream + 4, self.stream + 6
        fields = b""
        if len(lines) == 1:
            self.socket.sendall(self.frame(PRIORITY_UPDATE, 0, 0, struct.pack(">I", second) + lines[0]))
        else:
            # Literals without Huffman's code (RFC 7541 section 6.2.2).
            fields = b"".join(b"\x00\x08priority" + bytes((len(line),)) + line for line in lines)
        request = REQUEST + b"\x05/page"
        # A response without a body is there when the others have tried to send theirs.
        for block in (request, request + fields, HEAD):
            self.send(block)
            self.next(HEADERS)
        self.socket.sendall(self.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2 * len(PAGE))))
        order = []
        for _ in range(2):
            stream, payload = self.next(DATA)
            order.append(stream)
            if payload != PAGE:
                raise ConnectionError(f"stream {stream} has another body")
        if sorted(order) != [first, second] or self.stream != last:
            raise ConnectionError(f"the responses of {first} and {second} come as {order}")
        return order[0] == second

    def next(self, wanted):
        """The stream and the payload of the next frame of this kind with a payload."""
        while True:
            kind, _, stream, payload = self.read()
            if kind == wanted and payload:
                return stream, payload
            if kind == GOAWAY:
                raise ConnectionError(f"GOAWAY with error {int.from_bytes(payload[4:8], 'big')}")
            if kind == RST_STREAM:
                raise ConnectionError(f"stream {stream} is reset with error {int.from_bytes(payload, 'big')}")


def lines_of(case):
    """The lines of a field for a case with our own member at the end, or why it has none."""
    lines = list(case["raw"])
    if case["header_type"] != "dictionary":
        if any("," in line for line in lines) and (case["header_type"] == "list" or case.get("must_fail")):
            return NO_DICTIONARY if case["header_type"] == "list" else COMMA
        if len(lines) > 1:
            return NO_DICTIONARY
        if case.get("must_fail") and lines[0] != lines[0].rstrip():
            return SPACE
        # Around an item, but not around a member's value, there may be spaces.
        lines = [f"x={lines[0] if case.get('must_fail') else lines[0].strip(' ')}"]
    if not "".join(lines).strip() or (lines == ["x="] and not case.get("must_fail")):
        return EMPTY
    if sum(map(len, lines)) > 16000:
        return LONG
    lines[-1] += f", {MOST_URGENT}"
    return [line.encode("latin-1", "replace") for line in lines]


def outcome(connection, case):
    """(outcome, detail) of a case."""
    lines = lines_of(case)
    if isinstance(lines, str):
        return "skip", lines
    is_valid = connection.is_second_first(lines)
    if case.get("must_fail") == is_valid or (not is_valid and not case.get("can_fail") and not case.get("must_fail")):
        return "fail", "the value is read" if is_valid else "the value is ignored"
    return "pass", ""


def run(context):
    data = context.git("github.com/httpwg/structured-field-tests", COMMIT)
    folder = context.folder / "files"
    folder.mkdir()
    (folder / "page").write_bytes(PAGE)
    (folder / "window").write_bytes(bytes(WINDOW))
    context.open_to_all(folder)
    server = context.server(lambda port: {
        "listeners": {f"127.0.0.1:{port}": {"pass": "routes"}}, "routes": [{"action": {"share": f"{folder}$uri"}}]})
    for file in sorted(data.glob("*.json")):
        connection, names = Pairs(server.port), {}
        for case in json.loads(file.read_text(encoding="utf-8")):
            name = f"{file.stem}/" + "-".join(case["name"].split())
            # Some names are there twice.
            names[name] = names.get(name, 0) + 1
            name += f"-{names[name]}" if names[name] > 1 else ""
            yield Case(name, *outcome(connection, case))
        connection.close()
