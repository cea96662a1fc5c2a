"""Notes where it was imported, and what happened at the fork."""

import json
import os
import random

imported = os.getpid()
hooks = []
os.register_at_fork(before=lambda: hooks.append("before"), after_in_child=lambda: hooks.append("child"),
                    after_in_parent=lambda: hooks.clear())


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"imported": imported, "pid": os.getpid(), "hooks": hooks, "random": random.random()}).encode()]
