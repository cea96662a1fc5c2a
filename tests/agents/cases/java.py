"""Java: OpenTelemetry, Datadog, Sentry, New Relic, JaCoCo, the debugger of the JDK and async-profiler."""

import os
import re
import shutil
import subprocess
import zipfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import packages
from case import HOST, Case
from collecting import DatadogCase, NewRelicCase, OpenTelemetryCase, SentryCase
from request import Request
from servers import own

AGENTS = {
    "opentelemetry-javaagent.jar": "io.opentelemetry.javaagent:opentelemetry-javaagent:2.33.1",
    "dd-java-agent.jar": "com.datadoghq:dd-java-agent:1.68.1",
    "newrelic-agent.jar": "com.newrelic.agent.java:newrelic-agent:8.19.0",
    "sentry.jar": "io.sentry:sentry:8.63.0",
    "jacocoagent.jar": "org.jacoco:org.jacoco.agent:0.8.15:jar:runtime",
    "jacococli.jar": "org.jacoco:org.jacoco.cli:0.8.15:jar:nodeps",
    "async-profiler.jar": "tools.profiler:async-profiler:4.6",
}


def artifact(name):
    [file] = packages.java(AGENTS[name]).glob("*.jar")
    return file


class Java(Case):
    """A servlet; `tool` is the agent's file, beside which the application is."""

    source = "java"
    tool = None
    sources = ["Shop.java"]

    def prepare(self):
        super().prepare()
        if self.tool:
            shutil.copy(artifact(self.tool), self.root / self.tool)

    def build(self, dist):
        """Compiles the servlet against the API of the host."""
        classes = self.root / "WEB-INF/classes"
        classes.mkdir(parents=True)
        [api] = (Path(dist) / "modules/java").glob("ee10/*servlet-api*.jar")
        path = [api, *(self.root / "WEB-INF").glob("lib/*.jar")]
        subprocess.run(["javac", "-g", "-cp", ":".join(map(str, path)), "-d", classes, *(self.root / name for name in self.sources)], check=True)
        own(self.root)


class OpenTelemetryJava(OpenTelemetryCase, Java):
    name = "opentelemetry-java"
    heading = "OpenTelemetry for Java"
    tool = "opentelemetry-javaagent.jar"
    routes = "/items/*", "/fails"


class DatadogJava(DatadogCase, Java):
    name = "datadog-java"
    heading = "Datadog for Java"
    tool = "dd-java-agent.jar"
    # It has none for a servlet without a framework.
    routes = None, None


class SentryJava(SentryCase, Java):
    """The library alone: the registry of the tests does not have the parts of it for servlets and for Spring."""

    name = "sentry-java"
    heading = "Sentry for Java"
    sources = ["Shop.java", "SentryFilter.java"]
    transaction = "GET /items"

    def prepare(self):
        super().prepare()
        libraries = self.root / "WEB-INF/lib"
        libraries.mkdir(parents=True)
        shutil.copy(artifact("sentry.jar"), libraries)


class NewRelicJava(NewRelicCase, Java):
    name = "newrelic-java"
    heading = "New Relic for Java"
    tool = "newrelic-agent.jar"
    transaction = "WebTransaction/Servlet/Shop"


class JaCoCo(Java):
    """The lines that have run, from what the virtual machine writes at its end."""

    name = "jacoco"
    heading = "JaCoCo"
    tool = "jacocoagent.jar"

    def check(self, server):
        self.get(server, "/items/4")

    def after_stop(self, server):
        report = self.root / "report.xml"
        subprocess.run(["java", "-jar", artifact("jacococli.jar"), "report", self.root / "out/jacoco.exec", "--classfiles",
                        self.root / "WEB-INF/classes", "--xml", report], check=True, stdout=subprocess.DEVNULL)
        text = re.sub(r"<!DOCTYPE[^>]*>", "", report.read_text())
        lines = {int(line.get("nr")): int(line.get("ci")) for line in ElementTree.fromstring(text).iter("line")}
        assert all(lines[line] for line in (15, 16, 20, 21)) and not lines[25] and not lines[13], lines
        return "lines 15 to 21 have run, and lines 13 and 25 have not"


class Jdb(Java):
    """A breakpoint in two requests."""

    name = "jdb"
    heading = "JDWP"
    port = 5005
    listens = True

    def check(self, server):
        self.get(server, "/items/1")
        with subprocess.Popen(["jdb", "-attach", f"{HOST}:{self.place}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, bufsize=0) as jdb:
            def until(mark):
                heard = ""
                while mark not in heard:
                    more = jdb.stdout.read(1)
                    assert more, heard
                    heard += more
                return heard

            def order(text, mark):
                jdb.stdin.write(f"{text}\n")
                return until(mark)

            order("stop at Shop:21", "breakpoint Shop:21")
            for number in (3, 4):
                request = Request(self, server, f"/items/{number}")
                until("Shop.twice(), line=21")
                order("print doubled", f"doubled = {2 * number}")
                order("step up", "Shop.doGet(), line=16")
                jdb.stdin.write("cont\n")
                assert request.result() == f"item {number}, {2 * number}\n"
            jdb.stdin.write("quit\n")
        return "2 requests of one process, each stopped, stepped through and continued"


class AsyncProfiler(Java):
    """Samples of the stacks of requests, by the library in the artifact."""

    name = "async-profiler"
    heading = "async-profiler"

    def prepare(self):
        super().prepare()
        with zipfile.ZipFile(artifact("async-profiler.jar")) as archive:
            machine = "arm64" if os.uname().machine == "aarch64" else "x64"
            [library] = [name for name in archive.namelist() if name.endswith(".so") and f"linux-{machine}/" in name]
            (self.root / "libasyncProfiler.so").write_bytes(archive.read(library))

    def check(self, server):
        for number in range(50):
            self.get(server, f"/items/{number}")

    def after_stop(self, server):
        stacks = (self.root / "out/stacks").read_text()
        assert "Shop.doGet" in stacks or "HttpServlet.service" in stacks, stacks[:2000]
        return f"{len(stacks.splitlines())} stacks, among them the servlet's"


CASES = [OpenTelemetryJava, DatadogJava, SentryJava, NewRelicJava, JaCoCo, Jdb, AsyncProfiler]
