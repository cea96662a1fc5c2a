"""The status of the server as metrics, read from its own listener."""

import json
import urllib.request


def application(environ, start_response):
    with urllib.request.urlopen("http://localhost:8181/status", timeout=10) as answer:
        status = json.load(answer)
    start_response("200 OK", [("Content-Type", "text/plain")])
    lines = [f"unit_connections_accepted_total {status['connections']['accepted']}"]
    lines += [f"unit_application_{name}_processes_running {app['processes']['running']}" for name, app in status["applications"].items()]
    return ["\n".join(lines).encode()]
