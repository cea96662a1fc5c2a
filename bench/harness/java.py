"""Servlets: Tutti beside Debian's Tomcat 10 and plain Jetty, the one that Tutti has inside (P36)."""

import subprocess
from pathlib import Path

from .cases import Case, no_errors, ratio, tail
from .loads import Wrk
from .servers import Server, Tutti

HEAP = "-Xmx256m"
TOMCAT = Path("/usr/share/tomcat10")
API = "/usr/share/java/tomcat10-servlet-api.jar"


class Servlet:
    """One process with so many threads that none waits for another."""

    threads = 64

    def compile(self, source, folder, class_path):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["javac", "--release", "17", "-cp", class_path, "-d", folder, self.site / "java" / source], check=True)

    def webapp(self, folder):
        self.compile("Hello.java", folder / "WEB-INF/classes", API)
        return folder


class Tomcat(Servlet, Server):
    label = "tomcat 10"

    def arguments(self):
        base = self.folder / "base"
        self.webapp(base / "webapps/ROOT")
        (base / "conf").mkdir()
        (base / "conf/web.xml").write_text('<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="6.0"/>')
        (base / "conf/server.xml").write_text(
            f'<Server port="-1"><Service name="Catalina"><Connector address="{self.place.host}" port="{self.port}" acceptCount="4096" maxKeepAliveRequests="-1"'
            f' maxThreads="{self.threads}"/><Engine name="Catalina" defaultHost="localhost"><Host name="localhost" appBase="webapps"/></Engine></Service></Server>')
        for name in ("logs", "temp", "work"):
            (base / name).mkdir()
        class_path = ":".join(str(TOMCAT / "bin" / name) for name in ("bootstrap.jar", "tomcat-juli.jar"))
        return ["java", HEAP, f"-Dcatalina.home={TOMCAT}", f"-Dcatalina.base={base}", f"-Djava.io.tmpdir={base / 'temp'}", "-cp", class_path,
                "org.apache.catalina.startup.Bootstrap", "start"]

    def answers(self):
        # It listens before the application is there.
        return super().answers() and self.get("/hello")[0] == 200


class Jetty(Servlet, Server):
    label = "jetty"

    def arguments(self):
        jars = f"{Tutti.dist}/modules/java/core/*:{Tutti.dist}/modules/java/ee10/*"
        self.compile("Plain.java", self.folder / "plain", jars)
        return ["java", HEAP, "-cp", f"{jars}:{self.folder / 'plain'}", "Plain", self.place.host, str(self.port), str(self.webapp(self.folder / "webapp"))]


class TuttiJava(Servlet, Tutti):
    label = "tutti"
    host = "tutti-java"
    options = ()

    def configuration(self):
        return self.serving("java", {"type": "java", "webapp": str(self.webapp(self.folder / "webapp")), "threads": self.threads, "options": [HEAP, *self.options]})


def cases(context):
    load, path = Wrk(1, 64, context.seconds), "/hello"

    def verdict(table):
        checks = [ratio(table, "rps", load.name, path, at_least=1.0, peer=peer.label) for peer in (Tomcat, Jetty)]
        return [*checks, tail(table, load.name, path)[0], no_errors(table)]

    return [Case("P36", "servlet hello, one process, 64 threads", "≥ 1.0 × Tomcat 10 and plain Jetty",
                 [(server, 1, None) for server in (Tomcat, Jetty, TuttiJava)], [(load, path)], verdict)]
