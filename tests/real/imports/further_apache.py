"""Further public applications on Apache, each configuration in our own words with the directives that its documentation uses."""

from imports.apache import ApacheSite, ReverseProxyApache
from imports.nginx import PROBE
from imports.public_apache import FORWARDED, Forwarded
from imports.replay import Request


class DiscourseOnApache(Forwarded):
    """Discourse in a container, behind Apache: the address of the client in a field, a page for when it is not there."""

    name = "apache-discourse"
    modules = ("proxy", "proxy_http")
    allowed = (*FORWARDED, *ReverseProxyApache.allowed)
    folders = ("/", "/t/", "/.well-known/", "/offline/")
    prefix = ""
    names = ("offline/index.html", "offline/a.css", ".well-known/acme-challenge/token", "robots.txt", "offline/b.png")

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    ServerAlias forum.site.example
    DocumentRoot {self.root}
    ProxyPreserveHost On
    ProxyRequests Off
    ProxyTimeout 300
    RequestHeader set X-Forwarded-Proto "http"
    RequestHeader unset X-Real-IP
    <Directory {self.root}>
        Options -Indexes
        Require all granted
    </Directory>
    ErrorDocument 503 /offline/index.html
    ErrorDocument 502 /offline/index.html
    ProxyPass /offline/ !
    ProxyPass /.well-known/acme-challenge/ !
    ProxyPass / http://127.0.0.1:{self.backend_port}/
    ProxyPassReverse / http://127.0.0.1:{self.backend_port}/
</VirtualHost>
"""

    def extra(self):
        return ["/t/a-topic/12?page=2", "/latest.json", "/uploads/default/none.png", "/message-bus/abc/poll", "/.well-known/acme-challenge/none", "/offline", Request("POST", "/posts", body=b"raw=hello")]


class MastodonOnApache(Forwarded):
    """Mastodon: files with long lifetimes, a server for the rest, one page for all errors."""

    name = "apache-mastodon"
    modules = ("proxy", "proxy_http", "proxy_wstunnel")
    allowed = (*FORWARDED, *ReverseProxyApache.allowed)
    folders = ("/", "/assets/", "/packs/", "/system/", "/emoji/")
    prefix = ""
    fields = ("cache-control", "x-content-type-options", "strict-transport-security")
    names = ("500.html", "sw.js", "robots.txt", "assets/a.css", "assets/b.js", "packs/c.js", "packs/d.css", "emoji/e.svg", "system/f.png", "avatars/g.png", "favicon.ico")

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.root}/
    Header always set Strict-Transport-Security "max-age=31536000"
    <Directory {self.root}>
        Require all granted
    </Directory>
    <LocationMatch "^/(assets|avatars|emoji|packs|system)/">
        Header always set Cache-Control "public, max-age=31536000, immutable"
        Require all granted
    </LocationMatch>
    <Location "/">
        Require all granted
    </Location>
    ProxyPreserveHost On
    RequestHeader set X-Forwarded-Proto "http"
    ProxyAddHeaders On
    ProxyPass /500.html !
    ProxyPass /sw.js !
    ProxyPass /robots.txt !
    ProxyPassMatch ^(/.*\\.(png|ico)$) !
    ProxyPassMatch ^/(assets|avatars|emoji|packs|system) !
    ProxyPass /api/v1/streaming/ http://127.0.0.1:{self.backend_port}/streaming/
    ProxyPassReverse /api/v1/streaming/ http://127.0.0.1:{self.backend_port}/streaming/
    ProxyPass / http://127.0.0.1:{self.backend_port}/
    ProxyPassReverse / http://127.0.0.1:{self.backend_port}/
    ErrorDocument 500 /500.html
    ErrorDocument 502 /500.html
    ErrorDocument 503 /500.html
    ErrorDocument 504 /500.html
</VirtualHost>
"""

    def extra(self):
        return ["/@ada", "/@ada/1?x=1", "/api/v1/timelines/home", "/api/v1/streaming/public?a=b", "/about", "/.well-known/webfinger?resource=acct:ada", "/packs/none.js", Request("POST", "/api/v1/statuses", body=b"status=hello")]


