"""Django's own tests, unmodified, with a real server between their test client and the handler.

Asked for `/run`, this application runs the tests in a thread of its process. The client of a test sends each request to the server, with a
number in a field, by which this application gives its environment back to the test's thread; that thread makes the response, and gets back
what came to the client. A test that sends no request is no case.
"""

import http.client
import io
import json
import os
import sys
import threading
import traceback
from queue import Queue
from urllib.parse import quote

TESTS = os.environ["DJANGO_TESTS"]
NUMBER = "HTTP_X_TEST_NUMBER"
# These come from the server; everything else that a test gives is added to the environment.
OURS = {"CONTENT_LENGTH", "CONTENT_TYPE", "REQUEST_METHOD", "QUERY_STRING", "PATH_INFO", "REQUEST_URI"}
# Lets a test that waits for ever be found.
PATIENCE = 60

waiting = {}
count = 0
told = []
ended = threading.Event()


class Waiting:
    """A request on its way through the server."""

    def __init__(self):
        self.arrived = Queue()
        self.made = Queue()


def send(environ, number):
    """The status, the fields and the body of the answer to the request that the client of the test has described."""
    fields = {name.removeprefix("HTTP_").replace("_", "-"): value for name, value in environ.items() if name.startswith("HTTP_")}
    fields.setdefault("HOST", "testserver")
    fields["X-Test-Number"] = number
    body = environ["wsgi.input"].read()
    if environ.get("CONTENT_TYPE"):
        fields["Content-Type"] = environ["CONTENT_TYPE"]
    if body or environ["REQUEST_METHOD"] in ("POST", "PUT", "PATCH"):
        fields["Content-Length"] = str(len(body))
    target = quote(environ["PATH_INFO"].encode("latin-1"), safe="/:@!$&'()*+,;=~-._")
    target = target if target.startswith("/") else f"/{target}"
    if environ.get("QUERY_STRING"):
        target += "?" + quote(environ["QUERY_STRING"].encode("latin-1"), safe="!#$%&'()*+,/:;=?@[]~-._^`{|}")
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PORT"]), timeout=PATIENCE)
    try:
        connection.putrequest(environ["REQUEST_METHOD"], target, skip_host=True, skip_accept_encoding=True)
        for name, value in fields.items():
            connection.putheader(name, str(value).encode("latin-1"))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()


def through(original, handler, environ):
    """Does what the handler does, with the environment that the server makes of the request and the response that comes back."""
    global count
    count += 1
    one = Waiting()
    number = str(id(one))
    waiting[number] = one
    answer = {}

    def client():
        try:
            answer["is"] = send(environ, number)
        except Exception as error:
            answer["error"] = error
        one.arrived.put(None)

    thread = threading.Thread(target=client)
    thread.start()
    served = one.arrived.get(timeout=PATIENCE)
    if served is None:
        thread.join()
        waiting.pop(number, None)
        raise RuntimeError(f"the server answers {answer['is'][0]} itself" if "is" in answer else f"not sent: {answer['error']}")
    has_host = "HTTP_HOST" in environ
    mine = {name: value for name, value in environ.items() if not name.startswith(("HTTP_", "wsgi.")) and name not in OURS}
    served = {**served, **mine, "wsgi.url_scheme": environ["wsgi.url_scheme"]}
    if not has_host:
        served.pop("HTTP_HOST", None)
    try:
        response = original(handler, served)
        is_async = response.streaming and response.is_async
        content = b"" if is_async else b"".join(response.streaming_content) if response.streaming else response.content
        cookies = [cookie.OutputString() for cookie in response.cookies.values()]
        one.made.put((response.status_code, response.reason_phrase, [*response.items(), *(("Set-Cookie", text) for text in cookies)], content))
    except BaseException:
        one.made.put((500, "Error", [], b""))
        thread.join()
        raise
    thread.join()
    if "error" in answer:
        raise answer["error"]
    status, fields, body = answer["is"]
    if status != response.status_code:
        raise AssertionError(f"status {status} reaches the client, and not {response.status_code}")
    if [value for name, value in fields if name == "Set-Cookie"] != cookies:
        raise AssertionError("other cookies reach the client")
    for name in list(response.headers):
        found = [value for each, value in fields if each.lower() == name.lower()]
        if not found:
            del response.headers[name]
        else:
            response.headers[name] = ", ".join(found)
    if response.streaming and not is_async:
        response.streaming_content = [body]
    elif not response.streaming:
        response.content = body
    return response


def run():
    """Runs the tests of the applications in `DJANGO_LABELS`."""
    sys.path.insert(0, TESTS)
    os.chdir(TESTS)
    os.environ["DJANGO_SETTINGS_MODULE"] = "test_sqlite"
    import unittest

    import runtests
    from django.test.client import ClientHandler
    from django.test.runner import DiscoverRunner

    # Signals are the main thread's.
    unittest.installHandler = unittest.removeHandler = lambda *_: None
    original = ClientHandler.__call__
    ClientHandler.__call__ = lambda handler, environ: through(original, handler, environ)

    class Results(unittest.TextTestResult):
        def startTest(self, test):
            super().startTest(test)
            self.before = count

        def tell(self, test, error=None):
            if count > self.before:
                told.append((test.id(), error))

        def addSuccess(self, test):
            super().addSuccess(test)
            self.tell(test)

        def addExpectedFailure(self, test, error):
            super().addExpectedFailure(test, error)
            self.tell(test)

        def addError(self, test, error):
            super().addError(test, error)
            self.tell(test, "".join(traceback.format_exception_only(*error[:2])))

        def addFailure(self, test, error):
            super().addFailure(test, error)
            self.tell(test, "".join(traceback.format_exception_only(*error[:2])))

        def addSubTest(self, test, part, error):
            super().addSubTest(test, part, error)
            if error:
                self.tell(test, "".join(traceback.format_exception_only(*error[:2])))

    DiscoverRunner.get_resultclass = lambda runner: Results
    kwargs = DiscoverRunner.get_test_runner_kwargs
    DiscoverRunner.get_test_runner_kwargs = lambda runner: {**kwargs(runner), "stream": io.StringIO()}
    runtests.django_tests(
        0, False, False, False, False, os.environ["DJANGO_LABELS"].split(), False, 1, [], [], None, None, None, False, False, False, False)


def run_and_tell():
    try:
        run()
    except BaseException:
        told.append(("", traceback.format_exc()))
    ended.set()


def application(environ, start_response):
    if number := environ.pop(NUMBER, None):
        one = waiting.pop(number)
        one.arrived.put(environ)
        status, phrase, fields, body = one.made.get(timeout=PATIENCE)
        start_response(f"{status} {phrase}", [(name, str(value)) for name, value in fields])
        return [body]
    if environ["PATH_INFO"] == "/run":
        threading.Thread(target=run_and_tell, daemon=True).start()
    is_over = ended.is_set()
    start_response("200 OK" if is_over else "202 Accepted", [("Content-Type", "application/json")])
    return [json.dumps(told if is_over else None).encode()]
