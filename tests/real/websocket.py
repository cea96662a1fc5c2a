"""A browser's WebSocket, as far as a test needs one: text messages, each in one frame."""

import base64
import os
import socket
import struct
import time

# Seconds to wait for a message. A server's pings go on for ever, and would keep a test waiting as long.
PATIENCE = 60


class WebSocket:
    def __init__(self, host, port, path, subprotocol=None):
        self.socket = socket.create_connection((host, port), timeout=60)
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}:{port}", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                 f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}", f"Origin: http://{host}:{port}"]
        if subprotocol:
            lines.append(f"Sec-WebSocket-Protocol: {subprotocol}")
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()
        assert self.status == 101, (path, self.status, self.headers)

    def _frame(self, opcode, data):
        mask = os.urandom(4)
        if len(data) < 126:
            length = bytes([0x80 | len(data)])
        elif len(data) < 65536:
            length = b"\xfe" + struct.pack(">H", len(data))
        else:
            length = b"\xff" + struct.pack(">Q", len(data))
        self.socket.sendall(bytes([0x80 | opcode]) + length + mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(data)))

    def say(self, text):
        self._frame(1, text.encode())

    def hear(self, until=None):
        """The next text; (code, reason) of a close; `None` at the end."""
        until = until or time.monotonic() + PATIENCE
        if time.monotonic() > until:
            raise TimeoutError("no message came, only pings")
        head = self.file.read(2)
        if len(head) < 2:
            return None
        length = head[1]
        if length == 126:
            length = struct.unpack(">H", self.file.read(2))[0]
        elif length == 127:
            length = struct.unpack(">Q", self.file.read(8))[0]
        data = self.file.read(length)
        if head[0] & 15 == 9:
            self._frame(10, data)
            return self.hear(until)
        if head[0] & 15 == 8:
            return struct.unpack(">H", data[:2])[0], data[2:].decode()
        return data.decode()

    def leave(self, code=1000):
        self._frame(8, struct.pack(">H", code))
        answer = self.hear()
        self.socket.close()
        return answer
