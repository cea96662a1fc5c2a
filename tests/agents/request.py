"""A request that goes on while its process stands at a breakpoint."""

import threading


class Request(threading.Thread):
    def __init__(self, case, server, path):
        super().__init__(daemon=True)
        self.ask = lambda: case.get(server, path)
        self.body = None
        self.start()

    def run(self):
        self.body = self.ask()

    def result(self):
        self.join(60)
        assert not self.is_alive(), "the request is not answered"
        assert self.body is not None, "the request has failed"
        return self.body
