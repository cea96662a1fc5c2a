"""A client of the Chrome DevTools Protocol, which `node --inspect` speaks."""

import json
import urllib.request
from urllib.parse import urlsplit

from websocket import WebSocket


class Inspector:
    """The debugger of the process that listens on this port."""

    def __init__(self, host, port):
        with urllib.request.urlopen(f"http://{host}:{port}/json/list", timeout=30) as answer:
            [target] = json.load(answer)
        self.socket = WebSocket(host, port, urlsplit(target["webSocketDebuggerUrl"]).path)
        self.number = 0
        self.events = []

    def ask(self, method, **parameters):
        self.number += 1
        self.socket.say(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = self._hear()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def wait_for(self, method):
        """The parameters of the next event of this name."""
        while True:
            message = self.events.pop(0) if self.events else self._hear()
            if message.get("method") == method:
                return message["params"]

    def _hear(self):
        heard = self.socket.hear()
        assert isinstance(heard, str), f"the debugged program has closed the connection: {heard}"
        return json.loads(heard)
