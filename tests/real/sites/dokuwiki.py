"""DokuWiki: PATH_INFO addresses, flat files, sessions, media uploads and resizing."""

import html
import re
import shutil
import subprocess
from pathlib import Path

from browser import png
from servers import own

SOURCE = Path("/usr/share/dokuwiki")
CONFIGURATION = Path("/etc/dokuwiki")
DATA = Path("/var/lib/dokuwiki/data")
PRIVATE = ("conf", "data", "inc", "bin", "vendor")


class DokuWiki:
    name = "dokuwiki"
    environment = {}

    def __init__(self, folder):
        self.root = folder / "dokuwiki"

    def prepare(self):
        shutil.copytree(SOURCE, self.root)
        (self.root / "inc/preload.php").unlink()  # Debian's: it points into /etc
        (self.root / "install.php").unlink(missing_ok=True)
        conf = self.root / "conf"
        conf.mkdir()
        for entry in CONFIGURATION.iterdir():
            if entry.is_file() and not entry.is_symlink() and entry.name not in ("local.php", "apache.conf", "lighttpd.conf"):
                shutil.copy(entry, conf / entry.name)
        secret = subprocess.run(["php", "-r", "echo password_hash('wiki-secret', PASSWORD_BCRYPT);"], capture_output=True, text=True, check=True)
        (conf / "users.auth.php").write_text(f"editor:{secret.stdout}:Edith Editor:edith@example.org:admin,user\n")
        (conf / "acl.auth.php").write_text("*\t@ALL\t1\n*\t@user\t8\n")
        (conf / "local.php").write_text(
            "<?php\n$conf['title'] = 'Tutti Wiki';\n$conf['useacl'] = 1;\n$conf['superuser'] = '@admin';\n"
            "$conf['userewrite'] = 2;\n$conf['updatecheck'] = 0;\n$conf['send404'] = 1;\n$conf['savedir'] = './data';\n")
        for name in ("attic", "cache", "index", "locks", "log", "media", "media_attic", "media_meta", "meta", "pages", "tmp"):
            (self.root / "data" / name).mkdir(parents=True)
        (self.root / "data/pages/start.txt").write_text("====== Welcome ======\n")
        own(self.root / "data", self.root / "conf")

    def after_start(self, server):
        pass

    def stop(self):
        pass

    def tutti(self, address):
        return {
            "listeners": {address: {"pass": "routes"}},
            "settings": {"http": {"max_body_size": 64 << 20}},
            "routes": [
                {"match": {"uri": [f"/{name}/*" for name in PRIVATE]}, "action": {"return": 403}},
                {"match": {"uri": ["*.php", "*.php/*", "/"]}, "action": {"pass": "applications/wiki"}},
                {"action": {"share": f"{self.root}$uri", "fallback": {"pass": "applications/wiki"}}},
            ],
            "applications": {"wiki": {"type": "php", "root": str(self.root), "index": "doku.php", "processes": {"max": 8, "spare": 1}}},
        }

    def nginx(self, php):
        private = "|".join(PRIVATE)
        return f"""
            index doku.php;
            location ~ ^/({private})/ {{ return 403; }}
            location / {{ try_files $uri $uri/ =404; }}
            location ~ \\.php(/|$) {{ {php} }}"""

    def journey(self, person, root):
        front = person.get("/").expect("Tutti Wiki")
        person.get("/lib/exe/css.php?t=dokuwiki").expect("body")
        logo = person.get("/lib/tpl/dokuwiki/images/logo.png")
        assert logo.body == (root / "lib/tpl/dokuwiki/images/logo.png").read_bytes(), "the logo's bytes"
        assert logo.header("Content-Type") == "image/png", logo.header("Content-Type")
        again = person.get("/lib/tpl/dokuwiki/images/logo.png", status=304, headers={"If-None-Match": logo.header("ETag")})
        assert again.body == b"", "a 304 has no body"
        for name in PRIVATE:
            person.get(f"/{name}/users.auth.php", status=403)
        front.expect_not("Edith Editor")
        person.get("/doku.php/nowhere:at_all", status=404).expect("This topic does not exist yet")

        login = person.get("/doku.php/start?do=login")
        refused = person.submit(login, login.form(id_="dw__login"), {"u": "editor", "p": "wrong"}, status=403)
        refused.expect("Sorry, username or password was wrong")
        person.submit(login, login.form(id_="dw__login"), {"u": "editor", "p": "wiki-secret"}).expect("Edith Editor")

        edit = person.get("/doku.php/orchestra:tutti?do=edit")
        text = "====== Tutti ======\n\n**All** play: //violins//, ümlauts & <angles>.\n\n  * one\n  * two\n"
        saved = person.submit(edit, edit.form(id_="dw__editform"), {"wikitext": text, "summary": "first"}, button="do[save]")
        saved.expect("<strong>All</strong>", "<em>violins</em>", "ümlauts &amp; &lt;angles&gt;")

        person.get("/doku.php/orchestra:tutti?do=revisions").expect("first")

        picture = png()
        dialog = person.get("/lib/exe/mediamanager.php?ns=orchestra")
        person.submit(dialog, dialog.form(id_="dw__upload"), {"mediaid": "score.png"},
                      files={"upload": ("score.png", "image/png", picture)}).expect("score.png")
        assert person.get("/lib/exe/fetch.php/orchestra:score.png").body == picture, "the picture's bytes"

        edit = person.get("/doku.php/orchestra:tutti?do=edit")
        more = text + "\n{{:orchestra:score.png?60|}}\n\n" + "\n\n".join(f"Paragraph {number} of a long page." for number in range(2000))
        shown = person.submit(edit, edit.form(id_="dw__editform"), {"wikitext": more}, button="do[save]")
        shown.expect("orchestra:score.png", "Paragraph 1999")
        address = html.unescape(re.search(r'src="(/lib/exe/fetch.php[^"]*score.png[^"]*)"', shown.text).group(1))
        small = person.get(address)
        assert small.body.startswith(b"\x89PNG") and len(small.body) < len(picture), "a smaller picture"
        person.get("/doku.php/start?do=search&q=violins").expect("orchestra:tutti")
        person.get("/feed.php").expect("<rdf:RDF")

        leave = person.get("/doku.php/start?do=logout&sectok=" + self.security_token(shown))
        leave.expect_not("Edith Editor")
        person.get("/doku.php/orchestra:tutti?do=edit").expect_not("do[save]")
        return "/doku.php/orchestra:tutti"

    @staticmethod
    def security_token(page):
        return next(value for form in page.forms() for name, value in form.values if name == "sectok" and value)
