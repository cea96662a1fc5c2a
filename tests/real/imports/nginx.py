"""Sites on nginx and PHP-FPM, in the shapes that people have them."""

import gzip
import shutil
from pathlib import Path

from imports.replay import Request
from imports.servers import USER, OldNginx
from imports.site import FileSite

# Prints what a script receives of a request.
PROBE = """<?php
header('X-Application: probe');
header('Content-Type: text/plain; charset=utf-8');
foreach (['SCRIPT_NAME', 'SCRIPT_FILENAME', 'PATH_INFO', 'REQUEST_URI', 'QUERY_STRING', 'REQUEST_METHOD', 'DOCUMENT_ROOT', 'CONTENT_TYPE', 'APP_ENV', 'front_controller_active'] as $name)
    echo $name, '=', $_SERVER[$name] ?? '', "\\n";
echo 'GET=', json_encode($_GET), ' POST=', json_encode($_POST), "\\n", basename(__FILE__), ' ', ini_get('memory_limit'), "\\n";
"""


def pool(folder, more=""):
    """A pool's file as Debian's is, in a folder of the test."""
    path = folder / "pool.conf"
    path.write_text(f"""; A pool of its own for the site.
[site]
{USER}listen = {folder}/fpm.sock
listen.mode = 0666
pm = dynamic
pm.max_children = 4
pm.start_servers = 2
pm.min_spare_servers = 1
pm.max_spare_servers = 3
pm.max_requests = 500
chdir = /
php_admin_value[memory_limit] = 96M
php_flag[display_errors] = off
{more}
""")
    return path


class NginxSite(FileSite):
    """Files, nginx's file of the site, the pool."""

    kind = "nginx"
    http = ""

    def launch(self):
        self.old = OldNginx(self.folder)
        conf = self.folder / "site.conf"
        conf.write_text(self.configuration(f"127.0.0.1:{self.old.port}", f"unix:{self.folder}/fpm.sock"))
        return self.old.start(conf, pool(self.folder, self.pool_more) if self.has_php else None, self.http)


def is_path_info_of_request_uri(request, old, new, differing):
    return differing == ["body"] and any(odd in request.target for odd in ("?", "%")) and b"SCRIPT_NAME=/index.php" in new.body


def is_path_info_lost(request, old, new, differing):
    return differing == ["body"] and b"PATH_INFO=\n" in old.body and ".php/" in request.target


def is_folder_for_front_controller(request, old, new, differing):
    return old.status == 403 and new.status == 200 and request.target.split("?")[0].endswith("/") and (b"SCRIPT_NAME=/index.php" in new.body or b"<title>Imported" in new.body)


PICTURE = bytes(range(256)) * 8


