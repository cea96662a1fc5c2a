"""Django's own tests in the language host: the requests of its test client pass through the server: handlers, uploads, conditions, sessions"""

import http.client
import json
import re
import shutil
import time
from pathlib import Path

from base import Case

SOURCE = "django==5.2.9"
PACKAGES = ("asgiref==3.13.0", "sqlparse==0.6.1", "jinja2==3.1.6")
VERSION = "Django 5.2.9"
HERE = Path(__file__).resolve().parent / "django_bridge"
# Applications whose tests send requests by the synchronous client.
LABELS = ("conditional_processing", "csrf_tests", "file_uploads", "flatpages_tests", "generic_views",
          "handlers", "i18n.patterns", "logging_tests", "messages_tests", "middleware_exceptions", "redirects_tests", "sessions_tests", "sitemaps_tests", "staticfiles_tests",
          "syndication_tests", "test_client", "test_client_regress", "test_utils", "urlpatterns", "urlpatterns_reverse", "view_tests", "wsgi")
SECONDS = 600


def run(context):
    context.module("tutti-python*")
    packages = context.pip(*PACKAGES)
    django = context.folder / "django"
    shutil.copytree(context.sdist(SOURCE), django)
    shutil.copy(HERE / "bridge.py", django / "bridge.py")
    context.open_to_all(django, folder_mode=0o777)
    server = context.server(lambda port: {
        "listeners": {f"127.0.0.1:{port}": {"pass": "applications/django"}},
        "settings": {"http": {"max_body_size": 1 << 28}},
        "applications": {"django": {
            "type": "python", "path": [str(django), str(packages)], "module": "bridge", "processes": 1, "threads": 8,
            "environment": {"DJANGO_TESTS": str(django / "tests"), "DJANGO_LABELS": " ".join(LABELS), "PORT": str(port)}}},
    })

    def ask(path):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())

    ask("/run")
    deadline = time.monotonic() + SECONDS
    while (told := ask("/told")) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the tests have not ended after {SECONDS} s")
        time.sleep(0.2)
    wrong = {}
    for name, error in told:
        if not name:
            raise RuntimeError(error)
        # Each part of a test that fails is listed by itself.
        wrong[name] = wrong.get(name) or error
    for name, error in sorted(wrong.items()):
        yield Case(name, "fail" if error else "pass", " ".join(re.sub(r"/\S*/django/", "", error or "").split())[:200])
