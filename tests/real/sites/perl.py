"""PSGI: a page by Text::Xslate and the three frameworks, all Debian's packages, each used like a person."""

import json
import shutil
from pathlib import Path

from servers import own


class PerlSite:
    """One script of its folder. PHP's peer cannot serve it, so it is Tutti's alone."""

    source = Path(__file__).parent / "perl_apps"
    script = None
    greeting = None
    only_tutti = True

    def __init__(self, folder):
        self.root = folder / self.source.name
        self.environment = {}

    def prepare(self):
        shutil.copytree(self.source, self.root)
        self.environment = {"SITE": str(self.root), "XSLATE_CACHE": str(self.root / "cache"), "MOJO_HOME": str(self.root)}
        own(self.root)

    def after_start(self, server):
        pass

    def stop(self):
        pass

    def tutti(self, address):
        application = {"type": "perl", "script": str(self.root / self.script), "processes": 2, "environment": self.environment}
        return {"settings": {"http": {"max_body_size": 32 << 20}}, "listeners": {address: {"pass": "applications/site"}},
                "applications": {"site": application}}

    def journey(self, person, root):
        page = person.get("/").expect(self.greeting, "ümlaut")
        assert page.header("Content-Type").lower().replace(" ", "") == "text/html;charset=utf-8", page.header("Content-Type")
        person.get("/hello/J%C3%BCrgen?from=M%C3%BCnchen").expect("Servus, Jürgen (München)")
        for visit in range(1, 4):
            self.count(person, visit)
        person.post("/form", {"word": "tune"}).expect("you said tune")
        picture = bytes(range(256)) * 5000
        answer = person.post("/upload", {}, {"file": ("picture.png", "image/png", picture)})
        answer.expect(f"{len(picture)} bytes of picture.png as image/png")
        answer = person.request("PUT", "/json", '{"text": "ümlaut"}'.encode(), {"Content-Type": "application/json"})
        assert json.loads(answer.text) == {"text": "ümlaut", "seen": 1}, answer.text
        answer = person.get("/stream")
        assert answer.text == "piece 1\npiece 2\npiece 3\n", answer.text
        answer = person.get("/file")
        assert answer.body == (self.source / self.script).read_bytes(), answer.body[:200]
        person.get("/fails", status=500)
        person.get("/nowhere", status=404)
        person.get("/").expect(self.greeting)
        return "/"

    def count(self, person, visit):
        person.get("/count").expect(f"visit {visit}")


class Xslate(PerlSite):
    name = "xslate"
    script = "xslate.psgi"

    def journey(self, person, root):
        page = person.get("/a%20page?x").expect("People &amp; places – ümlaut", "You asked for /a page.",
                                                '<a href="mailto:person20@example.org">Person &lt;20&gt;</a> number 20')
        assert page.header("Content-Type") == "text/html; charset=utf-8", page.header("Content-Type")
        assert page.header("Content-Length") == str(len(page.body)), page.header("Content-Length")
        return "/"


class Dancer2(PerlSite):
    name = "dancer2"
    script = "dancer2.psgi"
    greeting = "Dancer2 is up"


    def tutti(self, address):
        # Its `Simple` session lives in the process.
        configuration = super().tutti(address)
        configuration["applications"]["site"]["processes"] = 1
        return configuration


class Mojolicious(PerlSite):
    name = "mojolicious"
    script = "mojolicious.psgi"
    greeting = "Mojolicious is up"


class Catalyst(PerlSite):
    name = "catalyst"
    script = "catalyst.psgi"
    greeting = "Catalyst is up"
