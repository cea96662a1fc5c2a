"""WordPress behind the cache, as docs/http/cache.md has it: an anonymous visitor gets what is kept, a user never does, and purges show what is new."""

import html
import json
import re
import urllib.parse

from browser import Browser
from sites.documented import block
from sites.wordpress import WordPress

PAGE, CHAPTER = "http/cache.md", "Applications without Cache-Control"


class WordPressCached(WordPress):
    name = "wordpress-cached"
    only_tutti = True

    def prepare(self):
        super().prepare()
        plugins = self.root / "wp-content/mu-plugins"
        plugins.mkdir()
        (plugins / "tags.php").write_text(block(PAGE, "WordPress", "php"))

    def after_start(self, server):
        self.server = server

    def tutti(self, address):
        configuration = super().tutti(address)
        example = json.loads(block(PAGE, CHAPTER, "json"))
        configuration["routes"][-1]["action"]["fallback"]["cache"] = example["routes"][0]["action"]["cache"]
        configuration["settings"]["cache"] = example["settings"]["cache"]
        return configuration

    def nobody(self):
        """A visitor without any cookies."""
        return Browser("127.0.0.1", self.server.port)

    def journey(self, person, root):
        self.install(person)
        self.log_in(person)
        self.choose_permalinks(person)
        headers = self.may_write(person)
        post = self.publish(person, headers, {"title": "First night", "content": "The curtain rises."})
        self.is_kept_for_nobody_only(person, post)
        self.a_comment_is_seen_after_a_purge(person, headers, post)
        self.new_posts_are_seen_after_a_purge(person, headers)
        self.a_password_opens_for_one(person, headers)
        self.who_logs_out_is_nobody(person, post)
        return post["path"]

    @staticmethod
    def publish(person, headers, fields):
        body = json.dumps({"status": "publish", **fields}).encode()
        made = json.loads(person.post("/wp-json/wp/v2/posts", body, status=201, headers=headers).text)
        return {"id": made["id"], "path": urllib.parse.urlsplit(made["link"]).path}

    def purge(self, what):
        status, body = self.server.control_request("DELETE", f"/control/cache/pages/{what}")
        count = int(re.search(r"(\d+) responses? purged", body).group(1))
        assert status == 200 and count > 0, body

    def is_kept_for_nobody_only(self, person, post):
        path = post["path"]
        passes_by(person.get(path).expect("The curtain rises", "wpadminbar"))
        # A page of somebody is not kept for others.
        first = self.nobody().get(path).expect("The curtain rises").expect_not("wpadminbar", "critic-only")
        assert cache_status(first).endswith("stored"), cache_status(first)
        again = is_hit(self.nobody().get(path))
        assert again.body == first.body and int(again.header("Age")) >= 0, "the same page"
        # Kept pages are not for somebody, of whatever kind they are.
        for address in (path, "/", "/feed/", "/?s=curtain", f"/wp-json/wp/v2/posts/{post['id']}"):
            self.nobody().get(address)
            is_hit(self.nobody().get(address))
            passes_by(person.get(address))
        passes_by(person.get(path).expect("wpadminbar"))
        is_hit(self.nobody().get(path)).expect_not("wpadminbar")
        # Cookies that say nothing change nothing.
        counted = self.nobody()
        counted.cookies.update({"_ga": "1.2.3", "consent": "yes"})
        is_hit(counted.get(path))
        # A log-in that is not true is somebody's, too: WordPress says what it is worth.
        liar = self.nobody()
        liar.cookies["wordpress_logged_in_" + "0" * 32] = "critic|1|x|y"
        passes_by(liar.get(path)).expect_not("wpadminbar")
        for address in ("/wp-login.php", "/wp-admin/install.php"):
            assert self.nobody().get(address).header("Cache-Status") is None, address

    def a_comment_is_seen_after_a_purge(self, person, headers, post):
        path = post["path"]
        stranger = self.nobody()
        page = stranger.get(path)
        own = stranger.submit(page, page.form(id_="commentform"), {
            "comment": "Bravo, encore!", "author": "A Stranger", "email": "stranger@example.org",
            "wp-comment-cookies-consent": "yes"}, button="submit")
        own.expect("Bravo, encore!", "awaiting moderation")
        assert any(name.startswith("comment_author_") for name in stranger.cookies), stranger.cookies
        passes_by(stranger.get(path)).expect("Bravo, encore!", "A Stranger")
        is_hit(self.nobody().get(path)).expect_not("Bravo, encore!", "A Stranger")
        comment = json.loads(person.get("/wp-json/wp/v2/comments?status=hold", headers=headers).text)[0]
        person.post(f"/wp-json/wp/v2/comments/{comment['id']}", b'{"status": "approved"}', headers=headers)
        is_hit(self.nobody().get(path)).expect_not("Bravo, encore!")
        self.purge(f"tags/post-{post['id']}")
        shown = self.nobody().get(path).expect("Bravo, encore!").expect_not("awaiting moderation")
        # The form is as empty as for everybody.
        assert cache_status(shown).endswith("stored") and "stranger@example.org" not in shown.text, cache_status(shown)
        is_hit(self.nobody().get(path)).expect("Bravo, encore!")

    def new_posts_are_seen_after_a_purge(self, person, headers):
        front = f"http://127.0.0.1:{self.server.port}/"
        for title, what in (("Second night", "tags/list"), ("Third night", f"keys/{urllib.parse.quote(front, safe='')}"),
                            ("Fourth night", f"prefixes/{urllib.parse.quote(front, safe='')}")):
            self.nobody().get("/")
            self.publish(person, headers, {"title": title, "content": "Again."})
            is_hit(self.nobody().get("/")).expect_not(title)
            self.purge(what)
            self.nobody().get("/").expect(title)
            is_hit(self.nobody().get("/")).expect(title)

    def a_password_opens_for_one(self, person, headers):
        post = self.publish(person, headers, {"title": "Rehearsal", "content": "Only the cast may read it.", "password": "cast"})
        page = self.nobody().get(post["path"]).expect_not("Only the cast")
        cast = self.nobody()
        form = next(form for form in page.forms() if any(name == "post_password" for name, _ in form.values))
        cast.submit(page, form, {"post_password": "cast"})
        assert any(name.startswith("wp-postpass_") for name in cast.cookies), cast.cookies
        passes_by(cast.get(post["path"])).expect("Only the cast may read it")
        # From version 6.8 on WordPress forbids that the form is kept.
        again = self.nobody().get(post["path"]).expect_not("Only the cast")
        assert "detail=no-store" in cache_status(again) or is_hit(again), cache_status(again)

    def who_logs_out_is_nobody(self, person, post):
        page = person.get("/wp-admin/")
        leave = re.search(r"href=[\"']([^\"']*action=logout[^\"']*)", page.text).group(1)
        person.get(html.unescape(leave)).expect("logged out")
        self.nobody().get(post["path"])
        is_hit(person.get(post["path"])).expect_not("wpadminbar")
        person.get("/wp-admin/").expect("Username or Email Address")


def cache_status(page):
    return page.header("Cache-Status") or ""


def is_hit(page):
    assert "; hit" in cache_status(page) and page.header("Age") is not None, f"{page.url}: {cache_status(page)}"
    return page


def passes_by(page):
    """It has gone past the cache: not from there, and not into it."""
    assert "fwd=bypass" in cache_status(page) and "stored" not in cache_status(page), f"{page.url}: {cache_status(page)}"
    return page
