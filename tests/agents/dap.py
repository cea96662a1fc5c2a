"""A client of the Debug Adapter Protocol, which debugpy speaks."""

import json
import socket


class Adapter:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=60)
        self.file = self.socket.makefile("rb")
        self.number = 0
        self.events = []

    def send(self, command, **arguments):
        self.number += 1
        body = json.dumps({"seq": self.number, "type": "request", "command": command, "arguments": arguments}).encode()
        self.socket.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return self.number

    def ask(self, command, **arguments):
        return self.answer(self.send(command, **arguments))

    def answer(self, number):
        while True:
            message = self._read()
            if message["type"] == "response" and message["request_seq"] == number:
                assert message["success"], message
                return message.get("body")
            self.events.append(message)

    def wait_for(self, event):
        while True:
            message = self.events.pop(0) if self.events else self._read()
            if message.get("event") == event:
                return message.get("body")

    def _read(self):
        length = 0
        while line := self.file.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the debugger has closed the connection"
        return json.loads(self.file.read(length))
