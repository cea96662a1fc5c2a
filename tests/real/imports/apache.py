"""Sites on Apache: with PHP in it, with PHP-FPM, with mod_wsgi, as a proxy."""

import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urljoin

from imports.nginx import PICTURE, PROBE, pool
from imports.replay import Request, requests_for
from imports.servers import IS_ROOT, OldApache
from imports.site import FileSite

# Modules that Debian switches on, and those that its packages of applications want.
USUAL = ("access_compat", "alias", "authz_core", "authz_host", "authn_core", "auth_basic", "authn_file", "authz_user", "deflate", "dir", "env", "filter", "mime", "negotiation", "setenvif", "rewrite", "headers", "expires", "autoindex")


def is_encoded_slash(request, old, new, differing):
    return old.status == 404 and "%2f" in request.target.lower()


def is_file_with_path(request, old, new, differing):
    return old.status == 404 and new.status == 200 and b"SCRIPT_NAME=/index.php" in new.body and request.target.endswith("/")


def is_closed_name_of_nothing(request, old, new, differing):
    return old.status in (200, 404) and new.status == 403 and b".ht" not in old.body[:20] and any(name in request.target for name in ("/a/.ht", "/deep/evil.php"))


def is_refused_index_of_nothing(request, old, new, differing):
    """Tutti refuses the index before it looks for the folder, which must not be listed."""
    return request.target.partition("?")[0].endswith("/") and new.status == 403 and (old.status == 404 or b"REQUEST_METHOD=" in old.body)


def is_other_name_of_type(request, old, new, differing):
    return differing == ["type"] and "favicon.ic" in request.target


# Differences of Apache and any other server.
APACHE = (
    ("an encoded slash: Apache says 404 to all of them, Tutti decodes it before it asks who may", is_encoded_slash),
    ("a file with a path behind it: Apache says 404 where no script answers, Tutti asks the front controller", is_file_with_path),
    ("a name that is closed, in a folder that is not there: Apache's front controller answers, Tutti says 403", is_closed_name_of_nothing),
    ("an index that is closed, of a folder that is not there: Apache says 404 or asks the front controller, Tutti says 403", is_refused_index_of_nothing),
    ("a method that no file has: Apache answers as if it were GET, Tutti says 405", lambda request, old, new, differing: request.method == "POST" and old.status in (200, 404) and new.status in (404, 405)),
    ("the type of icons has two names", is_other_name_of_type),
)


def names_in(page, request):
    """Where the links of a folder's list lead; not up, and not to the list in another order."""
    folder = request.target.split("?")[0]
    links = re.findall(rb'<a href="([^"?]+)"', page)
    led = {unquote(urljoin(folder, link.decode())) for link in links}
    return {path for path in led if path.startswith(unquote(folder)) and path != unquote(folder)}


class ApacheSite(FileSite):
    """Files, Apache's file of the site, and a server around it as Debian has it."""

    kind = "apache"
    modules = ("php",)
    has_pool = False

    def launch(self):
        self.old = OldApache(self.folder)
        file = pool(self.folder, self.pool_more) if self.has_pool else None
        return self.old.start(self.configuration(self.old.port), (*USUAL, *self.modules), file)

    def __init_subclass__(cls):
        cls.allowed = (*cls.__dict__.get("allowed", ()), *APACHE)

    def requests(self):
        return requests_for(self.paths(), self.folders, self.hosts, self.scripts, (*self.encoded(), *self.extra()))

    def encoded(self):
        """Slashes and periods that are encoded, and names that Apache closes."""
        some = [path for path in self.paths() if path.count("/") > 1][:3]
        made = [path[0] + path[1:].replace("/", "%2F", 1) for path in some]
        return [*made, "/.htaccess", "/.htpasswd", "/%2ehtaccess", "/.HTACCESS", "/.htaccess/x", "/a/.htaccess", "/index.php.bak", "/.user.ini"]