class Nextcloud(NginxSite):
    """Many exact places, places that are closed, PATH_INFO, a redirect for each service."""

    name = "nextcloud"
    folders = ("/", "/apps/", "/core/", "/data/", "/remote/", "/js/", "/config/")
    scripts = ("/index.php", "/remote.php", "/status.php", "/ocs/v2.php", "/config/config.php")
    pool_more = "env[APP_ENV] = production"
    allowed = (
        ("nginx puts `$request_uri` into PATH_INFO as it came, with its query and encoded; CGI says decoded and without", is_path_info_of_request_uri),
    )

    def prepare(self):
        for name in ("index.php", "remote.php", "status.php", "public.php", "ocs/v2.php", "ocs-provider/index.php", "updater/index.php", "config/config.php", "lib/private.php", "cron.php"):
            self.write(name, PROBE)
        for name in ("core/css/styles.css", "core/js/main.js", "core/js/module.mjs", "apps/files/img/app.svg", "core/fonts/font.woff2", "robots.txt", "data/owncloud.db",
                     "config/secret.txt", "core/img/logo.png", "apps/a/b.html", ".user.ini", ".htaccess", "build/x.txt", "3rdparty/y.js", "core/map.json"):
            self.write(name, f"the content of {name}\n" * 3)
        self.write("core/img/big.jpg", PICTURE * 40)

    def configuration(self, listen, fpm):
        return f"""
upstream php-handler {{ server {fpm}; }}
map $arg_v $asset_immutable {{
    "" "";
    default ", immutable";
}}
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    client_max_body_size 512M;
    client_body_timeout 300s;
    fastcgi_buffers 64 4K;
    gzip on; gzip_vary on; gzip_comp_level 4; gzip_min_length 256;
    gzip_types application/javascript text/css image/svg+xml;
    add_header Referrer-Policy "no-referrer" always;
    add_header X-Content-Type-Options "nosniff" always;
    add_header X-Frame-Options "SAMEORIGIN" always;
    fastcgi_hide_header X-Powered-By;
    index index.php index.html /index.php$request_uri;

    location = / {{
        if ($http_user_agent ~ ^DavClnt) {{ return 302 /remote.php/webdav/$is_args$args; }}
    }}
    location = /robots.txt {{ allow all; log_not_found off; access_log off; }}
    location ^~ /.well-known {{
        location = /.well-known/carddav {{ return 301 /remote.php/dav/; }}
        location = /.well-known/caldav {{ return 301 /remote.php/dav/; }}
        location /.well-known/acme-challenge {{ try_files $uri $uri/ =404; }}
        return 301 /index.php$request_uri;
    }}
    location ~ ^/(?:build|tests|config|lib|3rdparty|templates|data)(?:$|/) {{ return 404; }}
    location ~ ^/(?:\\.|autotest|occ|issue|indie|db_|console) {{ return 404; }}
    location ~ \\.php(?:$|/) {{
        rewrite ^/(?!index|remote|public|cron|core\\/ajax\\/update|status|ocs\\/v[12]|updater\\/.+|ocs-provider\\/.+) /index.php$request_uri;
        fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
        set $path_info $fastcgi_path_info;
        try_files $fastcgi_script_name =404;
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param PATH_INFO $path_info;
        fastcgi_param front_controller_active true;
        fastcgi_pass php-handler;
        fastcgi_request_buffering off;
        fastcgi_read_timeout 120s;
    }}
    location ~ \\.(?:css|js|mjs|svg|gif|png|jpg|ico|wasm)$ {{
        try_files $uri /index.php$request_uri;
        add_header Cache-Control "public, max-age=15778463$asset_immutable";
    }}
    location ~ \\.woff2?$ {{
        try_files $uri /index.php$request_uri;
        expires 7d;
        access_log off;
    }}
    location /remote {{ return 301 /remote.php$request_uri; }}
    location / {{ try_files $uri $uri/ /index.php$request_uri; }}
}}
"""

    def extra(self):
        agent = (("User-Agent", "DavClnt/1.0"),)
        return [Request("GET", "/", fields=agent), Request("GET", "/?a=b", fields=agent), "/.well-known/carddav", "/.well-known/webfinger?resource=x",
                "/.well-known/acme-challenge/token", "/core/js/main.js?v=1", "/remote", "/remote/x", "/apps/calendar/p/1", "/s/abc", "/index.php/apps/files", "/cron.php"]


