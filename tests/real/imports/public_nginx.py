"""Public applications behind nginx, each configuration in our own words with the directives that its documentation uses."""

import socket
import sys
from pathlib import Path

from imports.nginx import PICTURE, PROBE, NginxSite
from imports.replay import Request
from imports.servers import free_port, wait_until


class Behind(NginxSite):
    """A site with a server behind it, which says what it was asked."""

    has_php = False
    scripts = ()

    def launch(self):
        self.backend_port = free_port()
        files = super().launch()
        self.old.run([sys.executable, Path(__file__).with_name("backend.py"), str(self.backend_port)], "backend.log")

        def answers():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.backend_port)) == 0
        wait_until(answers, 30, "the server behind")
        return files

    def prepare(self):
        for name in self.names:
            self.write(name, f"the content of {name}\n" * 3)

    allowed = (
        ("nginx passes on a path as it came, Tutti without `//`, `.` and `..`",
         lambda request, old, new, differing: differing == ["body"] and any(odd in request.target for odd in ("//", "/./", "/.", "/%2e"))),
        ("nginx passes on a path as it came, Tutti without needless escapes", lambda request, old, new, differing: differing == ["body"] and "%" in request.target and new.status == 200),
        ("a `Host` with capitals or a port: nginx's `$host` is lower case and without the port",
         lambda request, old, new, differing: differing == ["body"] and (":" in request.host or request.host == "SITE.example")),
        ("a method that no file has, where there is none: Tutti says 405", lambda request, old, new, differing: request.method == "POST" and old.status == 404 and new.status == 405),
    )


# Fields by which reverse proxies describe the client to the application.
FORWARDED = """
        proxy_set_header Host $host;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_http_version 1.1;"""


class Mastodon(Behind):
    """Files with long lifetimes, a server for the rest, another for the stream of events, one page for all errors."""

    name = "mastodon"
    folders = ("/", "/assets/", "/packs/", "/system/", "/emoji/")
    fields = ("cache-control", "x-content-type-options", "strict-transport-security")
    names = ("robots.txt", "sw.js", "500.html", "assets/a.css", "assets/b.js", "packs/c.js", "packs/d.css", "emoji/e.svg", "system/f.png", "system/g.txt", "avatars/h.png")

    def configuration(self, listen, fpm):
        return f"""
map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
upstream web {{ server 127.0.0.1:{self.backend_port} fail_timeout=0; }}
upstream events {{ least_conn; server 127.0.0.1:{self.backend_port} fail_timeout=0; }}
server {{
    listen {listen};
    server_name site.example;
    keepalive_timeout 70;
    sendfile on;
    client_max_body_size 99m;
    root {self.root};
    gzip on; gzip_vary on; gzip_proxied any; gzip_comp_level 6; gzip_static on;
    gzip_types text/plain text/css application/json application/javascript image/svg+xml;
    location / {{ try_files $uri @web; }}
    location = /sw.js {{
        add_header Cache-Control "public, max-age=604800, must-revalidate";
        add_header Strict-Transport-Security "max-age=63072000; includeSubDomains";
        try_files $uri =404;
    }}
    location ~ ^/(assets|avatars|emoji|packs)/ {{
        add_header Cache-Control "public, max-age=2419200, must-revalidate";
        add_header Strict-Transport-Security "max-age=63072000; includeSubDomains";
        try_files $uri =404;
    }}
    location ~ ^/system/ {{
        add_header Cache-Control "public, max-age=2419200, immutable";
        add_header X-Content-Type-Options nosniff;
        try_files $uri =404;
    }}
    location ^~ /api/v1/streaming {{{FORWARDED}
        proxy_set_header Proxy "";
        proxy_pass http://events;
        proxy_buffering off;
        proxy_redirect off;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        tcp_nodelay on;
    }}
    location @web {{{FORWARDED}
        proxy_set_header Proxy "";
        proxy_pass http://web;
        proxy_buffering on;
        proxy_redirect off;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        tcp_nodelay on;
    }}
    error_page 404 500 501 502 503 504 /500.html;
}}
"""

    def extra(self):
        return ["/@ada", "/@ada/1?x=1", "/api/v1/timelines/home", "/api/v1/streaming", "/api/v1/streaming/public?a=b", "/about", "/.well-known/webfinger?resource=acct:ada", "/packs/none.js", Request("POST", "/api/v1/statuses", body=b"status=hello")]


