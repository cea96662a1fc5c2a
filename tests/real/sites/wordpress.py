"""WordPress on MariaDB: installed in the browser, permalinks through the front controller, the REST API, uploads."""

import json
import re
import shutil
import subprocess
from pathlib import Path

from browser import png
from harness.processes import Process, wait_until
from servers import own
from sites.documented import documented

SOURCE = Path("/usr/share/wordpress")


class WordPress:
    name = "wordpress"
    environment = {}
    is_documented = False

    def __init__(self, folder):
        self.folder = folder / "wordpress"
        self.root = self.folder / "site"
        self.socket = self.folder / "mariadb.sock"
        self.database = None

    def prepare(self):
        shutil.copytree(SOURCE, self.root, ignore_dangling_symlinks=True)
        (self.root / ".htaccess").unlink(missing_ok=True)
        self.start_database()
        (self.root / "wp-config.php").write_text(f"""<?php
define('DB_NAME', 'wordpress'); define('DB_USER', 'press'); define('DB_PASSWORD', 'press-secret');
define('DB_HOST', 'localhost:{self.socket}'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
foreach (['AUTH_KEY','SECURE_AUTH_KEY','LOGGED_IN_KEY','NONCE_KEY','AUTH_SALT','SECURE_AUTH_SALT','LOGGED_IN_SALT','NONCE_SALT'] as $key)
    define($key, 'only for this test ' . $key);
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true); define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_DEFAULT_THEME', 'twentytwentythree');
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
""")
        (self.root / "wp-content/uploads").mkdir()
        own(self.root / "wp-content")

    def start_database(self):
        data = self.folder / "mariadb"
        data.mkdir()
        shutil.chown(data, "mysql", "mysql")
        self.folder.chmod(0o777)  # the database, as another user, makes its socket here
        common = ["--no-defaults", "--user=mysql", f"--datadir={data}"]
        subprocess.run(["mariadb-install-db", *common, "--auth-root-authentication-method=socket", "--skip-test-db"],
                       check=True, capture_output=True)
        self.database = Process(["mariadbd", *common, f"--socket={self.socket}", "--skip-networking", f"--pid-file={data}/pid",
                                 "--innodb-buffer-pool-size=64M", "--skip-log-bin"], self.folder / "mariadb.log")
        wait_until(self.socket.exists, 60, "MariaDB")
        statements = ("CREATE DATABASE wordpress; CREATE USER press@localhost IDENTIFIED BY 'press-secret';"
                      "GRANT ALL ON wordpress.* TO press@localhost;")
        subprocess.run(["mariadb", "--no-defaults", f"--socket={self.socket}", "-e", statements], check=True, capture_output=True)

    def after_start(self, server):
        pass

    def stop(self):
        if self.database:
            self.database.stop(seconds=60)

    def tutti(self, address):
        self.is_documented = True
        return documented("WordPress", address, {"/srv/wordpress": self.root})

    def nginx(self, php):
        return f"""
            index index.php;
            location / {{ try_files $uri $uri/ /index.php$is_args$args; }}
            location ~ \\.php(/|$) {{ {php} }}"""

    def journey(self, person, root):
        self.install(person)
        self.log_in(person)
        self.choose_permalinks(person)
        picture = self.upload(person)
        address = self.write_post(person, picture)
        self.visit(person, address)
        if self.is_documented:
            self.keeps_secrets(person, root)
        return address

    @staticmethod
    def keeps_secrets(person, root):
        """Checks what only the page's configuration promises."""
        script = Path(root) / "wp-content/uploads/evil.php"
        script.write_text("<?php echo 6 * 7;")
        (Path(root) / ".env").write_text("SECRET=1")
        for path in ("/wp-content/uploads/evil.php", "/wp-content/uploads/evil.php/x", "/.env", "/wp-config.php", "/wp-config.php/x"):
            answer = person.get(path, status=404)
            assert "42" not in answer.text and "SECRET" not in answer.text and "DB_PASSWORD" not in answer.text, path

    @staticmethod
    def install(person):
        person.get("/wp-admin/install.php?step=1").expect("Information needed")
        done = person.post("/wp-admin/install.php?step=2", {
            "weblog_title": "Tutti Press", "user_name": "critic", "admin_password": "review-secret", "admin_password2": "review-secret",
            "pw_weak": "on", "admin_email": "critic@example.org", "blog_public": "0", "Submit": "Install WordPress", "language": ""})
        done.expect("Success!")

    @staticmethod
    def log_in(person):
        login = person.get("/wp-login.php")
        refused = person.submit(login, login.form(id_="loginform"), {"log": "critic", "pwd": "wrong"}, button="wp-submit")
        refused.expect("is incorrect")
        board = person.submit(login, login.form(id_="loginform"), {"log": "critic", "pwd": "review-secret"}, button="wp-submit")
        board.expect("Dashboard", "Tutti Press")
        assert board.url.endswith("/wp-admin/"), board.url
        person.get("/wp-admin/load-styles.php?c=0&dir=ltr&load%5Bchunk_0%5D=dashicons,admin-bar,common").expect("#wpadminbar")

    @staticmethod
    def choose_permalinks(person):
        page = person.get("/wp-admin/options-permalink.php")
        structure = "/%year%/%monthnum%/%postname%/"
        # The page describes the server's configuration either way; what counts is that it was stored.
        person.submit(page, page.form(name="form"), {"selection": structure, "permalink_structure": structure}, button="submit")
        person.get("/wp-admin/options-permalink.php").expect(structure)

    @staticmethod
    def upload(person):
        picture = png(640, 480)
        page = person.get("/wp-admin/media-new.php?browser-uploader")
        person.submit(page, page.form(id_="file-form"), files={"async-upload": ("score.png", "image/png", picture)}, button="html-upload")
        media = json.loads(person.get("/wp-json/wp/v2/media").text)
        assert len(media) == 1 and media[0]["mime_type"] == "image/png", media
        raw = person.get(media[0]["source_url"])
        assert raw.body == picture and raw.header("Content-Type") == "image/png", "the picture's bytes"
        small = person.get(media[0]["media_details"]["sizes"]["thumbnail"]["source_url"])
        assert small.body.startswith(b"\x89PNG") and len(small.body) < len(picture), "a thumbnail"
        return media[0]

    @staticmethod
    def may_write(person):
        """The fields of a request that the editor sends."""
        editor = person.get("/wp-admin/post-new.php").expect("block-editor")
        nonce = re.search(r'createNonceMiddleware\( "([0-9a-f]+)" \)', editor.text).group(1)
        return {"Content-Type": "application/json", "X-WP-Nonce": nonce}

    @staticmethod
    def write_post(person, picture):
        headers = WordPress.may_write(person)
        content = f'<p><strong>All</strong> play ümlauts.</p><img src="{picture["source_url"]}">' + \
            "".join(f"<p>Paragraph {number} of a long page.</p>" for number in range(2000))
        body = json.dumps({"title": "Premiere tonight", "content": content, "status": "publish"}).encode()
        person.post("/wp-json/wp/v2/posts", body, status=401, headers={"Content-Type": "application/json"})
        made = json.loads(person.post("/wp-json/wp/v2/posts", body, status=201, headers=headers).text)
        shown = person.get(made["link"]).expect("Premiere tonight", "<strong>All</strong> play ümlauts", "Paragraph 1999", picture["source_url"])
        assert re.search(r"/\d{4}/\d{2}/premiere-tonight/$", shown.url), shown.url
        changed = json.dumps({"title": "Premiere tomorrow"}).encode()
        person.post(f"/wp-json/wp/v2/posts/{made['id']}", changed, headers=headers)
        person.get(made["link"]).expect("Premiere tomorrow")
        return made["link"].partition("//")[2].partition("/")[2].join(["/", ""])

    def visit(self, person, address):
        """A stranger reads, searches, comments; then comes back to what is not there."""
        person.cookies.clear()
        page = person.get(address).expect("Premiere tomorrow").expect_not("wpadminbar")
        person.get("/?s=premiere").expect("Premiere tomorrow")
        person.get("/?s=nothingofthekind").expect_not("Premiere tomorrow")
        person.get("/feed/").expect("<rss", "Premiere tomorrow")
        person.get("/wp-includes/css/dist/block-library/style.min.css").expect("wp-block")
        person.get("/no/such/page/", status=404).expect("404")
        person.get("/wp-admin/", status=200).expect("Username or Email Address")
        comment = person.submit(page, page.form(id_="commentform"), {
            "comment": "Bravo! <b>encore</b>", "author": "A Stranger", "email": "stranger@example.org"}, button="submit")
        comment.expect("awaiting moderation")
        moved = person.get(address.rstrip("/"), status=301, follow=False)
        assert moved.header("Location").endswith(address), moved.header("Location")
