"""A client of DBGp (https://xdebug.org/docs/dbgp), the protocol of Xdebug: the debugged program connects to it."""

import socket
import xml.etree.ElementTree as ElementTree

NAMESPACE = {"d": "urn:debugger_protocol_v1"}


class Session:
    """One connection of a debugged program."""

    def __init__(self, connection):
        self.connection = connection
        self.connection.settimeout(60)
        self.received = b""
        self.number = 0
        self.init = self.message()

    def message(self):
        """The next packet, `LENGTH NUL XML NUL`."""
        while self.received.count(b"\0") < 2:
            more = self.connection.recv(65536)
            if not more:
                raise EOFError("the program has closed the debugger's connection")
            self.received += more
        length, text, self.received = self.received.split(b"\0", 2)
        assert int(length) == len(text), (length, text)
        return ElementTree.fromstring(text)

    def send(self, command, **arguments):
        """Sends a command without waiting for its answer, which comes when the program stops."""
        self.number += 1
        words = " ".join(f"-{name} {value}" for name, value in arguments.items())
        self.connection.sendall(f"{command} -i {self.number} {words}".encode().rstrip() + b"\0")

    def ask(self, command, **arguments):
        self.send(command, **arguments)
        return self.answer()

    def answer(self):
        """The answer to the last command; notifications before it are passed over."""
        while True:
            message = self.message()
            if message.get("transaction_id") == str(self.number):
                error = message.find("d:error/d:message", NAMESPACE)
                assert error is None, error.text
                return message

    def line(self):
        """Where the program stands: `FILE:LINE FUNCTION` of the innermost call."""
        top = self.ask("stack_get", d=0).find("d:stack", NAMESPACE)
        return f"{top.get('filename').rsplit('/', 1)[-1]}:{top.get('lineno')} {top.get('where')}"

    def variables(self):
        """The local variables that are scalars."""
        import base64
        found = {}
        for entry in self.ask("context_get", d=0).findall("d:property", NAMESPACE):
            text = entry.text or ""
            found[entry.get("name")] = base64.b64decode(text).decode() if entry.get("encoding") == "base64" else text
        return found

    def close(self):
        self.connection.close()


class Listener:
    """The port that an editor would listen on."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.socket.settimeout(60)

    def session(self):
        return Session(self.socket.accept()[0])

    def close(self):
        self.socket.close()
