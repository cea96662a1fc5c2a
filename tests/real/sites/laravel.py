"""Laravel, Debian's package, with the front controller and the providers of its skeleton: as the guide has it, and resident."""

import base64
import json
import secrets
import shutil
import sqlite3
import subprocess
from pathlib import Path

from browser import Browser, png
from servers import own

from .documented import documented
from .resident import ADAPTER, resident

TABLES = """
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, password TEXT, remember_token TEXT);
CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT, author TEXT, picture TEXT, created_at TEXT, updated_at TEXT);
"""
OPCACHE = {"opcache.enable": "1", "opcache.memory_consumption": "128"}
# Requests that a walk has at least.
LEAST = 60


class Laravel:
    """The configuration of docs/start/sites.md: a process forgets each request."""

    name = "laravel"
    # The views, the sessions and the database of one walk are there for the next.
    turns = 2

    def __init__(self, folder):
        self.root = folder / "laravel/public"
        self.environment = {"APP_ENV": "production", "APP_DEBUG": "false"}

    def prepare(self):
        base = self.root.parent
        shutil.copytree(Path(__file__).parent / "laravel_app", base)
        for name in ("app/pictures", "framework/views", "framework/sessions", "framework/cache/data", "logs"):
            (base / "storage" / name).mkdir(parents=True)
        for name in ("bootstrap/cache", "database"):
            (base / name).mkdir()
        key = base64.b64encode(secrets.token_bytes(32)).decode()
        (base / ".env").write_text(f'APP_NAME="Tutti notes"\nAPP_KEY=base64:{key}\n')
        hashed = subprocess.run(["php", "-r", "echo password_hash('sesame', PASSWORD_BCRYPT, ['cost' => 4]);"], capture_output=True, text=True, check=True)
        with sqlite3.connect(base / "database/site.sqlite") as database:
            database.executescript(TABLES)
            for name in ("ada", "bob"):
                database.execute("INSERT INTO users (name, email, password) VALUES (?, ?, ?)", (name, f"{name}@example.org", hashed.stdout))
        database.close()
        own(base)

    def after_start(self, server):
        pass

    def stop(self):
        pass

    def tutti(self, address):
        configuration = documented("Laravel, Symfony, CodeIgniter", address, {"/srv/laravel/public": self.root})
        configuration["applications"]["laravel"]["options"] = {"admin": OPCACHE}
        configuration["settings"] = {"http": {"max_body_size": 32 << 20}}
        return configuration

    def nginx(self, php):
        return f"""
            location / {{ try_files $uri /index.php$is_args$args; }}
            location = /index.php {{ {php} }}
            location ~ \\.php$ {{ return 404; }}
            location ~ /\\. {{ return 404; }}"""

    def journey(self, person, root):
        for turn in range(self.turns):
            first = turn * 2 + 1
            self.log_in(person)
            self.write(person, first)
            self.another_is_nobody(person, first)
            self.nothing_stays(person)
            self.answers(person)
            self.log_out(person)
        self.keeps_secrets(person, root)
        assert person.requests >= LEAST, person.requests
        return "/"

    @staticmethod
    def log_in(person):
        person.get("/").expect("Laravel is up, ümlaut", "Tutti notes", "<p>visit 1</p>")
        page = person.get("/new").expect("<title>Log in")
        assert page.url.endswith("/login"), page.url
        wrong = person.submit(page, page.form(id_="login"), {"email": "ada@example.org", "password": "wrong"})
        wrong.expect("These are not the right words.", 'value="ada@example.org"').expect_not("wrong")
        person.submit(wrong, wrong.form(id_="login"), {"email": "ada", "password": ""}).expect("The email is no address.")
        before = person.cookies["laravel_session"]
        page = person.submit(wrong, wrong.form(id_="login"), {"email": "ada@example.org", "password": "sesame"})
        # After the login, the visitor reaches the page that was asked for, with another session.
        assert page.url.endswith("/new") and person.cookies["laravel_session"] != before, page.url
        page.expect("Leave, ada")

    @staticmethod
    def write(person, first):
        page = person.get("/new")
        form = page.form(id_="note")
        none = {"picture": ("", "application/octet-stream", b"")}
        short = person.submit(page, form, {"text": "<a"}, files=none)
        short.expect("The text needs 3 characters.", "&lt;a</textarea>")
        # Errors of a form are said once.
        person.get("/new").expect_not("class=\"errors\"", "&lt;a</textarea>")
        person.submit(page, form, {"text": ""}, files=none).expect("The text is needed.")
        picture = png(400, 300)
        person.submit(page, form, {"text": "a note"}, files={"picture": ("a.png", "image/png", b"no picture")}).expect("The picture is no png.")
        stored = person.submit(page, form, {"text": "  Grüße <b>☕  "}, files={"picture": ("a.png", "image/png", picture)})
        stored.expect(f"Note {first} is kept.", "Grüße &lt;b&gt;☕</a> by ada")
        person.get("/").expect_not("is kept.")
        person.get(f"/notes/{first}").expect("<title>Grüße &lt;b&gt;☕", "/picture")
        answer = person.get(f"/notes/{first}/picture")
        assert answer.body == picture and answer.header("Content-Type") == "image/png", answer.headers
        person.submit(page, form, {"text": "another"}, files=none).expect(f"Note {first + 1} is kept.")
        person.get(f"/notes/{first + 1}/picture", status=404)
        # Forms without a token, and with that of somebody else.
        person.post("/notes", {"text": "without a token"}, status=419)
        person.post("/notes", {"text": "with another", "_token": "x" * 40}, status=419)

    @staticmethod
    def another_is_nobody(person, first):
        other = Browser(person.host, person.port)
        other.get("/").expect("<p>visit 1</p>").expect_not("Leave,")
        page = other.get("/new").expect("<title>Log in")
        other.submit(page, page.form(id_="login"), {"email": "bob@example.org", "password": "sesame"}).expect("Leave, bob").expect_not("Leave, ada")
        page = other.get(f"/notes/{first + 1}")
        other.submit(page, page.form(id_="delete")).expect("Gone.", "Leave, bob")
        other.get(f"/notes/{first + 1}", status=404).expect(f"There is nothing at notes/{first + 1}.", "Leave, bob")
        person.get("/").expect("Leave, ada").expect_not("Leave, bob", "Gone.")
        person.requests += other.requests

    @staticmethod
    def nothing_stays(person):
        """Anything that a request changes of the application goes with it."""
        person.get("/leave").expect("left x fehlt.")
        seen = json.loads(person.get("/seen").text)
        assert seen == {"config": None, "bound": False, "locale": "en", "shared": None, "env": False, "server": None, "path": "seen", "user": "ada"}, seen
        person.get("/left", status=404).expect("There is nothing at left.")
        stranger = Browser(person.host, person.port)
        assert json.loads(stranger.get("/seen").text)["user"] is None
        person.requests += stranger.requests

    @staticmethod
    def answers(person):
        as_json = {"Content-Type": "application/json", "Accept": "application/json"}
        sent = person.post("/api/echo", json.dumps({"a": ["ü", 1], "b": " x "}).encode(), status=201, headers=as_json)
        assert json.loads(sent.text) == {"sent": {"a": ["ü", 1], "b": "x"}, "method": "POST"}, sent.text
        assert int(sent.header("X-RateLimit-Remaining")) < 1000, sent.headers
        refused = json.loads(person.post("/api/notes", b"{}", status=422, headers=as_json).text)
        assert refused["errors"] == {"text": ["The text is needed."]}, refused
        assert person.get("/stream").text == "".join(f"{number}\n" for number in range(1, 1001))
        # No route, so no session either.
        person.get("/none/of/this", status=404).expect("There is nothing at none/of/this.")
        message = json.loads(person.get("/none", status=404, headers={"Accept": "application/json"}).text)["message"]
        # The messages of version 6 and of version 10.
        assert message in ("", "The route none could not be found."), message
        person.post("/seen", b"", status=405)
        person.get("/forbidden", status=403).expect("not for you")
        person.get("/fails", status=500).expect("Server Error").expect_not("on purpose")
        person.get("/exit").expect("the end")
        person.get("/index.php/seen").expect('"user":"ada"')
        opcache = json.loads(person.get("/opcache").text)
        assert opcache["opcache_enabled"] is True and opcache["num_cached_scripts"] > 100 and opcache["hits"] > 0, opcache

    @staticmethod
    def log_out(person):
        page = person.get("/")
        person.submit(page, page.form(id_="logout")).expect("<p>visit 1</p>").expect_not("Leave,")
        person.get("/new").expect("<title>Log in")
        person.cookies.clear()

    @staticmethod
    def keeps_secrets(person, root):
        (Path(root) / ".env").write_text("APP_KEY=secret")
        for path in ("/.env", "/../.env", "/index.php/../.env", "/../storage/logs/laravel.log", "/other.php"):
            answer = person.request("GET", path, status=None)
            assert answer.status in (400, 404) and "APP_KEY" not in answer.text and "<?php" not in answer.text, path


class LaravelResident(Laravel):
    """The same front controller in one process that stays, with opcache."""

    name = "laravel-resident"
    only_tutti = True
    turns = 3

    def prepare(self):
        super().prepare()
        (self.root.parent / "resident.php").write_text(ADAPTER.format(call="front_controller(__DIR__ . '/public/index.php')"))

    def tutti(self, address):
        configuration = super().tutti(address)
        old = configuration["applications"]["laravel"]
        new = resident(self.root, old["environment"])
        configuration["applications"]["laravel"] = {**new, "options": old["options"], "processes": 1}
        return configuration
