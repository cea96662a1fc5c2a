"""asgiref's own tests, unmodified, inside a worker: what is a coroutine runs in the worker's event loop, and what is an application of
HTTP is asked through the server.

This is an ASGI application. Asked for `/run`, it runs the tests in a thread of its process. `tests/e2e/tests/python_asgiref.rs` starts it
and looks at what came out; tests that cannot pass are listed with their reasons in `disabled.txt`.
"""

import asyncio
import inspect
import json
import os
import threading
import urllib.parse

import package_tests
from asgiref.compatibility import guarantee_single_callable
from asgiref.testing import ApplicationCommunicator

NUMBER = b"x-test-number"
# Its server of datagrams takes no part in ASGI over HTTP, and its benchmarks are no tests.
NOT_OURS = ["tests/test_server.py", "tests/test_benchmark_local.py"]
# Lets a test that waits for ever be found.
PATIENCE = 60


class Served:
    """Stands for asgiref's communicator: asks the server for the application, and keeps what that sends."""

    waiting = {}
    # Those of the test that runs.
    current = []

    def __init__(self, application, scope):
        self.application = guarantee_single_callable(application)
        self.scope = scope
        self.body = b""
        self.sent = []
        self.exception = None
        self.outbox = asyncio.Queue()
        self.client = None
        self.number = str(id(self)).encode()
        Served.waiting[self.number] = self
        Served.current.append(self)

    async def send_input(self, message):
        self.body += message.get("body", b"")
        if not message.get("more_body"):
            self.client = asyncio.create_task(self.ask())

    async def receive_output(self, timeout=None):
        output = await asyncio.wait_for(self.outbox.get(), PATIENCE)
        if isinstance(output, BaseException):
            raise output
        return output

    async def ask(self):
        scope = self.scope
        target = urllib.parse.quote(scope.get("root_path", "") + scope["path"]).encode()
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        fields = [[b"host", b"test"], [NUMBER, self.number], *scope["headers"]]
        head = b"".join(b"%s: %s\r\n" % (name, value) for name, value in fields)
        line = b"%s %s HTTP/%s\r\n" % (scope["method"].encode(), target, scope["http_version"].encode())
        reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["SERVER_PORT"]))
        writer.write(line + head + b"\r\n" + self.body)
        answer = await reader.read()
        writer.close()
        return answer

    async def serve(self, scope, receive, send):
        """The application, with the scope of the server."""
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != NUMBER]
        assert [list(field) for field in scope["headers"] if field[0] != b"host"] == self.scope["headers"], scope["headers"]
        # As `prefix` has it.
        scope["root_path"] = self.scope.get("root_path", "")
        assert scope["path"] == scope["root_path"] + self.scope["path"], scope["path"]
        for name in ("type", "http_version", "method", "query_string"):
            assert scope[name] == self.scope[name], name

        async def send_on(message):
            await send(message)
            self.sent.append(message)
            self.outbox.put_nowait(message)

        try:
            await self.application(scope, receive, send_on)
        except BaseException as exception:
            self.exception = exception
            self.outbox.put_nowait(exception)
            raise

    async def check(self):
        """Anything that came over the network is what the application sent."""
        answer = await asyncio.wait_for(self.client, PATIENCE)
        if self.exception is not None:
            raise self.exception
        assert answer.startswith(b"HTTP/1.1 %d " % self.sent[0]["status"]), answer
        head, _, body = answer.partition(b"\r\n\r\n")
        for name, value in self.sent[0]["headers"]:
            assert b"\r\n%s: %s\r\n" % (name, value.lower()) in head.lower() + b"\r\n", answer
        assert body == b"".join(message.get("body", b"") for message in self.sent[1:]), answer


def communicator(application, scope):
    """Over HTTP what is of HTTP; the rest, messages that no network knows, by asgiref's own."""
    return Served(application, scope) if scope.get("type") == "http" else ApplicationCommunicator(application, scope)


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    number = dict(scope["headers"]).get(NUMBER)
    if number is not None:
        await Served.waiting[number].serve(scope, receive, send)
        return
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def run():
        try:
            outcomes = package_tests.run(os.environ["ASGIREF"], Plugin(loop), NOT_OURS)
        except BaseException as exception:
            loop.call_soon_threadsafe(done.set_exception, exception)
        else:
            loop.call_soon_threadsafe(done.set_result, outcomes)

    # No executor's: the tests fork, and in a child that comes from one of its threads Python fails when it joins them at the end.
    threading.Thread(target=run, daemon=True).start()
    outcomes = await asyncio.wait_for(done, 10 * PATIENCE)
    body = json.dumps({"loop": type(loop).__module__, "outcomes": outcomes}).encode()
    fields = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": body})


class Plugin(package_tests.Outcomes):
    """Runs coroutines in the worker's loop."""

    def __init__(self, loop):
        super().__init__()
        self.loop = loop

    def pytest_collection_modifyitems(self, items):
        for item in items:
            if item.module.__name__ in ("test_wsgi", "test_compatibility"):
                item.module.ApplicationCommunicator = communicator

    def pytest_pyfunc_call(self, pyfuncitem):
        if not inspect.iscoroutinefunction(pyfuncitem.obj):
            return None
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        asyncio.run_coroutine_threadsafe(self.run(pyfuncitem.obj, arguments), self.loop).result(PATIENCE)
        return True

    async def run(self, test, arguments):
        Served.current.clear()
        await test(**arguments)
        for served in Served.current:
            await served.check()
