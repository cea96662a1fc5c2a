"""Starlette's own tests, unmodified, with a real server between its test client and the applications.

This is an ASGI application. Asked for `/run`, it runs the tests in a thread of its process. Each makes applications, which wait here until
the tests' client asks for them through the server, with a number in a header. `tests/e2e/tests/python_starlette.rs` starts it and looks at
what came out; tests that cannot pass are listed with their reasons in `disabled.txt`.
"""

import asyncio
import json
import os
import threading
from wsgiref.validate import validator

import anyio
import anyio.to_thread
import package_tests
from asgiref.wsgi import WsgiToAsgi

NUMBER = b"x-test-number"
# The first tests the client that we replace, the second a package that is not here.
NOT_OURS = ["tests/test_testclient.py", "tests/middleware/test_opentelemetry.py"]
# Lets a test that waits for ever be found.
PATIENCE = 60


class Served:
    """An application that waits for one request, and what became of it."""

    waiting = {}

    def __init__(self, app, state, root_path):
        self.app = app
        self.state = state
        self.root_path = root_path
        self.is_begun = False
        self.done = threading.Event()
        self.exception = None
        self.debug = None
        self.closed = None
        self.number = str(id(self))
        Served.waiting[self.number.encode()] = self

    async def serve(self, scope, receive, send):
        self.is_begun = True

        async def send_on(message):
            if message["type"] == "http.response.debug":
                self.debug = message["info"]
                return
            if message["type"] == "websocket.close":
                self.closed = message.get("code", 1000), message.get("reason", "")
            await send(message)

        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != NUMBER]
        scope["state"] = dict(self.state)
        scope["root_path"] = self.root_path
        if scope["type"] == "http":
            # The template and its context, for tests of templates: the test client's own extension.
            scope["extensions"] = {**scope.get("extensions", {}), "http.response.debug": {}}
        try:
            await self.app(scope, receive, send_on)
        except BaseException as exception:
            self.exception = exception
            raise
        finally:
            self.done.set()

    def wait(self):
        Served.waiting.pop(self.number.encode(), None)
        # A request that the server answers itself never reaches the application.
        assert not self.is_begun or self.done.wait(PATIENCE), "the application did not end"


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
    if scope["path"].startswith("/wsgi"):
        await WSGI(scope, receive, send)
        return
    if scope["path"] == "/threads":
        outcomes = await threads()
    else:
        outcomes = await asyncio.get_running_loop().run_in_executor(None, run)
    body = json.dumps(outcomes).encode()
    fields = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def wsgi(environ, start_response):
    """Says what came, in two pieces; held to PEP 3333 by the standard library's validator, brought to ASGI by asgiref."""
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0))
    start_response("201 Created", [("Content-Type", "text/plain"), ("X-Twice", "1"), ("X-Twice", "2")])
    yield f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ['QUERY_STRING']} ".encode()
    yield f"{len(body)} {environ['HTTP_X_NAME']}".encode()


WSGI = WsgiToAsgi(validator(wsgi))


async def threads():
    """The number of threads that anyio runs at once: as many meet as the application has."""
    count = int(os.environ["THREADS"])
    barrier = threading.Barrier(count)
    async with anyio.create_task_group() as group:
        for _ in range(2 * count):
            group.start_soon(anyio.to_thread.run_sync, barrier.wait, PATIENCE)
    return {"limit": anyio.to_thread.current_default_thread_limiter().total_tokens}


class Plugin(package_tests.Outcomes):
    """Keeps the tests that use the client."""

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if "test_client_factory" in item.fixturenames and "trio" not in item.name]


def run():
    import starlette.testclient

    import client

    starlette.testclient.TestClient = client.TestClient
    return package_tests.run(os.environ["STARLETTE"], Plugin(), NOT_OURS)
