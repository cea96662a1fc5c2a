"""A framework's front controller (Slim, Debian's package): every address that is no file goes to one script."""

import json
import shutil
from pathlib import Path

from servers import own

SOURCE = Path("/usr/share/php/Slim/autoload.php")


class Slim:
    name = "slim"

    def __init__(self, folder):
        self.root = folder / "slim/public"
        self.sessions = folder / "slim/sessions"
        self.environment = {"APP_MODE": "test", "SESSION_FOLDER": str(self.sessions)}

    def prepare(self):
        shutil.copytree(Path(__file__).parent / "slim_app", self.root)
        self.sessions.mkdir()
        own(self.root, self.sessions)

    def after_start(self, server):
        pass

    def stop(self):
        pass

    def tutti(self, address):
        return {
            "listeners": {address: {"pass": "routes"}},
            "routes": [{"match": {"uri": "!/index.php"},
                        "action": {"share": f"{self.root}$uri", "fallback": {"pass": "applications/app"}}},
                       {"action": {"pass": "applications/app"}}],
            "applications": {"app": {"type": "php", "root": str(self.root), "script": "index.php", "environment": self.environment,
                                     "processes": {"max": 4, "spare": 1}}},
        }

    def nginx(self, php):
        return f"""
            location / {{ try_files $uri /index.php$is_args$args; }}
            location = /index.php {{ {php} }}"""

    def journey(self, person, root):
        home = person.get("/").expect("Slim is up in test")
        assert home.header("Content-Type") == "text/html; charset=UTF-8", home.header("Content-Type")
        person.get("/robots.txt").expect("User-agent")
        person.get("/hello/J%C3%BCrgen%20B?greeting=Servus").expect("Servus, Jürgen B")
        person.get("/hello/a/b", status=404).expect("Page Not Found")
        person.get("/notes").expect("[]")

        note = json.dumps({"text": "tune the ümlauts"}).encode()
        made = person.post("/notes", note, status=201, headers={"Content-Type": "application/json"})
        assert json.loads(made.text)["text"] == "tune the ümlauts", made.text
        assert made.header("Location") == "/notes/0", made.header("Location")
        person.get("/notes/0").expect("tune the")
        changed = person.request("PUT", "/notes/0", b'{"text": "done"}', {"Content-Type": "application/json"})
        assert json.loads(changed.text)["text"] == "done", changed.text
        person.request("DELETE", "/notes/0", status=204)
        person.get("/notes/0", status=404)
        refused = person.request("PATCH", "/notes", b"{}", {"Content-Type": "application/json"}, status=405)
        assert set(refused.header("Allow").replace(" ", "").split(",")) == {"GET", "POST"}, refused.header("Allow")

        body = b"x" * 3_000_000
        answer = person.post("/length", body, headers={"Content-Type": "application/octet-stream"})
        assert json.loads(answer.text) == {"bytes": len(body), "type": "application/octet-stream"}, answer.text
        server = json.loads(person.get("/server?a=1&b%5B%5D=2").text)
        assert server["REQUEST_URI"] == "/server?a=1&b%5B%5D=2" and server["QUERY_STRING"] == "a=1&b%5B%5D=2", server
        assert server["SCRIPT_NAME"] == "/index.php" and server["DOCUMENT_ROOT"] == str(root), server
        assert server["SERVER_PROTOCOL"] == "HTTP/1.1" and server["REMOTE_ADDR"] == "127.0.0.1", server
        person.get("/fails", status=500).expect("Slim Application Error")
        person.get("/").expect("Slim is up in test")
        return "/"