class Jitsi(Behind):
    """A front page for every room, folders of the application, a server for its signals."""

    name = "jitsi"
    folders = ("/", "/libs/", "/css/", "/images/", "/static/")
    names = ("index.html", "libs/a.js", "libs/b.map", "css/all.css", "images/logo.svg", "fonts/f.woff2", "static/x.html", "sounds/s.wav", "lang/main.json", "config.js", "external_api.js", "robots.txt")
    allowed = Behind.allowed

    def configuration(self, listen, fpm):
        return f"""
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    index index.html index.htm;
    error_page 404 /static/404.html;
    location = /config.js {{ alias {self.root}/config.js; }}
    location = /external_api.js {{ alias {self.root}/libs/a.js; }}
    location ~ ^/(libs|css|static|images|fonts|lang|sounds)/(.*)$ {{
        add_header 'Access-Control-Allow-Origin' '*';
        alias {self.root}/$1/$2;
        if ($arg_v) {{ expires 1y; }}
    }}
    location = /http-bind {{{FORWARDED}
        proxy_pass http://127.0.0.1:{self.backend_port}/http-bind;
    }}
    location ~ ^/([^/?&:'"]+)$ {{ try_files $uri @root_path; }}
    location @root_path {{ rewrite ^/(.*)$ / break; }}
}}
"""

    def extra(self):
        return ["/MyRoom", "/my-room?jwt=1", "/rooms/deep", "/libs/a.js?v=1", "/css/none.css"]


class Matomo(NginxSite):
    """A few scripts run, all others are refused, and so are its folders."""

    name = "matomo"
    scripts = ("/index.php", "/matomo.php", "/piwik.php", "/js/index.php", "/plugins/HeatmapSessionRecording/configs.php", "/config/global.php", "/core/Access.php", "/console.php")
    folders = ("/", "/js/", "/plugins/", "/config/", "/tmp/", "/libs/", "/core/", "/misc/")
    fields = ("referrer-policy", "cache-control")

    def prepare(self):
        for name in ("index.php", "matomo.php", "piwik.php", "js/index.php", "plugins/HeatmapSessionRecording/configs.php", "config/global.php", "core/Access.php", "console.php"):
            self.write(name, PROBE)
        for name in ("matomo.js", "robots.txt", "js/a.js", "plugins/a/b.css", "config/secret.txt", "tmp/c.txt", "libs/d.js", "LEGALNOTICE", "misc/user/logo.png", "README.md", "lang/en.json", "plugins/e.html"):
            self.write(name, f"the content of {name}\n" * 3)
        self.write("misc/big.gif", PICTURE)

    def configuration(self, listen, fpm):
        return f"""
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    index index.php;
    add_header Referrer-Policy origin always;
    location ~ ^/(index|matomo|piwik|js/index|plugins/HeatmapSessionRecording/configs)\\.php$ {{
        include snippets/fastcgi-php.conf;
        fastcgi_param HTTP_PROXY "";
        fastcgi_pass {fpm};
    }}
    location ~* ^.+\\.php$ {{ deny all; return 403; }}
    location / {{ try_files $uri $uri/ =404; }}
    location ~ ^/(config|tmp|core|lang) {{ deny all; return 403; }}
    location ~ \\.(gif|ico|jpg|png|svg|js|css|htm|html|mp3|mp4|wav|ogg|avi|ttf|eot|woff|woff2)$ {{
        allow all;
        expires 1h;
        add_header Pragma public;
        add_header Cache-Control "public";
    }}
    location ~ ^/(libs|vendor|plugins|misc|node_modules) {{ deny all; return 403; }}
    location ~/(.*\\.md|LEGALNOTICE|LICENSE) {{ deny all; }}
}}
"""

    def extra(self):
        return ["/index.php?module=API", "/matomo.php?idsite=1&rec=1", "/js/", "/config/none", "/plugins/a/none.css", "/tmp", "/INDEX.PHP", "/matomo.php/x"]


