"""Redmine, Debian's package on SQLite, by the configuration of docs/start/sites.md, in several processes that its first one has booted."""

import html
import json
import os
import re
import secrets
import shutil
import sqlite3
import subprocess
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from browser import Browser, png
from servers import own

from .documented import documented

SOURCE = Path("/usr/share/redmine")
PROCESSES = 3
PEOPLE = 8
DATABASE = """production:
  adapter: sqlite3
  database: {file}
  timeout: 20000
"""


class Redmine:
    """PHP's peer cannot serve it, so it is Tutti's alone. Its database is made in half a minute."""

    name = "redmine"
    only_tutti = True
    is_long = True

    def __init__(self, folder):
        self.root = folder / "redmine"
        self.environment = {}

    def prepare(self):
        # Links lead to Debian's folders for configuration and data, and to libraries of JavaScript, which are copied.
        theirs = shutil.ignore_patterns("instances", "Gemfile.lock", "database.yml")
        shutil.copytree(SOURCE, self.root, ignore=theirs)
        instance = self.root / "instances/default"
        for name in ("config", "log", "files", "tmp", "public/plugin_assets"):
            (instance / name).mkdir(parents=True)
        (instance / "config/database.yml").write_text(DATABASE.format(file=instance / "redmine.sqlite3"))
        (instance / "config/secret_key.txt").write_text(secrets.token_hex(64))
        # The package's own Gemfile looks for the adapter in Debian's folders only, where there may be an instance with it, or none.
        (self.root / "Gemfile.local").write_text('gem "sqlite3" unless dependencies.any? { |gem| gem.name == "sqlite3" }\n')
        self.run("bundle", "install", "--local", "--quiet")
        # Each in a process of its own: what the models know of the tables is from before the migrations.
        self.run("bundle", "exec", "rake", "db:migrate")
        said = self.run("bundle", "exec", "rake", "redmine:load_default_data")
        assert "Default configuration data loaded." in said, said
        # From version 6 on it would be CommonMark.
        with sqlite3.connect(instance / "redmine.sqlite3") as database:
            database.execute("INSERT INTO settings (name, value, updated_on) VALUES ('text_formatting', 'textile', datetime('now'))")
        database.close()
        if (self.root / "app/assets").is_dir():
            # From version 6 on they are made, and Debian has them beside what belongs to an instance.
            self.run("bundle", "exec", "rake", "assets:precompile")
            (self.root / "public/assets").symlink_to(instance / "public/assets")
        own(self.root)

    def run(self, *words):
        environment = {**os.environ, "RAILS_ENV": "production", "REDMINE_LANG": "en", "SCHEMA": "/dev/null", "HOME": str(self.root)}
        done = subprocess.run(words, cwd=self.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout[-3000:]}"
        return done.stdout

    def after_start(self, server):
        self.server = server

    def stop(self):
        pass

    def tutti(self, address):
        configuration = documented("Rails, and other front controllers in Ruby", address, {"/srv/rails": self.root})
        application = configuration["applications"]["rails"]
        application["processes"] = PROCESSES
        # It boots in ten seconds, on a machine that has nothing else to do.
        application["limits"] = {"start_timeout": 300}
        application["environment"].update(self.environment)
        configuration["settings"] = {"http": {"max_body_size": 32 << 20}}
        return configuration

    def journey(self, person, root):
        self.is_preloaded()
        page = person.get("/").expect("Redmine", "Sign in")
        # Redmine 6 has them below `/assets`, with a digest in the name.
        for pattern, kind in (('src="(/[^"]*/application[^"]*)"', "javascript"), ('href="(/[^"]*/application[^"]*)"', "css")):
            path = html.unescape(re.search(pattern, page.text).group(1))
            assert kind in person.get(path).header("Content-Type"), path
        self.change_the_first_password(person)
        self.make_a_project(person)
        picture = png(640, 480)
        issue = self.write_an_issue(person, picture)
        self.comment(person, issue)
        self.find(person, issue)
        self.many_at_once(person, issue)
        self.log_out(person, issue)
        self.is_preloaded()
        return "/"

    def is_preloaded(self):
        """The processes are forks of one that has booted: what they have in common is theirs together."""
        status, body = self.server.control_request("GET", "/status/applications/rails")
        processes = json.loads(body)["processes"]
        assert status == 200 and (processes["running"], processes["starting"]) == (PROCESSES, 0), body

    @staticmethod
    def change_the_first_password(person):
        page = person.get("/login?back_url=%2Fmy%2Fpage")
        wrong = person.submit(page, page.form(field="password"), {"username": "admin", "password": "wrong"})
        wrong.expect("Invalid user or password")
        page = person.submit(page, page.form(field="password"), {"username": "admin", "password": "admin"})
        # A user with the first password gets no other page until it is changed.
        assert page.url.endswith("/my/password"), page.url
        refused = {"password": "admin", "new_password": "short", "new_password_confirmation": "short"}
        person.submit(page, page.form(field="new_password"), refused).expect("Password is too short")
        page = person.get("/my/password")
        secret = "a longer sésame"
        changed = {"password": "admin", "new_password": secret, "new_password_confirmation": secret}
        person.submit(page, page.form(field="new_password"), changed).expect("Password was successfully updated.", "Logged in as")

    @staticmethod
    def make_a_project(person):
        page = person.get("/projects/new")
        form = page.form(field="project[identifier]")
        person.submit(page, form, {"project[name]": "", "project[identifier]": "score"}).expect("Name cannot be blank")
        named = {"project[name]": "Partitur <ümlaut>", "project[identifier]": "score", "project[description]": "All *play*."}
        person.submit(page, form, named, button="commit").expect("Successful creation.")
        person.get("/projects/score").expect("Partitur &lt;ümlaut&gt;", "All <strong>play</strong>.")
        # A form without a token ends the session of its sender.
        forger = Browser(person.host, person.port)
        forger.cookies.update(person.cookies)
        forger.post("/projects", {"project[name]": "x", "project[identifier]": "x"}, status=422)
        forger.get("/my/page").expect_not("Logged in as")

    @staticmethod
    def write_an_issue(person, picture):
        page = person.get("/projects/score/issues/new")
        token = re.search(r'name="csrf-token" content="([^"]+)"', page.text).group(1)
        # The page's script sends each file as soon as it is chosen, and the form its token.
        name = urllib.parse.quote("Entwürfe 1.png")
        address = f"/uploads.js?attachment_id=1&filename={name}&content_type=image%2Fpng"
        fields = {"Content-Type": "application/octet-stream", "X-CSRF-Token": token, "X-Requested-With": "XMLHttpRequest", "Accept": "text/javascript"}
        sent = person.post(address, picture, headers=fields)
        kept = re.search(r"input\.token'\)\.val\('([^']+)'\)", sent.text).group(1)
        written = {"issue[subject]": "Takt 12 fehlt ☕", "issue[description]": "Siehe !Entwürfe 1.png!\n\n* eins\n* zwei",
                   "attachments[1][filename]": "Entwürfe 1.png", "attachments[1][description]": "ein Entwurf", "attachments[1][token]": kept}
        page = person.submit(page, page.form(id_="issue-form"), written, button="commit")
        page.expect("Takt 12 fehlt ☕", "<li>zwei</li>", "ein Entwurf")
        issue = int(re.search(r"/issues/(\d+)$", page.url).group(1))
        file = int(re.search(r'href="/attachments/download/(\d+)/', page.text).group(1))
        answer = person.get(f"/attachments/download/{file}/{name}")
        assert answer.body == picture and answer.header("Content-Type") == "image/png", answer.headers
        small = person.get(f"/attachments/thumbnail/{file}/100")
        assert small.body.startswith(b"\x89PNG") and len(small.body) < len(picture), "made by a program of the application's"
        return issue

    @staticmethod
    def comment(person, issue):
        page = person.get(f"/issues/{issue}/edit")
        text = "Ich habe ihn <gefunden>.\n" + "Langer Text. " * 3000
        files = {"attachments[dummy][file]": ("notes.txt", "text/plain", b"found\n" * 20_000)}
        answer = person.submit(page, page.form(id_="issue-form"), {"issue[notes]": text, "issue[status_id]": "2"}, files=files, button="commit")
        answer.expect("Successful update.", "Ich habe ihn &lt;gefunden&gt;.", "In Progress", "notes.txt")
        again = person.submit(page, page.form(id_="issue-form"), {"issue[subject]": "too late", "issue[status_id]": "3"})
        again.expect("updated by an other user").expect_not("Successful update.")

    @staticmethod
    def find(person, issue):
        found = person.get("/search?" + urllib.parse.urlencode({"q": "Takt fehlt", "all_words": "1"}))
        # Each word that was looked for is marked.
        found.expect(f'href="/issues/{issue}"', ">Takt</span> 12 <span", "☕")
        person.get("/search?q=nothingofthekind").expect_not("Takt 12")
        table = person.get("/projects/score/issues.csv")
        assert table.header("Content-Type").startswith("text/csv") and "Takt 12 fehlt" in table.text, table.text
        assert person.get(f"/issues/{issue}.pdf").body.startswith(b"%PDF-")
        person.get("/issues/999", status=404).expect("404")

    @staticmethod
    def many_at_once(person, issue):
        """People with the same log-in, each on a connection of their own: one writes while all others read.

        Redmine refuses one of two users who write at once: the issue has changed, or SQLite has no place for a second transaction.
        """
        writing = Lock()

        def visit(number):
            visitor = Browser(person.host, person.port)
            visitor.cookies.update(person.cookies)
            page = visitor.get(f"/issues/{issue}/edit")
            note = {"issue[notes]": f"note <{number}>"}
            form = page.form(id_="issue-form")
            form.values = [(name, value) for name, value in form.values if not name.startswith("issue[") or name == "issue[private_notes]"]
            with writing:
                visitor.submit(page, form, note).expect(f"note &lt;{number}&gt;")
            for path in ("/projects/score/issues", "/projects/score/activity", "/my/page", f"/issues/{issue}"):
                visitor.get(path).expect("Logged in as")
            return visitor.requests

        with ThreadPoolExecutor(PEOPLE) as crowd:
            person.requests += sum(crowd.map(visit, range(PEOPLE)))
        page = person.get(f"/issues/{issue}")
        page.expect(*(f"note &lt;{number}&gt;" for number in range(PEOPLE)))

    @staticmethod
    def log_out(person, issue):
        page = person.get("/logout")
        before = dict(person.cookies)
        person.submit(page, page.form(action="/logout")).expect("Sign in").expect_not("Logged in as")
        person.get("/my/page").expect("Sign in").expect_not("Logged in as")
        # The session of before has ended at the server's, too.
        person.cookies.update(before)
        person.get("/my/page").expect_not("Logged in as")
        person.get(f"/issues/{issue}").expect("Takt 12 fehlt ☕")