class Drupal(NginxSite):
    """A front controller, private files, a guard against scripts in other folders."""

    name = "drupal"
    folders = ("/", "/core/", "/sites/", "/sites/default/files/", "/vendor/", "/modules/")
    scripts = ("/index.php", "/update.php", "/core/install.php", "/sites/default/settings.php", "/modules/x.php")

    def prepare(self):
        for name in ("index.php", "update.php", "core/install.php", "core/authorize.php", "sites/default/settings.php", "modules/x.php", "sites/default/files/evil.php", "core/modules/statistics/statistics.php"):
            self.write(name, PROBE)
        for name in ("core/misc/drupal.js", "core/themes/a.css", "sites/default/files/picture.png", "sites/default/files/report.pdf", "sites/default/private/secret.txt", "robots.txt",
                     "composer.json", "web.config", "core/lib/x.yml", "modules/m/m.module", "vendor/autoload.txt", "sites/default/files/styles/a.jpg", "a.txt", "core/CHANGELOG.txt", ".gitignore"):
            self.write(name, f"the content of {name}\n" * 2)

    def configuration(self, listen, fpm):
        return f"""
server {{
    server_name site.example www.site.example;
    root {self.root};
    listen {listen};
    index index.php;

    location = /favicon.ico {{ log_not_found off; access_log off; }}
    location = /robots.txt {{ allow all; log_not_found off; access_log off; }}
    location ~* \\.(txt|log)$ {{ allow 192.168.0.0/16; deny all; }}
    location ~ \\..*/.*\\.php$ {{ return 403; }}
    location ~ ^/sites/.*/private/ {{ return 403; }}
    location ~ ^/sites/[^/]+/files/.*\\.php$ {{ deny all; }}
    location ~* ^/.well-known/ {{ allow all; }}
    location ~ (^|/)\\. {{ return 403; }}
    location / {{ try_files $uri /index.php?$query_string; }}
    location @rewrite {{ rewrite ^ /index.php; }}
    location ~ /vendor/.*\\.php$ {{ deny all; return 404; }}
    location ~* \\.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|twig|tpl(\\.php)?|xtmpl|yml)(~|\\.sw[op]|\\.bak|\\.orig|\\.save)?$ {{ return 404; }}
    location ~ '\\.php$|^/update.php' {{
        fastcgi_split_path_info ^(.+?\\.php)(|/.*)$;
        try_files $fastcgi_script_name =404;
        include fastcgi_params;
        fastcgi_param HTTP_PROXY "";
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param PATH_INFO $fastcgi_path_info;
        fastcgi_param QUERY_STRING $query_string;
        fastcgi_intercept_errors on;
        fastcgi_pass {fpm};
    }}
    location ~* \\.(js|css|png|jpg|jpeg|gif|ico|svg)$ {{ try_files $uri @rewrite; expires max; log_not_found off; }}
    location ~ ^/sites/.*/files/styles/ {{ try_files $uri @rewrite; }}
    location ~ ^(/[a-z\\-]+)?/system/files/ {{ try_files $uri /index.php?$query_string; }}
    if ($request_uri ~* "^(.*/)index\\.php/(.*)") {{ return 307 $1$2; }}
}}
"""

    allowed = (("nginx's `try_files` forgets `$fastcgi_path_info` (its ticket 321), which the source did not mean", is_path_info_lost),)

    def extra(self):
        return ["/node/1", "/node/1?page=2", "/index.php/node/1", "/sites/default/files/styles/large/x.png", "/system/files/a.pdf", "/en/system/files/a.pdf", "/update.php/start", "/core/missing.css", "/.well-known/x"]


class FrontController(NginxSite):
    """Laravel's and Symfony's shape: one script, and only that."""

    name = "front-controller"
    folders = ("/", "/build/", "/storage/")
    scripts = ("/index.php", "/other.php")
    fields = ("x-frame-options", "cache-control")
    allowed = (("a folder without an index: the front controller answers, nginx says 403", is_folder_for_front_controller),)

    def prepare(self):
        for name in ("index.php", "other.php"):
            self.write(name, PROBE)
        for name in ("build/app.js", "build/app.css", "favicon.ico", "robots.txt", "storage/a.pdf", "storage/b.txt", ".env", "hot.html", "build/manifest.json", "storage/Ümlaut space.txt", "a.woff"):
            self.write(name, f"the content of {name}\n" * 2)

    def configuration(self, listen, fpm):
        return f"""
server {{
    listen {listen} default_server;
    server_name site.example;
    server_tokens off;
    root {self.root};
    add_header X-Frame-Options "SAMEORIGIN";
    index index.php;
    location / {{ try_files $uri $uri/ /index.php?$query_string; }}
    location = /favicon.ico {{ access_log off; log_not_found off; }}
    location /build/ {{ expires 30d; add_header X-Frame-Options DENY; add_header Cache-Control "public"; try_files $uri =404; }}
    location ~ ^/index\\.php(/|$) {{
        fastcgi_pass {fpm};
        fastcgi_split_path_info ^(.+\\.php)(/.*)$;
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name;
        fastcgi_param DOCUMENT_ROOT $realpath_root;
        fastcgi_param PATH_INFO $fastcgi_path_info;
        fastcgi_param APP_ENV staging;
    }}
    location ~ \\.php$ {{ return 404; }}
    location ~ /\\.(?!well-known).* {{ deny all; }}
}}
"""

    def paths(self):
        return [path.replace(" ", "%20").replace("Ü", "%C3%9C") for path in super().paths()]

    def extra(self):
        return ["/users/1/edit", "/api/v1/items?page=2", "/.well-known/security.txt", "/build", "/storage/x/y"]


