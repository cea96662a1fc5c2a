"""Python: OpenTelemetry, Datadog, Sentry, New Relic, coverage.py, debugpy and py-spy."""

import json
import os
import subprocess
from collections import Counter

import packages
from case import HOST, Case
from collecting import DatadogCase, NewRelicCase, OpenTelemetryCase, SentryCase
from dap import Adapter
from harness.processes import command, tree
from request import Request


class Python(Case):
    source = "python"
    environment = "agents"

    def prepare(self):
        super().prepare()
        self.home = packages.python(self.environment)

    def places(self):
        return {f"{self.root}/venv": self.home}


class OpenTelemetryFlask(OpenTelemetryCase, Python):
    name = "opentelemetry-python-flask"
    heading = "OpenTelemetry for Python"
    routes = "/items/<int:number>", "/fails"


class Customized(Python):
    """The agent is in a `sitecustomize`, where the command puts it that starts programs with the agent."""

    def places(self):
        [folder] = (self.home / "lib").glob("python3.*")
        return super().places() | {"python3.11": folder.name}


class OpenTelemetryInstrument(Customized, OpenTelemetryFlask):
    name = "opentelemetry-instrument"
    heading = "Instead of `opentelemetry-instrument`"


class OpenTelemetryFlaskProcesses(OpenTelemetryFlask):
    name = "opentelemetry-python-processes"
    members = {"processes": 2, "threads": 2}


class OpenTelemetryDjango(OpenTelemetryFlask):
    name = "opentelemetry-python-django"
    members = {"module": "with_opentelemetry_django", "callable": "application"}
    routes = "items/<int:number>", "fails"


class OpenTelemetryFastApi(OpenTelemetryFlask):
    name = "opentelemetry-python-fastapi"
    members = {"module": "with_opentelemetry_fastapi"}
    routes = "/items/{number}", "/fails"


class DatadogPython(DatadogCase, Python):
    name = "datadog-python"
    heading = "Datadog for Python"
    routes = "/items/<int:number>", "/fails"


class DatadogRun(Customized, DatadogPython):
    name = "ddtrace-run"
    heading = "Instead of `ddtrace-run`"


class SentryPython(SentryCase, Python):
    name = "sentry-python"
    heading = "Sentry for Python"
    transaction = "item"


class NewRelicPython(NewRelicCase, Python):
    name = "newrelic-python"
    heading = "New Relic for Python"
    transaction = "WebTransaction/Function/shop:item"


class Coverage(Python):
    """The lines that have run, from what each process writes at its end."""

    name = "coverage.py"
    environment = "tools"
    is_quick = True
    heading = "coverage.py"

    def check(self, server):
        processes = set()
        requests = [Request(self, server, "/busy") for _ in range(2)]
        for number in range(20):
            processes.add(self.get(server, f"/items/{number}").split("process ")[1])
        for request in requests:
            request.result()

    def after_stop(self, server):
        files = list((self.root / "out").glob("coverage.*"))
        program = [self.home / "bin/python", "-m", "coverage"]
        environment = {**os.environ, "COVERAGE_RCFILE": str(self.root / "coveragerc")}
        for words in (["combine", "--quiet"], ["json", "--quiet", "-o", "report.json"]):
            done = subprocess.run([*program, *words], cwd=self.root, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        lines = json.loads((self.root / "report.json").read_text())["files"]["shop.py"]
        assert {10, 11, 23, 24} <= set(lines["executed_lines"]) and {16, 30} <= set(lines["missing_lines"]), lines
        return f"what has run is covered, and what has not is missing ({len(files)} processes)"


class Debugpy(Python):
    """A breakpoint in two requests."""

    name = "debugpy"
    environment = "tools"
    is_quick = True
    heading = "debugpy"

    def build(self, dist):
        file = self.root / "with_debugger.py"
        file.write_text(file.read_text().replace('"127.0.0.1", 5678', f'"{HOST}", {self.place}'))

    def place_of(self, adapter, thread):
        """The function and line where this thread stands."""
        top = adapter.ask("stackTrace", threadId=thread)["stackFrames"][0]
        self.frame = top["id"]
        return top["name"], top["line"]

    def check(self, server):
        adapter = Adapter(HOST, self.place)
        adapter.ask("initialize", adapterID="test", pathFormat="path", linesStartAt1=True)
        attached = adapter.send("attach", justMyCode=True)
        adapter.wait_for("initialized")
        adapter.ask("setBreakpoints", source={"path": str(self.root / "shop.py")}, breakpoints=[{"line": 10}])
        adapter.ask("configurationDone")
        adapter.answer(attached)
        for number in (3, 4):
            request = Request(self, server, f"/items/{number}")
            thread = adapter.wait_for("stopped")["threadId"]
            assert self.place_of(adapter, thread) == ("item", 10)
            adapter.ask("next", threadId=thread)
            adapter.wait_for("stopped")
            assert self.place_of(adapter, thread) == ("item", 11)
            assert adapter.ask("evaluate", expression="doubled", frameId=self.frame)["result"] == str(2 * number)
            adapter.ask("continue", threadId=thread)
            assert request.result().endswith(f", {2 * number}\n")
        return "2 requests of one process, each stopped, stepped through and continued"


class PySpy(Python):
    """Samples of a process that runs, from outside."""

    name = "py-spy"
    environment = "tools"
    heading = "py-spy"

    def check(self, server):
        process = int(self.get(server, "/items/1").split("process ")[1].split(",")[0])
        assert process in tree(server.processes[0].pid), command(process)
        request = Request(self, server, "/busy")
        done = subprocess.run([self.home / "bin/py-spy", "record", "--pid", str(process), "--duration", "1", "--format", "raw", "--output",
                               self.root / "out/stacks"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        request.result()
        samples = Counter()
        for line in (self.root / "out/stacks").read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            samples["busy" in stack] += int(count)
        assert samples[True] > 10, samples
        return f"{samples[True]} samples in the function that was busy"


CASES = [OpenTelemetryFlask, OpenTelemetryInstrument, OpenTelemetryFlaskProcesses, OpenTelemetryDjango, OpenTelemetryFastApi, DatadogPython, DatadogRun, SentryPython,
         NewRelicPython]
CASES += [Coverage, Debugpy, PySpy]
