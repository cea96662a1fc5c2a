"""Rack's own tests in the language host: their requests pass through the server, and each environment through Rack::Lint"""

import http.client
import json
import shutil
from pathlib import Path

from base import Case

REPOSITORY, COMMIT = "github.com/rack/rack", "70d2e1046789a70e240e01b9ac0b3ffc9b26d33f"
VERSION = "rack 3.2.7"
HERE = Path(__file__).resolve().parent / "rack"
# A test holds a few requests open at once.
THREADS = 24
SECONDS = 300


def run(context):
    host = context.module("tutti-ruby*")
    rack, site = context.folder / "rack", context.folder / "site"
    shutil.copytree(context.git(REPOSITORY, COMMIT), rack, ignore=shutil.ignore_patterns(".git"))
    shutil.copytree(HERE, site)
    (site / "Gemfile").write_text(f'gem "rack", path: "{rack}"\ngem "minitest"\n')
    context.open_to_all(rack, site, folder_mode=0o777)
    server = context.server(lambda port: {
        "listeners": {f"127.0.0.1:{port}": {"pass": "applications/rack"}},
        "settings": {"http": {"max_body_size": 1 << 28}},
        "applications": {"rack": {
            "type": "ruby", "script": str(site / "config.ru"), "processes": 1, "threads": THREADS, "working_directory": str(rack),
            "environment": {"RACK": str(rack), "PORT": str(port)}}},
    })
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
    connection.request("GET", "/run")
    told = json.loads(connection.getresponse().read())
    if isinstance(told, dict):
        raise RuntimeError(f"{host.name}: {told['error']}")
    seen = {}
    for test in told:
        name = "-".join(test["name"].split())
        seen[name] = seen.get(name, 0) + 1
        name += f"-{seen[name]}" if seen[name] > 1 else ""
        if test["skipped"]:
            yield Case(name, "skip", f"the test says: {test['error']}")
        else:
            yield Case(name, "fail" if test["error"] else "pass", " ".join((test["error"] or "").split())[:200])