# Where Debian's php8.2.conf says which files are scripts.
PHP = r"""
<FilesMatch ".+\.ph(?:ar|p|tml)$">
    SetHandler application/x-httpd-php
</FilesMatch>
<FilesMatch ".+\.phps$">
    SetHandler application/x-httpd-php-source
    Require all denied
</FilesMatch>
<FilesMatch "^\.ph(?:ar|p|ps|tml)$">
    Require all denied
</FilesMatch>
"""


class WordPressRules(ApacheSite):
    """The .htaccess that WordPress writes, with what people put beside it."""

    name = "apache-wordpress"
    folders = ("/", "/wp-admin/", "/wp-content/", "/wp-content/uploads/", "/wp-includes/")
    scripts = ("/index.php", "/wp-login.php", "/wp-admin/index.php", "/wp-content/uploads/evil.php", "/wp-config.php", "/xmlrpc.php")
    fields = ("x-content-type-options", "cache-control", "x-frame-options")

    def prepare(self):
        for name in ("index.php", "wp-login.php", "wp-admin/index.php", "wp-content/uploads/evil.php", "wp-config.php", "xmlrpc.php", "wp-content/index.php"):
            self.write(name, PROBE)
        for name in ("readme.html", "wp-includes/a.js", "wp-content/themes/t/style.css", "wp-content/uploads/b.txt", "wp-includes/images/x.svg", "license.txt", "wp-content/debug.log", "wp-admin/css/c.css"):
            self.write(name, f"the content of {name}\n" * 3)
        self.write("wp-content/uploads/picture.jpg", PICTURE)
        self.write(".htaccess", r"""
# BEGIN WordPress
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
# END WordPress
<Files wp-config.php>
    Require all denied
</Files>
<Files xmlrpc.php>
    Order Deny,Allow
    Deny from all
</Files>
<FilesMatch "\.(log|sql|bak)$">
    Require all denied
</FilesMatch>
<IfModule mod_expires.c>
    ExpiresActive On
    ExpiresByType image/jpeg "access plus 1 year"
    ExpiresByType text/css "access plus 1 month"
</IfModule>
Header set X-Content-Type-Options "nosniff"
Header always set X-Frame-Options SAMEORIGIN
Options -Indexes
""")
        self.write("wp-content/uploads/.htaccess", "<Files *.php>\nRequire all denied\n</Files>\n")

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    ServerAlias www.site.example *.wild.example
    DocumentRoot {self.root}
    DirectoryIndex index.php index.html
    <Directory {self.root}/>
        AllowOverride All
        Require all granted
    </Directory>
    {PHP}
    php_admin_value memory_limit 96M
</VirtualHost>
"""

    def extra(self):
        return ["/2026/11/hello/", "/category/x?paged=2", "/wp-admin", "/wp-admin/none", "/wp-content/", "/wp-content", "/index.php/2026/a", "/wp-login.php/x", "/wp-content/uploads/deep/evil.php", "/wp-config.php/x", "/WP-CONFIG.PHP",
                Request("GET", "/page", host="www.site.example"), Request("GET", "/page", host="a.wild.example")]


class Laravel(ApacheSite):
    """Laravel's public/.htaccess, behind PHP-FPM with the file of its pool."""

    name = "apache-laravel"
    modules = ("proxy", "proxy_fcgi")
    has_pool = True
    scripts = ("/index.php", "/other.php")
    folders = ("/", "/build/", "/storage/")
    pool_more = "env[APP_ENV] = staging"

    allowed = (
        ("a folder without an index: the front controller answers or takes the slash away, Apache says 403 or adds one", lambda request, old, new, differing: request.target.split("?")[0].rstrip("/") in ("/build", "/storage") and (old.status, new.status) in ((403, 301), (301, 200))),
    )

    def prepare(self):
        for name in ("index.php", "other.php"):
            self.write(name, PROBE)
        for name in ("build/app.js", "build/app.css", "favicon.ico", "robots.txt", "storage/a.pdf", "storage/b.txt", "hot.html", "build/manifest.json", "web.config"):
            self.write(name, f"the content of {name}\n" * 2)
        self.write(".htaccess", r"""
<IfModule mod_rewrite.c>
    <IfModule mod_negotiation.c>
        Options -MultiViews -Indexes
    </IfModule>

    RewriteEngine On

    # Handle Authorization Header
    RewriteCond %{HTTP:Authorization} .
    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]

    # Redirect Trailing Slashes If Not A Folder...
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_URI} (.+)/$
    RewriteRule ^ %1 [L,R=301]

    # Send Requests To Front Controller...
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteRule ^ index.php [L]
</IfModule>
""")

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.root}
    DirectoryIndex index.php
    <Directory {self.root}>
        AllowOverride All
        Require all granted
    </Directory>
    <FilesMatch \\.php$>
        SetHandler "proxy:unix:{self.folder}/fpm.sock|fcgi://localhost"
    </FilesMatch>