class Moodle(NginxSite):
    """Scripts with a path behind them, and places that nobody may see."""

    name = "moodle"
    scripts = ("/index.php", "/pluginfile.php", "/theme/styles.php", "/lib/javascript.php", "/admin/index.php", "/config.php")
    folders = ("/", "/theme/", "/lib/", "/admin/", "/pix/", "/vendor/")
    allowed = ()

    def prepare(self):
        for name in ("index.php", "pluginfile.php", "theme/styles.php", "lib/javascript.php", "admin/index.php", "config.php"):
            self.write(name, PROBE)
        for name in ("pix/a.png", "pix/b.svg", "lib/c.js", "theme/d.css", "README.txt", "lib/upgrade.txt", "vendor/e.txt", "lib/db/install.xml", "behat.yml", "package.json", "admin/environment.xml", "f.html", "composer.json", "g.pdf"):
            self.write(name, f"the content of {name}\n" * 3)

    def configuration(self, listen, fpm):
        return f"""
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    index index.php index.html;
    client_max_body_size 200m;
    location / {{ try_files $uri $uri/ =404; }}
    location ~ (/vendor/|/node_modules/|composer\\.json|/readme|/README|readme\\.txt|/upgrade\\.txt|db/install\\.xml|/fixtures/|/behat/|phpunit\\.xml|\\.lock|environment\\.xml) {{ deny all; return 404; }}
    location ~ /\\.(?!well-known).* {{ deny all; return 404; }}
    location ~ [^/]\\.php(/|$) {{
        fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
        fastcgi_index index.php;
        fastcgi_pass {fpm};
        include fastcgi_params;
        fastcgi_param PATH_INFO $fastcgi_path_info;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param PHP_VALUE "max_input_vars=5000";
        fastcgi_read_timeout 300;
    }}
}}
"""

    def extra(self):
        return ["/pluginfile.php/12/course/section/1/a%20b.png", "/theme/styles.php/boost/1/all", "/lib/javascript.php/1/lib/c.js", "/course/view.php?id=2", "/none.php/x", "/.git/config", "/.well-known/x"]


class MediaWiki(NginxSite):
    """Short addresses of pages, files that visitors have sent, a handler for thumbnails."""

    name = "mediawiki-short"
    scripts = ("/w/index.php", "/w/api.php", "/w/load.php", "/w/images/evil.php", "/w/includes/Setup.php", "/w/rest.php")
    folders = ("/", "/w/", "/w/images/", "/w/resources/", "/wiki/", "/w/includes/")
    allowed = (
        ("a script among the files of visitors: nginx shows its source, Tutti says 404, and so says the import", lambda request, old, new, differing: old.status == 200 and new.status == 404 and "/w/images/evil.php" in request.target),
    )

    def prepare(self):
        for name in ("w/index.php", "w/api.php", "w/load.php", "w/rest.php", "w/images/evil.php", "w/includes/Setup.php"):
            self.write(name, PROBE)
        for name in ("w/images/a.png", "w/images/b.svg", "w/resources/assets/c.png", "w/resources/d.css", "w/skins/e.js", "w/extensions/f.css", "w/COPYING", "w/CREDITS", "robots.txt", "favicon.ico", "w/includes/g.txt", "w/images/deleted/h.png"):
            self.write(name, f"the content of {name}\n" * 3)

    def configuration(self, listen, fpm):
        return f"""
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    client_max_body_size 50m;
    location ~ ^/w/(index|load|api|thumb|opensearch_desc|rest|img_auth)\\.php$ {{
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_pass {fpm};
    }}
    location /w/images {{ }}
    location /w/images/deleted {{ deny all; }}
    location ~ ^/w/resources/(assets|lib|src) {{ try_files $uri =404; add_header Cache-Control "public"; expires 7d; }}
    location ~ ^/w/(skins|extensions)/.+\\.(css|js|gif|jpg|jpeg|png|svg|wasm|ttf|woff|woff2)$ {{ try_files $uri =404; add_header Cache-Control "public"; expires 7d; }}
    location = /favicon.ico {{ try_files $uri =404; expires 7d; }}
    location ~ ^/w/(COPYING|CREDITS)$ {{ expires 30d; }}
    location /w/rest.php/ {{ try_files $uri $uri/ /w/rest.php?$query_string; }}
    location /wiki/ {{ rewrite ^/wiki/(?<pagename>.*)$ /w/index.php; }}
    location = /robots.txt {{ }}
    location = / {{ return 301 /wiki/Main_Page; }}
    location / {{ return 404; }}
}}
"""

    def extra(self):
        return ["/wiki/Main_Page", "/wiki/A%20B?action=edit", "/wiki/%C3%84", "/w/index.php?title=X", "/w/rest.php/v1/page/X", "/w/images/deleted/h.png", "/w/resources/lib/none.js"]


PUBLIC_NGINX = (Mastodon, Jitsi, Matomo, Moodle, MediaWiki)