class Static(NginxSite):
    """Files with headers for caches, redirects, a folder elsewhere, names of hosts."""

    name = "static"
    has_php = False
    scripts = ()
    folders = ("/", "/docs/", "/docs/old/", "/media/", "/private/", "/empty/")
    hosts = ("site.example", "old.example", "a.sub.example", "x.wild.test")
    fields = ("cache-control", "x-robots-tag", "x-always")

    def prepare(self):
        for name in ("index.html", "about.html", "docs/index.html", "docs/old/page.html", "style.css", "app.js", "private/secret.html", "feed.xml", "data.json", "pic.svg", "font.woff2", "no-ending", "old/place.html", "404.html", "a.tar.gz", "docs/index.htm"):
            self.write(name, f"<p>the content of {name}</p>\n" * 4)
        (self.root / "empty").mkdir()
        self.media = self.folder / "media"
        self.media.mkdir()
        self.media.chmod(0o755)
        for name in ("film.mp4", "sound.mp3", "sub/deep.txt"):
            path = self.media / name
            path.parent.mkdir(exist_ok=True)
            path.parent.chmod(0o755)
            path.write_bytes(PICTURE)

    def configuration(self, listen, fpm):
        return f"""
server {{
    listen {listen};
    server_name old.example;
    return 301 http://site.example$request_uri;
}}
server {{
    listen {listen};
    server_name *.sub.example ~^(?<sub>.+)\\.wild\\.test$;
    add_header X-Always "yes" always;
    location / {{ return 302 http://site.example/$host$uri?from=$scheme; }}
}}
server {{
    listen {listen} default_server;
    server_name site.example;
    root {self.root};
    index index.html index.htm;
    error_page 404 = @missing;
    add_header X-Always "on" always;
    location ~* \\.(?:css|js)$ {{ expires 1y; add_header Cache-Control "public, immutable"; }}
    location ~* \\.(?:svg|woff2)$ {{ expires 7d; }}
    location = /feed.xml {{ expires -1; }}
    location /media/ {{ alias {self.media}/; expires 1h; }}
    location /private/ {{ allow 10.0.0.0/8; deny all; }}
    location /loopback/ {{ deny 10.0.0.0/8; allow 127.0.0.1; deny all; alias {self.media}/; }}
    location ^~ /docs/ {{ try_files $uri $uri.html $uri/ =404; add_header X-Robots-Tag noindex; }}
    location /old/ {{ rewrite ^/old/(.*)\\.html$ /new/$1 permanent; rewrite ^/old/q/(.*)$ /new?what=$1? redirect; }}
    location = /gone {{ return 410; }}
    location = /health {{ return 204; }}
    location /hidden/ {{ internal; }}
    location /upload {{ limit_except GET {{ deny all; }} }}
    location /app/ {{ rewrite ^/app/(.*)$ /$1 break; }}
    location /last/ {{ rewrite ^/last/(.*)$ /docs/$1 last; }}
    if ($request_method = TRACE) {{ return 405; }}
    if ($http_user_agent ~* (badbot|evil)) {{ return 403; }}
    location @missing {{ return 302 /; }}
}}
"""

    allowed = (
        ("a folder without an index: nginx says 403 before its `error_page 404`", lambda request, old, new, differing: old.status == 403 and new.status in (302, 404) and request.target.split("?")[0].endswith("/")),
        ("a path with a byte that is NUL: nginx says 400 itself", lambda request, old, new, differing: "%00" in request.target and new.status in (302, 400, 404)),
    )

    def extra(self):
        bad = (("User-Agent", "EvilBot/1"),)
        return ["/media/film.mp4", "/media/", "/media", "/media/sub", "/media/sub/deep.txt", "/media/../index.html", "/loopback/sound.mp3", "/gone", "/health", "/hidden/x", "/docs/old/page", "/docs/index", "/old/a.html", "/old/a.html?x=1",
                "/old/q/z?x=1", "/app/about.html", "/app/no", "/last/old/page.html", "/last/no", Request("GET", "/", fields=bad), Request("POST", "/upload/x"), Request("GET", "/upload/x"), Request("HEAD", "/upload/x"), Request("PUT", "/style.css", body=b"x"), Request("DELETE", "/")]


