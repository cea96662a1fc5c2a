"""A site of PHP behind Caddy, with files, a service behind a path, redirects and closed places."""

import sys
from pathlib import Path

from imports.nginx import PICTURE, PROBE, NginxSite, pool
from imports.replay import Request
from imports.servers import Old, fpm_program, free_port, wait_until


def is_unknown_host(request, old, new, differing):
    return old.status == 200 and old.body == b"" and new.status == 404 and request.host not in ("site.example", "SITE.example", "site.example:8080")


class CaddySite(NginxSite):
    name = "caddy-php"
    kind = "caddy"
    folders = ("/", "/shop/", "/assets/", "/private/", "/plain/")
    scripts = ("/index.php", "/shop/index.php", "/shop/list.php")
    fields = ("x-frame-options", "x-content-type-options")
    allowed = (
        ("a host that no site is for: Caddy says 200 and nothing, Tutti 404", is_unknown_host),
        ("a script that is not there, with a path behind it: Tutti says 404, Caddy asks the front controller",
         lambda request, old, new, differing: ".php/" in request.target and old.status in (200, 404) and new.status in (404, 403)),
        ("Caddy leaves a path as it came where it is passed on, and with it what it did not find",
         lambda request, old, new, differing: "//" in request.target or "/./" in request.target or "/." in request.target),
        ("a file with a slash behind it: Caddy takes the slash away, Tutti has no such file",
         lambda request, old, new, differing: old.status == 308 and request.target.split("?")[0].endswith("/") and new.status in (200, 404)),
        ("Caddy tells PHP a type of the body where there is none",
         lambda request, old, new, differing: differing == ["body"] and b"CONTENT_TYPE=application/x-www-form-urlencoded" in old.body and b"CONTENT_TYPE=\n" in new.body),
        ("Tutti tells `X-Forwarded-Port` too", lambda request, old, new, differing: differing == ["body"] and b"x-forwarded-port" in new.body and b"x-forwarded-port" not in old.body),
        ("the type of a file is the system's list with Caddy", lambda request, old, new, differing: differing == ["type"] and "/assets/" in request.target),
        ("a `Host` with capitals or a port, sent in `X-Forwarded-Host`", lambda request, old, new, differing: request.target.startswith("/api") and request.host != "site.example"),
        ("a bad target: Caddy asks the front controller", lambda request, old, new, differing: new.status == 400 and "%" in request.target),
    )

    def prepare(self):
        for name in ("index.php", "shop/index.php", "shop/list.php", "private/x.php"):
            self.write(name, PROBE)
        for name in ("assets/app.css", "assets/app.js", "assets/data.json", "assets/logo.svg", "plain/a.html", "robots.txt", "about.html", "private/secret.txt", "assets/page.html", "shop/list.txt", "closed/a.txt"):
            self.write(name, f"the content of {name}\n" * 3)
        self.write("assets/big.bin", PICTURE * 10)

    def launch(self):
        self.old = Old(self.folder)
        self.backend_port = free_port()
        conf = self.folder / "fpm.conf"
        conf.write_text(f"[global]\nerror_log = {self.folder}/fpm.log\ndaemonize = no\ninclude = {pool(self.folder)}\n")
        self.old.run([fpm_program(), "-F", "-y", conf], "fpm-output.log")
        wait_until((self.folder / "fpm.sock").exists, 30, f"php-fpm: {self.old.log()}")
        (self.folder / "fpm.sock").chmod(0o777)
        self.old.run([sys.executable, Path(__file__).with_name("backend.py"), str(self.backend_port)], "backend.log")
        caddyfile = self.folder / "Caddyfile"
        caddyfile.write_text(f"""{{
    admin off
    auto_https off
}}

(safe) {{
    header {{
        X-Frame-Options {{args.0}}
        X-Content-Type-Options nosniff
        -X-Powered-By
    }}
}}

http://site.example:{self.old.port} {{
    bind 127.0.0.1
    root * {self.root}
    import safe DENY
    @closed path /private/* *.bak
    respond @closed 403
    redir /old /about.html permanent
    redir /moved/* https://other.example{{uri}}
    @post {{
        method POST
        path /no-post*
    }}
    respond @post 405
    handle_path /api/* {{
        reverse_proxy 127.0.0.1:{self.backend_port} {{
            header_up X-Kind api
        }}
    }}
    handle /assets/* {{
        file_server
    }}
    basicauth /closed/* {{
        ada JDJ5JDA1JG5GNmtySWhnd1NFR3k2SE81bDBZLy5yVEdiVkNJNUFRMFl2RDUyLjBNSlRnY1Y0bFM2RUtt
    }}
    handle {{
        php_fastcgi unix/{self.folder}/fpm.sock
        file_server
    }}
}}
""")
        self.old.run(["caddy", "run", "--config", caddyfile, "--adapter", "caddyfile"], "caddy.log", env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"})
        self.old.wait()
        return [caddyfile]

    def extra(self):
        made = ["/old", "/old?x=1", "/moved/a?b=c", "/api/", "/api/a/b?c=d", "/api", "/closed/a.txt", Request("GET", "/closed/a.txt", fields=(("Authorization", "Basic YWRhOnNlY3JldA=="),)), Request("GET", "/closed/none", fields=(("Authorization", "Basic YWRhOndyb25n"),)), "/private/secret.txt", "/PRIVATE/secret.txt", "/x.bak", "/blog/post?p=1", "/shop", "/shop?x=1", "/assets", "/no-post", Request("POST", "/no-post/x"), Request("POST", "/api/x", body=b"abc")]
        return made
