"""CGI scripts: gitweb with git's own server of repositories, and AWStats, both Debian's packages, each used like a person."""

import gzip
import subprocess
from pathlib import Path
from random import Random

from servers import own


class CgiSite:
    """PHP's peer cannot serve it, so it is Tutti's alone."""

    only_tutti = True
    environment = {}

    def __init__(self, folder):
        self.root = folder / "site"

    def after_start(self, server):
        self.server = server

    def stop(self):
        pass

    @staticmethod
    def application(folder, script, prefix, environment):
        return {"type": "cgi", "root": str(folder), "script": script, "prefix": prefix, "environment": environment,
                "processes": {"max": 4, "spare": 1}, "limits": {"timeout": 60}}


class GitWeb(CgiSite):
    """A repository is read in the browser, cloned, and pushed to."""

    name = "gitweb"
    folder = Path("/usr/share/gitweb")

    @classmethod
    def missing(cls):
        if not (cls.folder / "gitweb.cgi").exists():
            return "gitweb is not installed"
        has_module = subprocess.run(["perl", "-MCGI", "-e", "1"], capture_output=True).returncode == 0
        return None if has_module else "Perl's module CGI (libcgi-pm-perl) is not installed"

    def git(self, *arguments, folder=None):
        identity = ["-c", "user.name=Jürgen", "-c", "user.email=j@example.org", "-c", "init.defaultBranch=main"]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.root), "GIT_TERMINAL_PROMPT": "0"}
        done = subprocess.run(["git", *identity, *arguments], cwd=folder or self.root, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"git {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def prepare(self):
        self.root.mkdir()
        work = self.root / "work"
        self.git("init", "-q", str(work))
        (work / "grüße.txt").write_text("Grüße <b>&\n")
        (work / "large.bin").write_bytes(bytes(range(256)) * 20000)
        self.git("add", ".", folder=work)
        self.git("commit", "-qm", "The first tune", folder=work)
        self.git("clone", "-q", "--bare", str(work), "repositories/tune.git")
        self.git("config", "http.receivepack", "true", folder=self.root / "repositories/tune.git")
        (self.root / "gitweb.conf").write_text(
            f'$projectroot = "{self.root}/repositories";\n$feature{{"snapshot"}}{{"default"}} = ["tgz"];\n@stylesheets = ("/git/static/gitweb.css");\n')
        own(self.root)

    def tutti(self, address):
        backend = self.git("--exec-path").strip()
        return {
            "settings": {"http": {"max_body_size": 64 << 20}},
            "listeners": {address: {"pass": "routes"}},
            "routes": [
                {"match": {"uri": "/git/static/*"}, "action": {"share": f"{self.folder}$uri", "prefix": "/git"}},
                {"match": {"uri": ["/git", "/git/*"]}, "action": {"pass": "applications/gitweb"}},
                {"match": {"uri": "/clone/*"}, "action": {"pass": "applications/clone"}},
            ],
            "applications": {
                "gitweb": self.application(self.folder, "gitweb.cgi", "/git", {"GITWEB_CONFIG": str(self.root / "gitweb.conf")}),
                "clone": self.application(backend, "git-http-backend", "/clone",
                                          {"GIT_PROJECT_ROOT": str(self.root / "repositories"), "GIT_HTTP_EXPORT_ALL": "1"}),
            },
        }

    def journey(self, person, root):
        person.get("/git").expect("tune.git", 'href="/git/static/gitweb.css"')
        person.get("/git/static/gitweb.css").expect("body {")
        person.get("/git?p=tune.git;a=summary").expect("The first tune", "Jürgen")
        person.get("/git/tune.git/blob/HEAD:/gr%C3%BC%C3%9Fe.txt").expect("Grüße", "&lt;b&gt;")
        plain = person.get("/git?p=tune.git;a=blob_plain;f=large.bin;hb=HEAD")
        assert plain.body == bytes(range(256)) * 20000, len(plain.body)
        packed = person.get("/git?p=tune.git;a=snapshot;h=HEAD;sf=tgz")
        assert b"large.bin" in gzip.decompress(packed.body)
        person.get("/git?p=tune.git;a=search;s=first;st=commit").expect("The first tune")
        person.get("/git?p=none.git;a=summary", status=404).expect("No such project")
        head = person.request("HEAD", "/git?p=tune.git;a=summary")
        assert head.body == b"", head.body
        self.clone_and_push(person)
        person.get("/git?p=tune.git;a=log").expect("The second tune", "The first tune")
        return "/git"

    def clone_and_push(self, person):
        url = f"http://127.0.0.1:{self.server.port}/clone/tune.git"
        clone = self.root / "clone"
        self.git("clone", "-q", url, str(clone))
        assert (clone / "large.bin").stat().st_size == 256 * 20000
        # More than git keeps in one request: it is sent in chunks.
        (clone / "other.bin").write_bytes(Random(1).randbytes(5_000_000))
        self.git("add", ".", folder=clone)
        self.git("commit", "-qm", "The second tune", folder=clone)
        self.git("push", "-q", "origin", "HEAD", folder=clone)


class AwStats(CgiSite):
    """Statistics of a log, made by the script itself when its reader asks for them."""

    name = "awstats"
    script = Path("/usr/lib/cgi-bin/awstats.pl")
    icons = Path("/usr/share/awstats/icon")

    @classmethod
    def missing(cls):
        return None if cls.script.exists() else "awstats is not installed"

    def prepare(self):
        data = self.root / "data"
        data.mkdir(parents=True)
        lines = [f'192.0.2.{visitor} - - [10/Oct/2025:13:{minute:02}:36 +0000] "GET /page{visitor % 3}.html HTTP/1.1" 200 2326 '
                 f'"http://example.net/" "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0"\n'
                 for minute in range(60) for visitor in range(1, 8)]
        (self.root / "access.log").write_text("".join(lines))
        (self.root / "awstats.tune.conf").write_text(
            f'LogFile="{self.root}/access.log"\nLogFormat=1\nSiteDomain="tune.example"\nDirData="{data}"\nDirIcons="/awstats-icon"\n'
            "HostAliases=\"localhost\"\nDNSLookup=0\nUseFramesWhenCGI=0\nAllowToUpdateStatsFromBrowser=1\n")
        own(self.root)

    def tutti(self, address):
        return {
            "listeners": {address: {"pass": "routes"}},
            "routes": [
                {"match": {"uri": "/awstats-icon/*"}, "action": {"share": f"{self.icons}$uri", "prefix": "/awstats-icon"}},
                {"action": {"pass": "applications/awstats"}},
            ],
            "applications": {"awstats": {
                "type": "cgi", "root": str(self.script.parent), "prefix": "/cgi-bin", "extensions": [".pl"],
                "environment": {"AWSTATS_ENABLE_CONFIG_DIR": str(self.root)}}},
        }

    def journey(self, person, root):
        url = f"/cgi-bin/awstats.pl?config=tune&configdir={self.root}&month=10&year=2025"
        person.get(f"{url}&update=1").expect("tune.example", "420")
        page = person.get(f"{url}&output=urldetail").expect("/page0.html", "/page1.html", "/page2.html")
        assert page.header("Content-Type").startswith("text/html"), page.headers
        person.get(f"{url}&output=allhosts").expect("192.0.2.7")
        person.get("/awstats-icon/browser/firefox.png")
        person.get("/cgi-bin/awstats.pl?config=none", status=200).expect("Error")
        person.get("/cgi-bin/none.pl", status=404)
        return url