class WordPressPackage(NginxSite):
    """Debian's package with a database, behind nginx as it is usually put there."""

    name = "wordpress"
    folders = ("/", "/wp-admin/", "/wp-content/", "/wp-content/plugins/", "/wp-includes/", "/wp-content/uploads/", "/category/none/")
    scripts = ("/index.php", "/wp-login.php", "/xmlrpc.php", "/wp-admin/admin-ajax.php", "/wp-content/uploads/evil.php", "/wp-includes/version.php")
    scrub = ((rb"nonce[a-z_]*\"?[:=]\"?[0-9a-zA-Z]+", b"NONCE"), (rb"name=\"[a-z_-]*nonce\" value=\"[0-9a-f]+\"", b"NONCE"), (rb"\"server_time\":\d+", b""), (rb"ver=[0-9.]+", b""), (rb"<!--.*?-->", b""),
             (rb"\d\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\d", b"TIME"), (rb"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [0-9:]{8} [+]0000", b"TIME"))
    allowed = (
        ("a folder without an index: the front controller answers, nginx says 403", is_folder_for_front_controller),
        ("a host that the site does not know: SERVER_NAME is what was asked for, with nginx the first `server_name`", lambda request, old, new, differing: differing == ["body"] and request.host in ("unknown.example", "192.0.2.1")),
    )
    # Debian's package in full would be some thousand files.
    wanted = ("/wp-includes/css/dist/block-library/style.min.css", "/wp-includes/images/rss.png", "/readme.html", "/wp-includes/js/wp-embed.min.js", "/wp-admin/css/common.min.css", "/wp-content/themes/twentytwentythree/style.css", "/wp-content/uploads/picture.png")

    def prepare(self):
        from sites.wordpress import WordPress
        shutil.rmtree(self.root)
        self.press = WordPress(self.folder)
        self.press.folder.mkdir()
        self.press.root = self.root
        self.press.prepare()
        uploads = self.root / "wp-content/uploads"
        (uploads / "picture.png").write_bytes(PICTURE)
        (uploads / "evil.php").write_text("<?php echo 'this must not run';")

    def start_old(self):
        files = super().start_old()
        from browser import Browser
        person = Browser("127.0.0.1", self.old.port)
        del person
        from imports.replay import ask
        body = b"weblog_title=Imported&user_name=admin&admin_password=a-long-secret-1&admin_password2=a-long-secret-1&pw_weak=1&admin_email=a%40site.example&blog_public=0&Submit=Install"
        answer = ask(self.old.port, Request("POST", "/wp-admin/install.php?step=2", host="site.example", body=body, fields=(("Content-Type", "application/x-www-form-urlencoded"),)))
        if answer.status != 200 or b"Success" not in answer.body:
            raise RuntimeError(f"WordPress was not installed: {answer.status} {answer.body[-2000:]!r}")
        return files

    def stop(self):
        super().stop()
        self.press.stop()

    def paths(self):
        return [path for path in self.wanted if (self.root / path[1:]).is_file()]

    def configuration(self, listen, fpm):
        return f"""
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    index index.php index.html;
    client_max_body_size 64m;
    location = /favicon.ico {{ log_not_found off; access_log off; }}
    location = /robots.txt {{ allow all; log_not_found off; access_log off; try_files $uri /index.php?$args; }}
    location ~ /\\.(?!well-known) {{ deny all; }}
    location ~* /(?:uploads|files)/.*\\.php$ {{ deny all; }}
    location ~ ^/wp-includes/.*\\.php$ {{ return 404; }}
    location / {{ try_files $uri $uri/ /index.php?$args; }}
    location ~ \\.php$ {{
        include snippets/fastcgi-php.conf;
        fastcgi_pass {fpm};
    }}
    location ~* \\.(js|css|png|jpg|jpeg|gif|ico)$ {{ expires max; log_not_found off; }}
}}
"""

    def extra(self):
        return ["/?p=1", "/?page_id=2", "/?feed=rss2", "/wp-json/", "/?rest_route=/wp/v2/posts", "/wp-json/wp/v2/posts", "/hello-world/", "/sitemap.xml", "/wp-admin/edit.php", "/?s=hello", "/wp-admin", "/wp-content", "/wp-login.php?action=lostpassword"]


