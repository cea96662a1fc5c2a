"""Rack: Sinatra, Grape and Rails, Debian's packages, used like a person."""

import json
import subprocess
from pathlib import Path

from servers import own
from websocket import WebSocket

from .documented import documented
from .perl import PerlSite


class RubySite(PerlSite):
    source = Path(__file__).parent / "ruby_apps"
    processes = 2

    def tutti(self, address):
        configuration = super().tutti(address)
        application = configuration["applications"]["site"]
        application.update({"type": "ruby", "threads": 2, "preload": True, "processes": self.processes})
        application["environment"].update({"RACK_ENV": "production", "RAILS_ENV": "production"})
        return configuration


class Sinatra(RubySite):
    name = "sinatra"
    script = "sinatra.ru"
    greeting = "Sinatra is up"


class Grape(RubySite):
    name = "grape"
    script = "grape.ru"
    greeting = "Grape is up"

    @staticmethod
    def missing():
        """Debian 13 has no Grape."""
        is_there = subprocess.run(["ruby", "-e", "gem 'grape'"], capture_output=True).returncode == 0
        return None if is_there else "this system has no Grape"


class Rails(RubySite):
    """By the configuration of docs/start/sites.md; also forms with a token, a database, and Action Cable, whose rooms are in the memory of one process."""

    name = "rails"
    script = "rails.ru"
    greeting = "Rails is up"

    def prepare(self):
        super().prepare()
        (self.root / "public/assets").mkdir(parents=True)
        (self.root / "public/robots.txt").write_text("User-agent: *\n")
        (self.root / "public/assets/app.css").write_text("body {}\n")
        own(self.root)

    def tutti(self, address):
        names = {"/srv/rails": self.root, "config.ru": self.script}
        configuration = documented("Rails, and other front controllers in Ruby", address, names)
        application = configuration["applications"]["rails"]
        application["processes"] = 1
        application["environment"].update(self.environment)
        configuration["settings"] = {"http": {"max_body_size": 32 << 20}}
        return configuration

    def journey(self, person, root):
        super().journey(person, root)
        assert person.get("/robots.txt").text == "User-agent: *\n"
        assert "immutable" in person.get("/assets/app.css").header("Cache-Control")
        person.get("/assets/none.css", status=404)
        page = person.get("/")
        person.submit(page, page.form(id_="note"), {"text": "a <note>, ümlaut"}).expect("a &lt;note&gt;, ümlaut")
        person.post("/notes", {"text": "without a token"}, status=422)
        ada = Cable(person, "ada", "tea")
        bob = Cable(person, "bob", "tea")
        eve = Cable(person, "eve", "coffee")
        bob.speak("Grüße, ada ☕")
        assert ada.hear() == bob.hear() == {"from": "bob", "text": "Grüße, ada ☕", "number": 2}
        long = "x" * 50_000
        ada.speak(long)
        assert ada.hear()["text"] == bob.hear()["text"] == long
        eve.speak("alone")
        assert eve.hear()["text"] == "alone"
        person.get("/").expect("Grüße, ada ☕")
        assert bob.socket.leave() is not None
        ada.speak("who is there")
        assert ada.hear()["from"] == "ada"
        crowd = [Cable(person, f"n{number}", "hall") for number in range(20)]
        crowd[0].speak("hello all")
        for member in crowd:
            assert member.hear()["text"] == "hello all"
        nobody = WebSocket(person.host, person.port, "/cable", subprotocol="actioncable-v1-json")
        assert json.loads(nobody.hear())["reason"] == "unauthorized"
        return "/"


class Cable:
    """A person in a room, by Action Cable's protocol."""

    def __init__(self, person, name, room):
        self.socket = WebSocket(person.host, person.port, f"/cable?name={name}", subprotocol="actioncable-v1-json, actioncable-unsupported")
        assert self.socket.headers["sec-websocket-protocol"] == "actioncable-v1-json", self.socket.headers
        assert self.message() == {"type": "welcome"}
        self.room = json.dumps({"channel": "RoomChannel", "room": room})
        self.command("subscribe")
        assert self.message()["type"] == "confirm_subscription"

    def command(self, command, **members):
        self.socket.say(json.dumps({"command": command, "identifier": self.room, **members}))

    def message(self):
        while True:
            message = json.loads(self.socket.hear())
            if message.get("type") != "ping":
                return message

    def speak(self, text):
        # The helper's frames have lengths of up to 65535 bytes.
        self.command("message", data=json.dumps({"action": "speak", "text": text}))

    def hear(self):
        return self.message()["message"]