class JitsiOnApache(Forwarded):
    """Jitsi: a page for every room, files under other names, a server for signals (without its server-side includes)."""

    name = "apache-jitsi"
    modules = ("proxy", "proxy_http", "proxy_wstunnel")
    allowed = FORWARDED
    folders = ("/", "/libs/", "/css/", "/images/", "/static/")
    prefix = "/http-bind"
    names = ("index.html", "libs/a.js", "libs/b.map", "css/all.css", "images/logo.svg", "fonts/f.woff2", "static/x.html", "static/404.html", "sounds/s.mp3", "lang/main.json", "site-config.js")

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.root}
    <Directory {self.root}>
        Options FollowSymLinks
        AllowOverride All
        Order allow,deny
        Allow from all
        Require all granted
    </Directory>
    ErrorDocument 404 /static/404.html
    Alias /config.js {self.root}/site-config.js
    <Location /config.js>
        Require all granted
    </Location>
    Alias /external_api.js {self.root}/libs/a.js
    ProxyPreserveHost On
    ProxyPass /http-bind http://127.0.0.1:{self.backend_port}/http-bind
    ProxyPassReverse /http-bind http://127.0.0.1:{self.backend_port}/http-bind
    RewriteEngine on
    RewriteRule ^/([a-zA-Z0-9]+)$ /index.html
</VirtualHost>
"""

    def extra(self):
        return ["/MyRoom", "/MyRoom?jwt=1", "/my-room", "/config.js", "/config.js?v=1", "/external_api.js", "/libs/none.js", "/none/", Request("POST", "/http-bind?room=x", body=b"<body/>")]


class LaradockOnApache(ApacheSite):
    """The site of a container: versions of Apache are asked for, PHP in another one, Laravel's rules in its folder."""

    name = "apache-laradock"
    modules = ("proxy", "proxy_fcgi")
    has_pool = True
    scripts = ("/index.php", "/other.php")
    folders = ("/", "/css/", "/storage/")
    allowed = (
        ("a folder without an index: the front controller answers or takes the slash away, Apache says 403 or adds one", lambda request, old, new, differing: request.target.split("?")[0].rstrip("/") in ("/css", "/storage") and (old.status, new.status) in ((403, 301), (301, 200))),
    )

    def prepare(self):
        for name in ("public/index.php", "public/other.php"):
            self.write(name, PROBE)
        for name in ("public/css/app.css", "public/js/app.js", "public/robots.txt", "public/storage/a.png", ".env", "public/favicon.ico"):
            self.write(name, f"the content of {name}\n" * 3)
        self.write("public/.htaccess", r"""
<IfModule mod_rewrite.c>
    <IfModule mod_negotiation.c>
        Options -MultiViews -Indexes
    </IfModule>
    RewriteEngine On
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_URI} (.+)/$
    RewriteRule ^ %1 [L,R=301]
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteRule ^ index.php [L]
</IfModule>
""")

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.root}/public
    DirectoryIndex index.php
    Options Indexes FollowSymLinks
    <Directory "{self.root}/public/">
        AllowOverride All
        <IfVersion < 2.4>
            Allow from all
        </IfVersion>
        <IfVersion >= 2.4>
            Require all granted
        </IfVersion>
    </Directory>
    <FilesMatch "\\.php$">
        SetHandler "proxy:unix:{self.folder}/fpm.sock|fcgi://localhost"
    </FilesMatch>
</VirtualHost>
"""

    def paths(self):
        return ["/css/app.css", "/js/app.js", "/robots.txt", "/storage/a.png", "/favicon.ico"]

    def extra(self):
        return [*(f"/users/{number}?page={number}" for number in range(90)), "/users/5/", "/none.php", "/index.php/users", "/../.env", "/css/none.css"]


FURTHER_APACHE = (DiscourseOnApache, MastodonOnApache, JitsiOnApache, LaradockOnApache)
