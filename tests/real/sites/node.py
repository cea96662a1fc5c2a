"""Node.js: NestJS, Next.js and Nuxt, from npm, each by the command that starts it in production."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from .python_site import is_open_to_all

SOURCE = Path(__file__).parent / "node_apps"
ROOT = SOURCE.parent.parent.parent.parent


def built(name):
    """The folder in which npm has installed and built an application; made on first use, and again when its source changes."""
    source = SOURCE / name
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "node-sites" / name
    files = sorted(path for path in source.rglob("*") if path.is_file())
    wanted = "\0".join(f"{path.relative_to(source)}\0{path.read_text()}" for path in files)
    mark = folder / "built"
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        environment = {**os.environ, "OUTPUT": "standalone", "NEXT_TELEMETRY_DISABLED": "1", "NUXT_TELEMETRY_DISABLED": "1"}
        for words in (["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"], ["run", "build"]):
            done = subprocess.run(["npm", *words], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            assert done.returncode == 0, f"npm {words[0]} for {name}:\n{done.stdout}"
        mark.write_text(wanted)
    return folder


class NodeSite:
    """PHP's peer cannot serve it, so it is Tutti's alone. The notes are in the memory of one process."""

    only_tutti = True
    source = None
    script = None
    arguments = ()
    notes = "/api/notes"

    def __init__(self, folder):
        self.root = folder

    def prepare(self):
        self.folder = built(self.source)

    def after_start(self, server):
        pass

    def stop(self):
        pass

    def tutti(self, address):
        application = {"type": "node", "working_directory": str(self.folder), "script": self.script, "arguments": list(self.arguments),
                       "processes": 1, "environment": {"NODE_ENV": "production", "NEXT_TELEMETRY_DISABLED": "1"}}
        if os.geteuid() == 0 and not is_open_to_all(self.folder):
            # The folder of the sources is root's own.
            application |= {"user": "root", "group": "root"}
        return {"settings": {"http": {"max_body_size": 32 << 20}}, "listeners": {address: {"pass": "applications/site"}},
                "applications": {"site": application}}

    def add_notes(self, person):
        for number, text in enumerate(("ümlaut", "x" * 90_000), 1):
            body = json.dumps({"text": text}).encode()
            answer = person.request("POST", self.notes, body, {"Content-Type": "application/json"}, status=201)
            assert json.loads(answer.text) == {"count": number, "length": len(text)}, answer.text
            assert answer.header("Set-Cookie").startswith("seen=1"), answer.headers


class Nest(NodeSite):
    name = "nestjs"
    source = "nest"
    script = "dist/main"
    notes = "/notes"

    def journey(self, person, root):
        person.get("/").expect("NestJS is up, ümlaut")
        item = json.loads(person.get("/items/7?a=b%20c").text)
        assert item == {"id": "7", "query": {"a": "b c"}, "ip": "127.0.0.1", "protocol": "http"}, item
        self.add_notes(person)
        assert json.loads(person.get("/items/none", status=404).text)["message"] == "no item none"
        assert json.loads(person.get("/old").text)["id"] == "1"
        person.get("/fails", status=500).expect("Internal server error")
        events = re.findall(r"^data: (.*)$", person.get("/events").text, re.M)
        assert [json.loads(event)["number"] for event in events] == [0, 1, 2], events
        person.get("/").expect("NestJS is up")
        return "/"


class Next(NodeSite):
    """`next start`."""

    name = "next"
    source = "next"
    script = "node_modules/next/dist/bin/next"
    arguments = ("start",)
    # It takes a minute to build.
    is_long = True

    def journey(self, person, root):
        page = person.get("/").expect("Next.js is up, ümlaut", "later, by a stream", "clicked 0", f"host {person.host}:{person.port}")
        scripts = set(re.findall(r'"(/_next/static/[^"]+\.js)"', page.text))
        assert scripts, page.text
        for script in scripts:
            answer = person.get(script)
            assert "immutable" in answer.header("Cache-Control"), answer.headers
        person.get("/items/7?a=b%20c").expect("item 7 and {&quot;a&quot;:&quot;b c&quot;}")
        person.get("/items/none", status=404)
        person.get("/nowhere", status=404)
        self.add_notes(person)
        listed = person.get("/api/notes").text
        assert listed == "ümlaut\n" + "x" * 20 + "\n", listed
        person.get("/").expect("Next.js is up")
        return "/"


class NextStandalone(Next):
    """The server that the build has made, with the files beside it, as Next.js's documents have it."""

    name = "next-standalone"
    script = "server.js"
    arguments = ()

    def prepare(self):
        super().prepare()
        standalone = self.folder / ".next/standalone"
        shutil.copytree(self.folder / ".next/static", standalone / ".next/static", dirs_exist_ok=True)
        self.folder = standalone


class Nuxt(NodeSite):
    name = "nuxt"
    source = "nuxt"
    script = ".output/server/index.mjs"
    is_long = True

    def journey(self, person, root):
        page = person.get("/").expect("Nuxt is up, ümlaut", "0 notes")
        files = set(re.findall(r'"(/_nuxt/[^"]+\.js)"', page.text))
        assert files, page.text
        for file in files:
            answer = person.get(file)
            assert "immutable" in answer.header("Cache-Control"), answer.headers
        person.get("/items/7?a=b%20c").expect("item 7 and {&quot;a&quot;:&quot;b c&quot;}")
        person.get("/items/none", status=404).expect("no such item")
        self.add_notes(person)
        person.get("/").expect("2 notes")
        return "/"