class ReverseProxy(NginxSite):
    """Servers behind: groups, paths that change, fields that are set, PHP-FPM without a pool's file."""

    name = "reverse-proxy"
    has_php = False
    scripts = ()
    folders = ("/", "/api/", "/app/", "/static/", "/exact/")

    def prepare(self):
        from harness.servers import free_port
        self.backend_port = free_port()
        for name in ("static/a.css", "static/b.js", "static/c.png", "maintenance.html"):
            self.write(name, f"the content of {name}\n" * 2)
        # The password itself, which is not taken.
        (self.folder / "old-htpasswd").write_text("anna:{PLAIN}secret\n")

    def start_old(self):
        files = super().start_old()
        backend = Path(__file__).with_name("backend.py")
        import sys
        from harness.processes import wait_until
        import socket
        self.old.run([sys.executable, backend, str(self.backend_port)], "backend.log")

        def answers():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.backend_port)) == 0
        wait_until(answers, 30, "the server behind")
        return files

    def configuration(self, listen, fpm):
        return f"""
upstream backend {{
    least_conn;
    server 127.0.0.1:{self.backend_port} weight=3 max_fails=2 fail_timeout=5s;
    server 127.0.0.1:{self.backend_port + 1} backup;
    keepalive 8;
}}
map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
map $uri $area {{ default public; /app/admin private; ~^/app/a secret; }}
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    proxy_http_version 1.1;
    location / {{
        proxy_pass http://backend;
        proxy_set_header Host $host;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_set_header X-Forwarded-Host $http_host;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        proxy_read_timeout 90s;
        proxy_hide_header X-Backend;
    }}
    location /api/ {{ proxy_pass http://127.0.0.1:{self.backend_port}/v1/; proxy_set_header X-Area $area; proxy_set_header Cookie ""; }}
    location /app/ {{ proxy_pass http://backend; proxy_set_header Host app.internal; proxy_set_header X-Area $area; add_header X-Via nginx; proxy_buffering off; }}
    location = /exact {{ proxy_pass http://backend/other/place; }}
    location /static/ {{ expires 1h; }}
    location ~ ^/user/(?<name>[^/]+)/(.*)$ {{ rewrite ^/user/([^/]+)/(.*)$ /profiles/$1/$2 break; proxy_pass http://backend; }}
    location ~ ^/tenant/(?<name>[^/]+)/ {{ proxy_pass http://backend; proxy_set_header X-Name "tenant $name"; }}
    location /closed/ {{ auth_basic "Members"; auth_basic_user_file {self.folder}/old-htpasswd; proxy_pass http://backend; }}
}}
"""

    lost = ("auth_basic_user_file",)
    fields = ("x-backend", "x-via", "cache-control")
    allowed = (
        ("a place with passwords whose hashes are not taken: Tutti refuses everybody, and says so", lambda request, old, new, differing: old.status in (401, 403, 500) and new.status == 403 and "/closed/" in request.target),
        ("nginx sends a path on with its bytes encoded anew where `proxy_pass` has a path",
         lambda request, old, new, differing: "body" in differing and old.status == new.status and "%" in request.target),
        ("nginx passes on a path as it came, Tutti without `//`, `.` and `..`",
         lambda request, old, new, differing: "body" in differing and any(odd in request.target for odd in ("//", "/./", "/%2e"))),
        ("a `Host` with capitals or a port: nginx's `$host` is lower case and without the port",
         lambda request, old, new, differing: "body" in differing and (":" in request.host or request.host == "SITE.example")),
    )

    def extra(self):
        made = ["/api", "/api/x?y=1", "/api/a%20b", "/app", "/app/a?b", "/app/admin", "/exact", "/exact?q=1", "/user/ada/a/b?x=1", "/tenant/ada/x", "/closed/x", "/redirect", "/error", "/slow?x", "/static/a.css", "/static", "/static/"]
        made += [Request(method, target, body=b"some body " * 100, fields=(("Content-Type", "text/plain"), ("Cookie", "a=b"), ("X-Forwarded-For", "198.51.100.7"))) for method in ("POST", "PUT", "PATCH", "DELETE") for target in ("/", "/api/post", "/app/post", "/exact")]
        made += [f"/page/{number}?n={number}" for number in range(40)]
        made += [Request("GET", f"/app/{number}", fields=(("Accept", "text/html"), ("X-Custom", str(number)))) for number in range(30)]
        return made


