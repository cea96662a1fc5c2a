"""Raw bytes to a server and the responses that come back, read as strictly as a test needs."""

import socket
import time
from dataclasses import dataclass, field


@dataclass
class Response:
    """One response; `fields` are (lower-case name, value) in their order."""

    status: int
    version: str
    fields: list = field(default_factory=list)
    body: bytes = b""

    def all(self, name):
        return [value for each, value in self.fields if each == name]

    def first(self, name):
        return next(iter(self.all(name)), None)


class Connection:
    """A client that writes the bytes that it is given."""

    def __init__(self, port, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.is_closed = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """Writes; a server that has refused and closed before all is written is no fault of the test."""
        try:
            self.socket.sendall(data)
        except OSError:
            pass

    def fill(self, seconds):
        """Waits for more bytes. False: none came in time, or the server has closed."""
        if self.is_closed:
            return False
        self.socket.settimeout(max(seconds, 0.001))
        try:
            data = self.socket.recv(65536)
        except TimeoutError:
            return False
        except OSError:
            data = b""
        if not data:
            self.is_closed = True
        self.buffer += data
        return bool(data)

    def response(self, seconds, is_head=False):
        """The next final response or an interim one; None when none came within the time. What is no response raises ValueError."""
        deadline = time.monotonic() + seconds
        while b"\r\n\r\n" not in self.buffer:
            if not self.fill(deadline - time.monotonic()):
                return None
        head, _, rest = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/") or not status[:3].isdigit():
            raise ValueError(f"no response: {first!r}")
        response = Response(int(status[:3]), version)
        for line in lines:
            name, _, value = line.partition(":")
            response.fields.append((name.lower(), value.strip()))
        self.buffer = rest
        if is_head or response.status < 200 or response.status in (204, 304):
            return response
        if "chunked" in (response.first("transfer-encoding") or ""):
            while True:
                size = int(self._line(deadline).split(b";")[0], 16)
                if not size:
                    while self._line(deadline):
                        pass
                    return response
                response.body += self._take(size, deadline)
                self._line(deadline)
        length = response.first("content-length")
        if length is None:
            while self.fill(deadline - time.monotonic()):
                pass
            response.body, self.buffer = self.buffer, b""
        else:
            response.body = self._take(int(length), deadline)
        return response

    def closes(self, seconds):
        """True if the server closes within the time, and nothing else comes."""
        deadline = time.monotonic() + seconds
        while not self.is_closed and time.monotonic() < deadline:
            self.fill(deadline - time.monotonic())
        return self.is_closed

    def _line(self, deadline):
        while b"\r\n" not in self.buffer:
            if not self.fill(deadline - time.monotonic()):
                raise ValueError("the response is cut short")
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def _take(self, length, deadline):
        while len(self.buffer) < length:
            if not self.fill(deadline - time.monotonic()):
                raise ValueError("the response is cut short")
        taken, self.buffer = self.buffer[:length], self.buffer[length:]
        return taken


def exchange(port, data, seconds=5, most=16):
    """All responses to these bytes, until the server closes, is silent for `seconds`, or `most` have come; and whether it has closed."""
    responses = []
    with Connection(port) as connection:
        connection.send(data)
        while len(responses) < most and (response := connection.response(seconds)):
            responses.append(response)
        return responses, connection.is_closed