</VirtualHost>
"""

    def extra(self):
        return ["/users/1/edit", "/users/1/edit/", "/users/?page=2", "/api/v1/items?page=2", "/build", "/index.php/users/1"]


class Symfony(ApacheSite):
    """The virtual host of Symfony's documentation, with other places closed and redirected."""

    name = "apache-symfony"
    modules = ("proxy", "proxy_fcgi")
    has_pool = True
    scripts = ("/index.php", "/other.php")
    folders = ("/", "/bundles/", "/private/", "/old/")
    fields = ("x-frame-options",)

    def prepare(self):
        for name in ("index.php", "other.php"):
            self.write(name, PROBE)
        for name in ("bundles/app.js", "bundles/app.css", "favicon.ico", "robots.txt", "private/secret.txt", "local/a.txt", "x.txt", "bundles/é.txt"):
            self.write(name, f"the content of {name}\n" * 2)

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    ServerAlias www.site.example
    DocumentRoot {self.root}
    Header always set X-Frame-Options DENY
    Redirect permanent /old/place http://site.example/new
    RedirectMatch 404 /\\.git
    RedirectMatch 302 ^/docs/(.*)\\.htm$ /documents/$1
    Redirect gone /gone
    <FilesMatch \\.php$>
        SetHandler proxy:unix:{self.folder}/fpm.sock|fcgi://dummy
    </FilesMatch>
    <Directory {self.root}>
        AllowOverride None
        Require all granted
        FallbackResource /index.php
    </Directory>
    <Directory {self.root}/bundles>
        DirectoryIndex disabled
        FallbackResource disabled
    </Directory>
    <Location /private>
        Require ip 10.0.0.0/8
    </Location>
    <Location /local>
        Require local
    </Location>
</VirtualHost>
<VirtualHost *:{port}>
    ServerName old.example
    RewriteEngine On
    RewriteCond %{{HTTP_HOST}} ^old\\. [NC]
    RewriteRule ^/(.*)$ http://site.example/$1 [R=301,L]
