"""MediaWiki on SQLite: served from the package's own folder, configured through an environment variable."""

import os
import subprocess
from pathlib import Path

from browser import png
from servers import own

SOURCE = Path("/usr/share/mediawiki")


class MediaWiki:
    name = "mediawiki"

    def __init__(self, folder):
        self.folder = folder / "mediawiki"
        self.root = SOURCE
        self.environment = {"MW_CONFIG_FILE": str(self.folder / "LocalSettings.php")}

    def prepare(self):
        for name in ("database", "images", "cache"):
            (self.folder / name).mkdir(parents=True)
        environment = {**os.environ, "MW_CONFIG_FILE": str(self.folder / "none.php")}
        subprocess.run(["php", SOURCE / "maintenance/install.php", "--confpath", self.folder, "--dbtype", "sqlite", "--dbpath",
                        self.folder / "database", "--dbname", "wiki", "--server", "http://127.0.0.1:1", "--scriptpath", "",
                        "--pass", "conductor-secret", "--skins", "Vector", "Tutti Media", "Conductor"],
                       env=environment, check=True, capture_output=True, cwd=self.folder)
        self.settings = self.folder / "LocalSettings.php"

    def after_start(self, server):
        """The address is part of MediaWiki's configuration, and known only now."""
        with self.settings.open("a") as settings:
            settings.write(
                f"\n$wgServer = 'http://127.0.0.1:{server.port}';\n$wgEnableUploads = true;\n$wgUseImageMagick = false;\n"
                f"$wgUploadDirectory = '{self.folder}/images';\n$wgUploadPath = '/images';\n$wgCacheDirectory = '{self.folder}/cache';\n"
                "$wgUsePathInfo = true;\n$wgMainCacheType = CACHE_NONE;\n$wgSessionCacheType = CACHE_DB;\n$wgJobRunRate = 1;\n")
        own(self.folder)

    def stop(self):
        pass

    def tutti(self, address):
        return {
            "listeners": {address: {"pass": "routes"}},
            "settings": {"http": {"max_body_size": 64 << 20}},
            "routes": [
                {"match": {"uri": ["/includes/*", "/maintenance/*", "/languages/*", "/vendor/*"]}, "action": {"return": 403}},
                {"match": {"uri": "/images/*"}, "action": {"share": f"{self.folder}$uri"}},
                {"match": {"uri": ["*.php", "*.php/*", "/"]}, "action": {"pass": "applications/wiki"}},
                {"action": {"share": f"{self.root}$uri"}},
            ],
            "applications": {"wiki": {"type": "php", "root": str(self.root), "processes": {"max": 8, "spare": 1},
                                      "environment": self.environment, "options": {"admin": {"memory_limit": "256M"}}}},
        }

    def nginx(self, php):
        return f"""
            index index.php;
            location ~ ^/(includes|maintenance|languages|vendor)/ {{ return 403; }}
            location /images/ {{ root {self.folder}; }}
            location / {{ try_files $uri $uri/ =404; }}
            location ~ \\.php(/|$) {{ {php} }}"""

    def journey(self, person, root):
        person.get("/").expect("MediaWiki has been installed", "Tutti Media")
        person.get("/load.php?lang=en&modules=site.styles%7Cskins.vector.styles.legacy&only=styles&skin=vector").expect(".mw-body")
        person.get("/resources/assets/change-your-logo.svg").expect("<svg")
        person.get("/maintenance/install.php", status=403)
        person.get("/index.php/No_such_page", status=404).expect("There is currently no text in this page")
        person.get("/api.php?action=query&meta=siteinfo&format=json").expect('"sitename":"Tutti Media"')

        login = person.get("/index.php/Special:UserLogin")
        refused = person.submit(login, login.form(name="userlogin"), {"wpName": "Conductor", "wpPassword": "wrong"}, button="wploginattempt")
        refused.expect("Incorrect username or password")
        person.submit(refused, refused.form(name="userlogin"), {"wpName": "Conductor", "wpPassword": "conductor-secret"},
                      button="wploginattempt").expect("Log out", "Conductor")

        text = "'''All''' play: ''oboes''.\n\n== Strings ==\nümlauts & <nowiki><angles></nowiki> {{CURRENTYEAR}}\n"
        edit = person.get("/index.php?title=Orchestra&action=edit")
        saved = person.submit(edit, edit.form(id_="editform"), {"wpTextbox1": text, "wpSummary": "first"}, button="wpSave")
        saved.expect("<b>All</b>", "<i>oboes</i>", 'id="Strings"', "ümlauts &amp; &lt;angles&gt;")
        assert saved.url.endswith("/index.php/Orchestra"), saved.url

        picture = png()
        upload = person.get("/index.php/Special:Upload")
        shown = person.submit(upload, upload.form(id_="mw-upload-form"), {"wpDestFile": "Score.png", "wpUploadDescription": "a score"},
                              button="wpUpload", files={"wpUploadFile": ("score.png", "image/png", picture)})
        shown.expect("File:Score.png", "a score")
        address = next(part for part in shown.text.split('"') if part.startswith("/images/") and part.endswith("Score.png") and "thumb" not in part)
        raw = person.get(address)
        assert raw.body == picture and raw.header("Content-Type") == "image/png", "the picture's bytes"

        edit = person.get("/index.php?title=Orchestra&action=edit")
        long = text + "[[File:Score.png|thumb|60px|A score]]\n" + "\n\n".join(f"Paragraph {number} of a long page." for number in range(3000))
        shown = person.submit(edit, edit.form(id_="editform"), {"wpTextbox1": long, "wpSummary": "second"}, button="wpSave")
        shown.expect("Paragraph 2999")
        thumb = next(part for part in shown.text.split('"') if part.startswith("/images/thumb/"))
        small = person.get(thumb)
        assert small.body.startswith(b"\x89PNG") and len(small.body) < len(picture), "a smaller picture"

        person.get("/index.php?title=Orchestra&action=history").expect("first", "second")
        # The index is written after the answer (a deferred update), so the search is asked until it knows.
        self.until(lambda: "Orchestra" in person.get("/index.php?title=Special:Search&search=oboes&fulltext=1").text)
        person.get("/rest.php/v1/page/Orchestra").expect('"title":"Orchestra"')
        person.get("/index.php/Special:RecentChanges").expect("Orchestra", "second")
        page = person.get("/index.php?title=Special:UserLogout")
        person.submit(page, page.form(field="wpEditToken"), {}).expect("You are now logged out")
        return "/index.php/Orchestra"

    @staticmethod
    def until(condition):
        from harness.processes import wait_until
        wait_until(condition, 20, "the search index")