class Guarded(ReverseProxy):
    """Passwords, another server's word, bounds, lists of folders, pages for errors, files by leave of a server behind, compressed files, a cache."""

    name = "guarded"
    lost = ()
    folders = ("/", "/list/", "/staff/", "/either/", "/asked/", "/app/", "/named/")
    fields = ("content-encoding",)
    http = "proxy_cache_path {folder}/cache keys_zone=pages:1m; limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m; limit_conn_zone $binary_remote_addr zone=conn:1m;"
    password = (("Authorization", "Basic YW5uYTpzZWNyZXQ="),)
    wrong = (("Authorization", "Basic YW5uYTp3cm9uZw=="),)

    def prepare(self):
        from harness.servers import free_port
        self.backend_port = free_port()
        self.http = self.http.format(folder=self.folder)
        for name in ("index.html", "staff/a.html", "staff/b.txt", "either/c.html", "list/one.txt", "list/two.css", "list/deep/three.txt", "asked/d.html", "errors/404.html", "errors/sorry.html", "errors/denied.html", "style.css", "limited/x.html"):
            self.write(name, f"server page {name}\n" * 2)
        self.write("style.css.gz", gzip.compress(b"body { color: red }\n", mtime=0))
        private = self.folder / "private"
        private.mkdir()
        private.chmod(0o755)
        (private / "report.txt").write_text("the report\n" * 3)
        # bcrypt of `secret`, as `htpasswd -B` makes it.
        (self.folder / "htpasswd").write_text("anna:$2y$05$nF6krIhgwSEGy6HO5l0Y/.rTGbVCI5AQ0YvD52.0MJTgcV4lS6EKm\n")

    def configuration(self, listen, fpm):
        backend = f"http://127.0.0.1:{self.backend_port}"
        return f"""
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    error_page 404 /errors/404.html;
    error_page 403 /errors/denied.html;
    error_page 502 504 =503 /errors/sorry.html;
    location / {{ gzip_static on; }}
    location /list/ {{ autoindex on; }}
    location /staff/ {{ auth_basic "Staff only"; auth_basic_user_file {self.folder}/htpasswd; }}
    location /staff/open/ {{ auth_basic off; return 204; }}
    location /either/ {{ satisfy any; allow 127.0.0.1; deny all; auth_basic "x"; auth_basic_user_file {self.folder}/htpasswd; }}
    location /neither/ {{ satisfy all; deny 127.0.0.1; auth_basic "x"; auth_basic_user_file {self.folder}/htpasswd; }}
    location /password/ {{ satisfy any; allow 192.0.2.1; deny all; auth_basic "x"; auth_basic_user_file {self.folder}/htpasswd; alias {self.root}/staff/; }}
    location = /may {{ internal; proxy_pass {backend}/may; proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_set_header X-Original-URI $request_uri; }}
    location = /may-not {{ internal; return 403; }}
    location /asked/ {{ auth_request /may; }}
    location /refused/ {{ auth_request /may-not; alias {self.root}/staff/; }}
    location /refused/named/ {{ auth_request /may-not; error_page 403 = @denied; }}
    location @denied {{ return 302 /denied; }}
    location /limited/ {{ limit_req zone=one burst=1000 nodelay; limit_conn conn 100; limit_req_status 429; }}
    location /app/ {{ proxy_pass {backend}; proxy_cache pages; proxy_cache_valid 200 1m; proxy_cache_bypass $arg_fresh; proxy_no_cache $arg_fresh; }}
    location /dead/ {{ proxy_pass http://127.0.0.1:1; }}
    location /intercepted/ {{ proxy_pass {backend}/error; proxy_intercept_errors on; error_page 500 503 418 =200 /errors/sorry.html; }}
    location /own/ {{ error_page 404 = /errors/sorry.html; try_files $uri =404; }}
    location /named/ {{ error_page 404 =410 @gone; try_files $uri =404; }}
    location @gone {{ return 404; }}
    location /away/ {{ error_page 404 http://other.example/sorry; try_files $uri =404; }}
    location /leave/ {{ proxy_pass {backend}/leave/; }}
    location /private/ {{ internal; alias {self.folder}/private/; }}
    location /copied/ {{ mirror /copy; proxy_pass {backend}; }}
    location = /copy {{ internal; proxy_pass {backend}$request_uri; }}
    location = /method {{ limit_except GET {{ auth_basic "x"; auth_basic_user_file {self.folder}/htpasswd; }} proxy_pass {backend}; }}
}}
"""

    allowed = (
        ("a client that is not let in gets the answer of the server that is asked, which is reported", lambda request, old, new, differing: new.status == 403 and request.target.startswith("/refused/") and old.status in (302, 403)),
        ("a method that no file has, where there is none: Tutti says 405", lambda request, old, new, differing: request.method == "POST" and old.status == 404 and new.status == 405),
        ("an answer that leads to an error: nginx keeps its type", lambda request, old, new, differing: differing == ["type"] and old.status == 404 and request.target.startswith("/leave/")),
        ("a list of a folder has other words and columns", lambda request, old, new, differing: old.status == new.status == 200 and differing in (["body"], ["body", "type"]) and b"Index of" in old.body),
    )

    def extra(self):
        made = []
        for target in ("/staff/a.html", "/staff/b.txt", "/staff/none", "/staff/open/x", "/either/c.html", "/neither/x", "/password/a.html", "/asked/d.html", "/asked/none", "/refused/a.html", "/refused/named/x", "/method"):
            for fields in ((), self.password, self.wrong):
                made += [Request(method, target, fields=fields, body=b"x" if method == "POST" else b"") for method in ("GET", "HEAD")]
        made += [Request("POST", "/method", body=b"x=1"), Request("POST", "/method", body=b"x=1", fields=self.password), Request("POST", "/method", body=b"x=1", fields=self.wrong)]
        made += [Request("GET", "/style.css", fields=(("Accept-Encoding", "gzip"),)), Request("GET", "/style.css", fields=(("Accept-Encoding", "br"),))]
        made += ["/list/deep/", "/list", "/list/none", "/dead/x", "/intercepted/", "/own/none", "/named/none", "/away/none", "/leave/report.txt", "/leave/none", "/private/report.txt", "/copied/x", "/may", "/copy"]
        made += [f"/app/{number}?fresh={number % 2}" for number in range(6)] + [f"/app/{number}" for number in range(3)] * 2
        made += [f"/limited/x.html?n={number}" for number in range(12)]
        return made
