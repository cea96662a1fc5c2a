"""Further public applications behind nginx, each configuration in our own words with the directives that its documentation uses."""

from imports.more_nginx import pages
from imports.nginx import PROBE, NginxSite, is_folder_for_front_controller
from imports.public_nginx import FORWARDED, Behind
from imports.replay import Request


class Symfony(NginxSite):
    """One script, which is reached by an internal redirect only; all other scripts are refused."""

    name = "symfony"
    scripts = ("/index.php", "/other.php")
    folders = ("/", "/bundles/", "/uploads/")

    def prepare(self):
        for name in ("public/index.php", "public/other.php"):
            self.write(name, PROBE)
        for name in ("public/bundles/a.css", "public/bundles/b.js", "public/uploads/c.pdf", "public/robots.txt", "public/.htaccess", "public/favicon.ico", "var/cache.txt"):
            self.write(name, f"the content of {name}\n" * 3)

    def configuration(self, listen, fpm):
        return f"""
server {{
    listen {listen};
    server_name site.example www.site.example;
    root {self.root}/public;
    location / {{ try_files $uri /index.php$is_args$args; }}
    location /bundles {{ try_files $uri =404; }}
    location ~ ^/index\\.php(/|$) {{
        fastcgi_pass {fpm};
        fastcgi_split_path_info ^(.+\\.php)(/.*)$;
        include fastcgi_params;
        fastcgi_param APP_ENV prod;
        fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name;
        fastcgi_param DOCUMENT_ROOT $realpath_root;
        internal;
    }}
    location ~ \\.php$ {{ return 404; }}
    error_log {self.folder}/site-error.log;
}}
"""

    def paths(self):
        return ["/bundles/a.css", "/bundles/b.js", "/uploads/c.pdf", "/robots.txt", "/.htaccess", "/favicon.ico"]

    def extra(self):
        return [*pages("/blog/", "/en/post/"), "/blog", "/blog?sort=date", "/index.php/blog", "/bundles/none.css", "/other.php/x", "/../var/cache.txt", Request("POST", "/login", body=b"_username=a&_password=b")]


class Laravel(NginxSite):
    """A front controller with fields of security, its own page for what is not there, closed names."""

    name = "laravel"
    scripts = ("/index.php", "/other.php")
    folders = ("/", "/build/", "/storage/")
    fields = ("x-frame-options", "x-content-type-options")
    allowed = (
        ("a folder without an index: the front controller answers, nginx says 403", is_folder_for_front_controller),
        ("a path behind a script: nginx takes it for the script's name where nothing splits it", lambda request, old, new, differing: differing == ["body"] and ".php/" in request.target),
        ("another script than the front controller: nginx shows its source or asks `/index.php`, Tutti says 404, and so says the import",
         lambda request, old, new, differing: (old.status, new.status) == (200, 404) and ".php" in request.target),
    )

    def prepare(self):
        for name in ("public/index.php", "public/other.php"):
            self.write(name, PROBE)
        for name in ("public/build/a.css", "public/build/b.js", "public/storage/c.png", "public/robots.txt", "public/favicon.ico", "public/.env", "public/.well-known/d.txt", ".env"):
            self.write(name, f"the content of {name}\n" * 3)

    def configuration(self, listen, fpm):
        return f"""
server {{
    listen {listen};
    server_name site.example;
    root {self.root}/public;
    add_header X-Frame-Options "SAMEORIGIN";
    add_header X-Content-Type-Options "nosniff";
    index index.php;
    charset utf-8;
    location / {{ try_files $uri $uri/ /index.php?$query_string; }}
    location = /favicon.ico {{ access_log off; log_not_found off; }}
    location = /robots.txt  {{ access_log off; log_not_found off; }}
    error_page 404 /index.php;
    location ~ ^/index\\.php(/|$) {{
        fastcgi_pass {fpm};
        fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name;
        include fastcgi_params;
        fastcgi_hide_header X-Powered-By;
    }}
    location ~ /\\.(?!well-known).* {{ deny all; }}
}}
"""

    def paths(self):
        return ["/build/a.css", "/build/b.js", "/storage/c.png", "/robots.txt", "/favicon.ico", "/.env", "/.well-known/d.txt"]

    def extra(self):
        return [*pages("/users/", "/a/b/"), "/users/1/edit", "/.well-known/none", "/build/none.css", Request("POST", "/login", body=b"a=b"), Request("DELETE", "/users/1")]