</VirtualHost>
"""

    def paths(self):
        return [path.replace("é", "%C3%A9") for path in super().paths()]

    def extra(self):
        return ["/users/1/edit", "/old/place", "/old/place/x?y=1", "/old/placement", "/docs/a.htm", "/docs/a.htm?x=1", "/.git/config", "/a/.git", "/gone", "/gone/x", "/private", "/privatex", "/local/a.txt", "/index.php/users/1",
                Request("GET", "/a/b?c=d", host="old.example"), Request("POST", "/a", host="old.example"), Request("GET", "/x.txt", host="www.site.example")]


class ReverseProxyApache(ApacheSite):
    """A balancer, paths that are left out, WebSocket, an application on another path."""

    name = "apache-proxy"
    modules = ("proxy", "proxy_http", "proxy_balancer", "lbmethod_byrequests", "slotmem_shm", "proxy_wstunnel")
    scripts = ()
    folders = ("/", "/api/", "/app/", "/static/", "/admin/", "/static/staff/")
    allowed = (("Apache decodes a path and encodes it anew, Tutti sends it as the client encoded it", lambda request, old, new, differing: differing == ["body"] and "%26" in request.target),)

    def prepare(self):
        from harness.servers import free_port
        self.backend_port = free_port()
        for name in ("static/a.css", "static/b.js", "static/c.png", "static/sub/d.txt", "static/staff/e.txt", "maintenance.html", "static/missing.html"):
            self.write(name, f"server page {name}\n" * 2)
        # bcrypt of `secret`, as `htpasswd -B` makes it.
        (self.folder / "htpasswd").write_text("anna:$2y$05$nF6krIhgwSEGy6HO5l0Y/.rTGbVCI5AQ0YvD52.0MJTgcV4lS6EKm\n")

    def start_old(self):
        import socket
        import sys

        from harness.processes import wait_until
        files = super().start_old()
        self.old.run([sys.executable, Path(__file__).with_name("backend.py"), str(self.backend_port)], "backend.log")

        def answers():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.backend_port)) == 0
        wait_until(answers, 30, "the server behind")
        return files

    def configuration(self, port):
        return f"""
<Proxy balancer://app>
    BalancerMember http://127.0.0.1:{self.backend_port} loadfactor=2
    ProxySet lbmethod=byrequests
</Proxy>
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.root}
    ProxyPreserveHost On
    ProxyTimeout 90
    <Directory {self.root}>
        Require all granted
    </Directory>
    <Location /admin>
        Require ip 192.0.2.0/24
    </Location>
    <Location /static/staff>
        AuthType Basic
        AuthName "Staff only"
        AuthUserFile {self.folder}/htpasswd
        Require valid-user
    </Location>
    ErrorDocument 404 /static/missing.html
    RequestHeader set X-Forwarded-Proto "http"
    Header unset X-Backend
    ProxyPass /static !
    ProxyPass /maintenance.html !
    ProxyPass /api/ http://127.0.0.1:{self.backend_port}/v1/
    ProxyPass /app http://127.0.0.1:{self.backend_port}/app
    ProxyPassReverse /app http://127.0.0.1:{self.backend_port}/app
    ProxyPass /ws/ ws://127.0.0.1:{self.backend_port}/ws/
    ProxyPass / balancer://app/
    ProxyPassReverse / balancer://app/
