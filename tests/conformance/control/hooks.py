"""Tells schemathesis what it is to know about the control API beside its description."""

import json
import os
import random
import re
import urllib.request
from pathlib import Path

import schemathesis

BASE = json.loads(Path(__file__).with_name("base.json").read_text())
# Names and numbers that the configuration has, by what stands before them.
KNOWN = {
    "listeners": ["unix:@tutti-schema"], "routes": ["main", "second"], "upstreams": ["group"], "servers": ["127.0.0.1:9", "127.0.0.1:10"],
    "applications": ["none"], "mime_types": ["text/x"], "format": ["uri", "status"], "request_headers": ["X-A", "X-B"],
    "response_headers": ["X-C", "X-D"], "arguments": ["a"], "cookies": ["c"], "headers": ["accept"], "history": ["1", "2"],
}
# So often everything is put back: deletions leave little to ask for.
INTERVAL = 5
chance = random.Random(1)
calls = 0


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Most requests are for something that is there."""
    if not path_parameters or chance.random() < 0.2:
        return path_parameters
    found = dict(path_parameters)
    for before, name in re.findall(r"([^/]+)/\{([^}]+)\}", context.operation.path):
        known = ["0", "1"] if name.startswith("index") else KNOWN.get(before)
        if known and name in found:
            found[name] = chance.choice(known)
    return found


@schemathesis.hook
def before_call(context, case, kwargs):
    global calls
    if calls % INTERVAL == 0:
        base = dict(BASE)
        if case.path.startswith("/config/routes/{index"):
            # The other form of the same.
            base["routes"] = base["routes"]["main"]
            base["listeners"] = {name: {**one, "pass": "routes"} for name, one in base["listeners"].items()}
        data = json.dumps(base).encode()
        request = urllib.request.Request(f"{os.environ['TUTTI_CONTROL']}/config", data=data, method="PUT",
                                         headers={"Authorization": f"Bearer {os.environ['TUTTI_TOKEN']}"})
        json.load(urllib.request.urlopen(request, timeout=60))
    calls += 1


@schemathesis.serializer("application/x-pem-file")
def pem(context, value):
    """A text, whatever it is."""
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.check
def faults_are_told(ctx, response, case):
    """Only what cannot be applied on this machine is a 500, and it names the places, each of which is in the request."""
    with open("answers", "a") as answers:
        print(case.operation.method.upper(), response.status_code, file=answers)
    if response.status_code >= 400:
        told = response.json()
        assert isinstance(told["error"], str), told
    if response.status_code >= 500:
        assert response.status_code == 500, response.status_code
        assert told["error"] == "Failed to apply new configuration.", told
        assert told["errors"] and all(fault["message"] for fault in told["errors"]), told