class Joomla(NginxSite):
    """Folders in which no script runs, lifetimes of files, a front controller."""

    name = "joomla"
    scripts = ("/index.php", "/administrator/index.php", "/images/evil.php", "/media/evil.php")
    folders = ("/", "/administrator/", "/images/", "/media/", "/cache/", "/api/")
    fields = ("cache-control", "x-content-type-options")
    allowed = (
        ("the page for an error is asked with GET: nginx leaves the type of the client's body", lambda request, old, new, differing: differing == ["body"] and old.status == 403 and request.method in ("POST", "PUT")),
        ("a method that no file has, where there is none: Tutti says 405", lambda request, old, new, differing: request.method == "POST" and (old.status, new.status) == (404, 405)),
    )

    def prepare(self):
        for name in ("index.php", "administrator/index.php", "images/evil.php", "media/evil.php", "api/index.php"):
            self.write(name, PROBE)
        for name in ("robots.txt", "images/a.png", "images/b.svg", "media/c.css", "media/d.js", "templates/e.woff2", "cache/f.txt", "language/g.ini", "htaccess.txt"):
            self.write(name, f"the content of {name}\n" * 3)

    def configuration(self, listen, fpm):
        return f"""
server {{
    listen {listen};
    server_name site.example;
    server_name_in_redirect off;
    root {self.root};
    index index.php index.html;
    add_header X-Content-Type-Options nosniff;
    location / {{ try_files $uri $uri/ /index.php?$args; }}
    location ~* /(images|cache|media|logs|tmp)/.*\\.(php|pl|py|jsp|asp|sh|cgi)$ {{ return 403; error_page 403 /403_error.html; }}
    location /api/ {{ try_files $uri $uri/ /api/index.php?$args; }}
    location ~ \\.php$ {{
        fastcgi_pass {fpm};
        fastcgi_index index.php;
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    }}
    location ~* \\.(ico|pdf|flv)$ {{ expires 1y; }}
    location ~* \\.(js|css|png|jpg|jpeg|gif|swf|xml|txt)$ {{ expires 14d; }}
}}
"""

    def extra(self):
        return [*pages("/blog/", "/api/v1/"), "/blog/1-hello", "/administrator", "/images/evil.php?x=1", "/images/none.png", "/index.php/blog", "/api/v1/users"]


class Grafana(Behind):
    """An application below a path, with a stream of its own."""

    name = "grafana"
    folders = ("/", "/grafana/", "/grafana/api/", "/grafana/public/")
    names = ("index.html", "robots.txt")

    def configuration(self, listen, fpm):
        return f"""
map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
upstream grafana {{ server 127.0.0.1:{self.backend_port}; keepalive 8; }}
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    index index.html index.htm;
    location /grafana/ {{
        rewrite ^/grafana/(.*) /$1 break;
        proxy_set_header Host $host;
        proxy_pass http://grafana;
    }}
    location /grafana/api/live/ {{
        rewrite ^/grafana/(.*) /$1 break;{FORWARDED}
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        proxy_pass http://grafana;
    }}
}}
"""

    def extra(self):
        return [*pages("/grafana/d/", "/grafana/api/dashboards/"), "/grafana", "/grafana/login?redirect=%2Fd%2F1", "/grafana/api/live/ws", "/grafana/public/build/a.js", "/grafanax", Request("POST", "/grafana/api/ds/query", body=b"{}"), Request("PUT", "/grafana/api/user", body=b"{}")]


FURTHER_NGINX = (Symfony, Laravel, Joomla, Grafana)
