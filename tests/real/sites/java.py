"""Java: a Spring Boot application as a web application and as a program of its own, and Tomcat's examples, Debian's package."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from browser import png
from servers import own
from websocket import WebSocket

SOURCE = Path(__file__).parent / "java_apps"
ROOT = SOURCE.parent.parent.parent.parent
EXAMPLES = Path("/usr/share/tomcat10-examples/examples")


# Half the time of a start is the compiler's, whose code rarely runs here.
OPTIONS = ["-Xmx256m", "-XX:TieredStopAtLevel=1"]


def guide(after, language):
    """The first block of this language behind this text in the guide."""
    text = (ROOT / "docs/languages/java.md").read_text().split(after, 1)[1]
    return text.split(f"```{language}\n", 1)[1].split("```", 1)[0]


def built():
    """The folder that Maven has built the Spring application in; built on first use, and again when its source changes."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "java-sites"
    files = sorted(path for path in SOURCE.rglob("*") if path.is_file())
    wanted = "\0".join(f"{path.relative_to(SOURCE)}\0{path.read_text()}" for path in files)
    mark = folder / "built"
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(SOURCE, folder)
        subprocess.run(["mvn", "--quiet", "--batch-mode", "package"], cwd=folder, check=True)
        mark.write_text(wanted)
    return folder


class JavaSite:
    """PHP's peer cannot serve it, so it is Tutti's alone."""

    only_tutti = True

    def __init__(self, folder):
        self.root = folder / "site"
        self.environment = {}

    def prepare(self):
        self.root.mkdir()

    def after_start(self, server):
        pass

    def stop(self):
        pass

    def application(self):
        return {"type": "java", "webapp": str(self.root), "threads": 8, "options": OPTIONS}

    def tutti(self, address):
        return {"settings": {"http": {"max_body_size": 32 << 20}}, "listeners": {address: {"pass": "applications/site"}},
                "applications": {"site": self.application()}}


class SpringWar(JavaSite):
    """People log in, write notes with pictures, and talk in a room."""

    name = "spring-war"
    file = "war/target/war-0.war"

    def prepare(self):
        super().prepare()
        self.packed = self.root / Path(self.file).name
        shutil.copy(built() / self.file, self.packed)
        own(self.root)

    def application(self):
        return {**super().application(), "webapp": str(self.packed)}

    def journey(self, person, root):
        person.get("/").expect("Spring is up").expect_not("You are")
        page = person.get("/new").expect("Please sign in")
        person.submit(page, page.form(field="password"), {"username": "ada", "password": "wrong"}).expect("Invalid credentials")
        page = person.get("/login")
        page = person.submit(page, page.form(field="password"), {"username": "ada", "password": "secret words"})
        # After the login, the visitor reaches the page that was asked for.
        assert page.url.partition("?")[0].endswith("/new"), page.url
        none = {"picture": ("", "application/octet-stream", b"")}
        person.submit(page, page.form(id_="note"), {"text": " "}, files=none).expect("A note has a text.")
        picture = png(900, 700)
        files = {"picture": ("a.png", "image/png", picture)}
        for number in (1, 2):
            page = person.get("/new")
            page = person.submit(page, page.form(id_="note"), {"text": f"<{number}> ümlaut ☕"}, files=files)
            page.expect(f"&lt;{number}&gt; ümlaut ☕", f'src="/picture/{number}"', "<b>ada</b>")
        answer = person.get("/picture/2")
        assert answer.body == picture and answer.header("Content-Type") == "image/png", answer.headers
        person.get("/picture/3", status=404)
        person.post("/new", {"text": "without a token"}, status=403)
        person.get("/slow").expect("answered by another thread")
        members = [WebSocket(person.host, person.port, "/room") for _ in range(20)]
        assert [member.hear() for member in members] == ["welcome"] * 20
        for text in ("Grüße ☕", "x" * 8000):
            members[0].say(text)
            assert [member.hear() for member in members] == [text] * 20
        assert members.pop().leave()[0] == 1000
        members[0].say("who is there")
        assert [member.hear() for member in members] == ["who is there"] * 19
        page = person.get("/")
        person.submit(page, page.form(id_="logout"))
        person.get("/").expect_not("You are")
        return "/"