</VirtualHost>
"""

    def requests(self):
        paths = [f"/page/{number}?n={number}" for number in range(60)] + [f"/api/items/{number}" for number in range(30)] + [f"/app/{number}/x" for number in range(20)]
        made = requests_for(self.paths(), self.folders, self.hosts, (), paths)
        for word in ("YW5uYTpzZWNyZXQ=", "YW5uYTp3cm9uZw=="):
            made += [Request("GET", target, fields=(("Authorization", f"Basic {word}"),)) for target in ("/static/staff/e.txt", "/static/staff/none")]
        made += [Request(method, path, body=b"a=b" if method in ("POST", "PUT") else b"") for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD") for path in ("/x", "/api/x", "/app/x", "/redirect", "/error")]
        return made


class DebianDefault(ApacheSite):
    """Debian's own files as they are after its installation, but for port and folder."""

    name = "apache-debian"
    folders = ("/", "/sub/", "/icons/", "/cgi-bin/", "/server-status/", "/with/")
    scripts = ()
    # Debian's `DirectoryIndex` names index.php, and nothing here runs it.
    lost = ("DirectoryIndex",)
    allowed = (
        ("a list of a folder looks otherwise and names the same", lambda request, old, new, differing: differing == ["body"] and b"<title>Index of" in old.body and names_in(old.body, request) == names_in(new.body, request) != set()),
        ("Apache's own page of its state", lambda request, old, new, differing: "/server-status" in request.target),
    )
    default = ("access_compat", "alias", "auth_basic", "authn_core", "authn_file", "authz_core", "authz_host", "authz_user", "autoindex", "deflate", "dir", "env", "filter", "mime", "mpm_event", "negotiation", "reqtimeout", "setenvif", "status")

    def prepare(self):
        for name in ("index.html", "a.txt", "style.css", "app.js", "pic.svg", "data.json", "sub/page.html", "sub/b.xml", "with/index.htm", "with/a.tar.gz", "x.bz2", "font.woff2", ".hidden", "sub/.htaccess", ".htpasswd", "film.mp4", "Ü space.txt", "with/old.txt~", "with/RCS"):
            self.write(name, f"the content of {name}\n" * 3)

    def start_old(self):
        self.root.mkdir()
        self.prepare()
        for path in [self.root, *self.root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.old = OldApache(self.folder)
        server = self.folder / "etc-apache2"
        shutil.copytree("/etc/apache2", server, symlinks=True, ignore=shutil.ignore_patterns("*-enabled"))
        for kind, names in (("mods", self.default), ("conf", ("charset", "localized-error-pages", "other-vhosts-access-log", "security", "serve-cgi-bin")), ("sites", ("000-default",))):
            (server / f"{kind}-enabled").mkdir()
            for name in names:
                for ending in ("load", "conf"):
                    if (server / f"{kind}-available" / f"{name}.{ending}").exists():
                        (server / f"{kind}-enabled" / f"{name}.{ending}").symlink_to(f"../{kind}-available/{name}.{ending}")
        self.change(server / "ports.conf", "Listen 80", f"Listen 127.0.0.1:{self.old.port}")
        self.change(server / "sites-available/000-default.conf", "*:80", f"*:{self.old.port}")
        self.change(server / "sites-available/000-default.conf", "/var/www/html", str(self.root))
        self.change(server / "apache2.conf", "<Directory /var/www/>", f"<Directory {self.root}/>")
        for folder in ("log", "run", "lock"):
            (self.folder / folder).mkdir()
        with (server / "envvars").open("a") as file:
            file.write(f"\nexport APACHE_RUN_USER={'nobody' if IS_ROOT else ''}\nexport APACHE_RUN_GROUP=nogroup\nexport APACHE_RUN_DIR={self.folder}/run\nexport APACHE_LOCK_DIR={self.folder}/lock\nexport APACHE_LOG_DIR={self.folder}/log\nexport APACHE_PID_FILE={self.folder}/run/pid\n")
        return self.old.start_debian(server)

    def change(self, path, old, new):
        text = path.read_text()
        assert old in text, (path, old)
        path.write_text(text.replace(old, new))

    def paths(self):
        return [path.replace(" ", "%20").replace("Ü", "%C3%9C") for path in super().paths()]

    def extra(self):
        return ["/icons/text.gif", "/icons", "/icons/", "/icons/none.gif", "/sub", "/with", "/server-status?auto", "/cgi-bin/x", "/film.mp4/x", "/index.html/x", "/.hidden/x"]


class DokuWikiPackage(ApacheSite):
    """Debian's package with its own apache.conf and its .htaccess files, below `/dokuwiki`."""

    name = "apache-dokuwiki"
    folders = ("/", "/dokuwiki/", "/dokuwiki/lib/", "/dokuwiki/data/", "/dokuwiki/conf/", "/dokuwiki/inc/", "/dokuwiki/bin/", "/dokuwiki/vendor/")
    scripts = ("/dokuwiki/doku.php", "/dokuwiki/lib/exe/css.php", "/dokuwiki/inc/init.php", "/dokuwiki/conf/local.php", "/dokuwiki/bin/wantedpages.php", "/dokuwiki/lib/exe/indexer.php")
    # The farm of sites that the package's file has, and that is not used.
    lost = ("AliasMatch",)
    scrub = (
        (rb'sectok[^0-9a-f]{1,30}[0-9a-f]{32}', b"TOKEN"),
        (rb'"[^"]*sectok[^"]*"', b"TOKEN"),
        (rb"tseed=[0-9a-f]+", b""),
        (rb"taskrunner[.]php[^\"]*", b""),
    )
    wanted = ("/lib/tpl/dokuwiki/images/logo.png", "/lib/images/smileys/facepalm.svg", "/lib/tpl/dokuwiki/style.ini", "/lib/scripts/script.js", "/README", "/COPYING", "/VERSION", "/conf/mime.conf", "/data/pages/start.txt", "/vendor/README", "/inc/html.php.txt")
    allowed = (
        ("an address of the farm answers 403", lambda request, old, new, differing: "/dokuwiki/sites/" in request.target),
    )

    def prepare(self):
        from sites.dokuwiki import DokuWiki
        self.root.rmdir()
        self.wiki = DokuWiki(self.folder)
        self.wiki.root = self.root
        self.wiki.prepare()
        (self.folder / "nothing").mkdir(mode=0o755)

    def configuration(self, port):
        text = Path("/etc/dokuwiki/apache.conf").read_text().replace("/usr/share/dokuwiki", str(self.root)).replace("/var/lib/dokuwiki/data", f"{self.root}/data")
        return f"""
{text}
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.folder}/nothing
    DirectoryIndex index.html index.php
    {PHP}
    <Directory {self.root}>
        Require all granted
    </Directory>
    <Directory {self.folder}/nothing>
        Require all granted
    </Directory>
</VirtualHost>
"""

    def paths(self):
        return [f"/dokuwiki{path}" for path in self.wanted if (self.root / path[1:]).is_file()]

    def extra(self):
        return ["/dokuwiki", "/dokuwiki/doku.php?id=start", "/dokuwiki/doku.php/start", "/dokuwiki/doku.php?id=none", "/dokuwiki/doku.php?id=start&do=login", "/dokuwiki/lib/exe/fetch.php?media=x", "/dokuwiki/lib/exe/js.php?t=dokuwiki", "/dokuwiki/.git/config", "/dokuwiki/sites/a",
                "/dokuwiki/data/pages/start.txt", "/dokuwiki/conf/users.auth.php", "/dokuwiki/conf/../conf/local.php", "/dokuwiki/%64ata/pages/start.txt", "/dokuwiki/_htx", "/dokuwiki/lib/.htaccess"]


class PhpMyAdminPackage(ApacheSite):
    """Debian's package with its own apache.conf, below `/phpmyadmin`, beside the default site."""

    name = "apache-phpmyadmin"
    folders = ("/", "/phpmyadmin/", "/phpmyadmin/js/", "/phpmyadmin/libraries/", "/phpmyadmin/templates/", "/phpmyadmin/themes/", "/phpmyadmin/setup/")
    scripts = ("/phpmyadmin/index.php", "/phpmyadmin/libraries/classes/Url.php", "/phpmyadmin/show_config_errors.php")
    scrub = (
        (rb"[0-9a-f]{32}", b"TOKEN"),
        (rb"(?:token|phpMyAdmin|pma_lang|nocache|_nocache|v|s|server_time|PMA_VERSION|time)(?:=|:|\" value=\")[\"']?[0-9A-Za-z%+/.-]*", b"RANDOM"),
        (rb"name=\"[^\"]*\" value=\"[^\"]*\"", b"FIELD"),
        (rb"\d{10}(\.\d+)?", b"TIME"),
    )
    # Debian's package links to other packages; who trusts them takes the option out, as the hint says.
    lost = ("Options SymLinksIfOwnerMatch",)
    wanted = ("/js/vendor/jquery/jquery.min.js", "/themes/pmahomme/css/theme.css", "/themes/pmahomme/img/logo_right.png", "/favicon.ico", "/robots.txt", "/themes/dot.gif", "/libraries/classes/Url.php", "/templates/login/header.twig", "/doc/html/index.html", "/README")

    @staticmethod
    def adjust(configuration, port):
        for steps in configuration["routes"].values():
            for step in steps:
                action = step["action"]
                while action:
                    action.pop("follow_symlinks", None)
                    action = action.get("fallback")

    def prepare(self):
        self.write("index.html", "the content of index.html\n")

    def configuration(self, port):
        return f"""
Include /etc/phpmyadmin/apache.conf
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.root}
    DirectoryIndex index.html index.php
    {PHP}
    <Directory {self.root}>
        Require all granted
    </Directory>
</VirtualHost>
"""

    def paths(self):
        return ["/index.html", *(f"/phpmyadmin{path}" for path in self.wanted if (Path("/usr/share/phpmyadmin") / path[1:]).is_file() and not path.endswith(".php"))]

    def extra(self):
        return ["/phpmyadmin", "/phpmyadmin/index.php?route=/", "/phpmyadmin/index.php?route=/server/status", "/phpmyadmin/url.php?url=https%3A%2F%2Fwww.phpmyadmin.net%2F", "/phpmyadmin/templates/login/header.twig", "/phpmyadmin/libraries", "/phpmyadmin/libraries/none", "/phpmyadminx"]


class DjangoOnApache(ApacheSite):
    """Django with its admin, by mod_wsgi, as its documentation has it."""

    name = "apache-django"
    modules = ("wsgi",)
    hosts = ("127.0.0.1",)
    scrub = ((rb'name="csrfmiddlewaretoken" value="[^"]*"', b"TOKEN"),)
    allowed = (
        ("a path with `//` or `%2e`: both resolve it, Apache leaves it to the application as it came", lambda request, old, new, differing: "//" in request.target or "%2e" in request.target.lower()),
        ("an unread body", lambda request, old, new, differing: old.status == 0 and bool(request.body)),
    )

    def start_old(self):
        from sites.django import Django
        self.django = Django(self.folder)
        self.django.prepare()
        self.root = self.django.root
        self.old = OldApache(self.folder)
        return self.old.start(self.configuration(self.old.port), (*USUAL, *self.modules))

    def configuration(self, port):
        from sites.python_site import environment
        return f"""
WSGISocketPrefix {self.folder}/wsgi
<VirtualHost *:{port}>
    ServerName site.example
    WSGIDaemonProcess site processes=2 threads=4 python-home={environment()} python-path={self.root} home={self.root} {"user=nobody group=nogroup" if IS_ROOT else ""} display-name=%{{GROUP}}
    WSGIProcessGroup site
    WSGIScriptAlias / {self.root}/site_wsgi.py
    Alias /static/ {self.root}/static/
    <Directory {self.root}/static>
        Require all granted
    </Directory>
    <Directory {self.root}>
        <Files site_wsgi.py>
            Require all granted
        </Files>
    </Directory>
</VirtualHost>
"""

    def requests(self):
        files = ["/static/admin/css/base.css", "/static/admin/js/theme.js", "/static/admin/img/icon-yes.svg", "/static/admin/css/login.css"]
        made = requests_for(files, ("/static/", "/static/admin/", "/admin/"), hosts=self.hosts, extra=["/", "/admin/login/", "/admin/login/?next=/admin/", "/admin/notes/note/", "/no/such/page", "/admin", "/static", "/static/no-such.css", "/site_wsgi.py", "/static/../settings.py"])
        made += [Request("GET", f"/admin/notes/note/{number}/change/", host="127.0.0.1") for number in range(60)]
        made += [Request(method, path, host="127.0.0.1") for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS") for path in ("/", "/admin/", "/admin/login/", "/none/")]
        return list(dict.fromkeys(made))