class SpringJar(SpringWar):
    """The same as a program with a server of its own, as the guide has it."""

    name = "spring-jar"
    file = "app/target/app-0-boot.jar"

    def application(self):
        application = json.loads(guide("A **Spring Boot jar**", "json"))
        application["environment"] = {"JAVA_TOOL_OPTIONS": " ".join(OPTIONS)}
        application["arguments"] = [str(self.packed) if word.endswith(".jar") else word for word in application["arguments"]]
        return application


class TomcatExamples(JavaSite):
    """Servlets, JSP with Java's standard tags, asynchronous servlets, and WebSockets that are made for Tomcat."""

    name = "tomcat-examples"

    def prepare(self):
        shutil.copytree(EXAMPLES, self.root)
        (self.root / "WEB-INF/jetty-web.xml").write_text(guide("Login", "xml"))
        descriptor = self.root / "WEB-INF/web.xml"
        text = descriptor.read_text()
        # Tomcat's own filters: a log of requests, and fields of answers.
        for name in re.findall(r"<filter-name>([^<]*)</filter-name>\s*<filter-class>org\.apache\.catalina\.", text):
            text = re.sub(rf"<(filter|filter-mapping)>\s*<filter-name>{re.escape(name)}</filter-name>.*?</\1>", "", text, flags=re.S)
        descriptor.write_text(text)
        # The page behind the login shows what Tomcat's own class knows of a person.
        (self.root / "jsp/security/protected/index.jsp").write_text("You are <%= request.getRemoteUser() %>, <%= request.isUserInRole(\"tomcat\") %>.")
        own(self.root)

    def journey(self, person, root):
        person.get("/").expect("Apache Tomcat Examples")
        person.get("/jsp/jsp2/el/basic-arithmetic.jsp").expect("<td>${10 mod 4}")
        person.get("/jsp/jsp2/simpletag/hello.jsp").expect("Hello, world!")
        person.get("/jsp/dates/date.jsp").expect("Day of month")
        page = person.get("/jsp/num/numguess.jsp")
        person.submit(page, page.form(field="guess"), {"guess": "0"}).expect("Try <b>higher</b>")
        person.get("/servlets/servlet/RequestInfoExample").expect("/servlets/servlet/RequestInfoExample", "127.0.0.1")
        page = person.get("/servlets/servlet/SessionExample")
        person.submit(page, page.form(field="dataname"), {"dataname": "tea", "datavalue": "green"}).expect("tea = green")
        person.get("/servlets/servlet/SessionExample").expect("tea = green")
        person.get("/async/async0").expect("Async dispatch worked")
        assert "[3000000]" in person.post("/servlets/nonblocking/bytecounter", b"x" * 3_000_000).text
        page = person.get("/jsp/security/protected/index.jsp")
        person.submit(page, page.form(field="j_username"), {"j_username": "ada", "j_password": "secret words"}).expect("You are ada, true.")
        for path in ("echoAnnotation", "echoProgrammatic", "echoStreamAnnotation"):
            echo = WebSocket(person.host, person.port, f"/websocket/{path}")
            echo.say("Grüße ☕")
            assert echo.hear() == "Grüße ☕", path
            assert echo.leave()[0] == 1000
        guests = [WebSocket(person.host, person.port, "/websocket/chat") for _ in range(3)]
        for number, guest in enumerate(guests):
            while guest.hear() != f"* Guest{number} has joined.":
                pass
        guests[0].say("hello <all>")
        for guest in guests:
            while guest.hear() != "Guest0: hello &lt;all&gt;":
                pass
        snake = WebSocket(person.host, person.port, "/websocket/snake")
        assert json.loads(snake.hear())["type"] == "join"
        assert json.loads(snake.hear())["type"] == "update"
        return "/"
