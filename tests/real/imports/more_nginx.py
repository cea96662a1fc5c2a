"""More public applications behind nginx, each configuration in our own words with the directives that its documentation uses."""

from imports.nginx import PROBE, NginxSite
from imports.public_nginx import FORWARDED, Behind
from imports.replay import Request


def pages(*beginnings):
    """Forty addresses of an application."""
    return [f"{beginning}{number}?page={number}" for beginning in beginnings for number in range(40 // len(beginnings))]


class Discourse(Behind):
    """Locations in a location, files of uploads through the application, a cache for pictures of users."""

    name = "discourse"
    folders = ("/", "/assets/", "/uploads/", "/javascripts/", "/images/", "/plugins/")
    fields = ("cache-control", "access-control-allow-origin")
    names = ("favicon.ico", "robots.txt", "assets/app.js", "assets/app.css", "assets/fonts/a.woff2", "javascripts/ace.js", "images/emoji/twitter/smile.png", "uploads/default/original/1X/a.png",
             "uploads/default/optimized/b.jpg", "uploads/default/c.pdf", "uploads/stylesheet-cache/d.css", "plugins/poll/e.js", "backups/f.tar", "downloads.html")

    def configuration(self, listen, fpm):
        behind = f"{FORWARDED}\n        proxy_set_header X-Request-Start \"t=fixed\";\n        proxy_pass http://discourse;"
        return f"""
upstream discourse {{ server 127.0.0.1:{self.backend_port}; }}
map $http_x_forwarded_proto $thescheme {{ default $scheme; "~https$" https; }}
server {{
    listen {listen};
    server_name site.example;
    types {{ text/html html; text/css css; application/javascript js; image/png png; image/jpeg jpg; text/csv csv; font/woff2 woff2; text/plain txt; application/pdf pdf; }}
    default_type application/octet-stream;
    set $public {self.root};
    gzip on; gzip_vary on; gzip_min_length 1000; gzip_comp_level 5;
    gzip_types application/json text/css text/javascript application/x-javascript application/javascript image/svg+xml;
    client_max_body_size 10m;
    etag off;
    proxy_buffer_size 32k;
    location ^~ /backups/ {{ internal; }}
    location /favicon.ico {{ return 204; access_log off; log_not_found off; }}
    location / {{
        root $public;
        add_header ETag "";
        location ~ ^/uploads/short-url/ {{{behind}
            break;
        }}
        location ~* assets/.*\\.(eot|ttf|woff|woff2|ico|otf)$ {{
            expires 1y;
            add_header Cache-Control public,immutable;
            add_header Access-Control-Allow-Origin *;
        }}
        location = /srv/status {{{behind}
            access_log off;
            break;
        }}
        location ~ ^/javascripts/ {{ expires 1d; add_header Cache-Control public,immutable; add_header Access-Control-Allow-Origin *; }}
        location ~ ^/assets/(?<asset_path>.+)$ {{ expires 1y; gzip_static on; add_header Cache-Control public,immutable; add_header Access-Control-Allow-Origin *; break; }}
        location ~ ^/plugins/ {{ expires 1y; add_header Cache-Control public,immutable; }}
        location ~ /images/emoji/ {{ expires 1y; add_header Cache-Control public,immutable; }}
        location ~ ^/uploads/ {{{FORWARDED}
            proxy_set_header X-Sendfile-Type X-Accel-Redirect;
            proxy_set_header X-Accel-Mapping $public/=/downloads/;
            expires 1y;
            add_header Cache-Control public,immutable;
            location ~ /stylesheet-cache/ {{ try_files $uri =404; }}
            location ~* \\.(gif|png|jpg|jpeg|bmp|tif|tiff|ico|webp|avif)$ {{ add_header Access-Control-Allow-Origin *; try_files $uri =404; }}
            location ~ /_?optimized/ {{ try_files $uri =404; }}
            proxy_pass http://discourse;
            break;
        }}
        location ~ ^/admin/backups/ {{{behind}
            break;
        }}
        location /message-bus/ {{{behind}
            proxy_buffering off;
            break;
        }}
        try_files $uri @discourse;
    }}
    location /downloads/ {{ internal; alias $public/; }}
    location @discourse {{{FORWARDED}
        proxy_set_header X-Forwarded-Proto $thescheme;
        proxy_pass http://discourse;
    }}
}}
"""

    def extra(self):
        return [*pages("/t/a-topic/", "/u/"), "/t/a-topic/12", "/t/a-topic/12?page=2", "/latest.json", "/uploads/short-url/abc.png", "/srv/status", "/message-bus/abc/poll", "/admin/backups/x.tar", "/uploads/default/none.png",
                "/assets/none.js", "/backups/f.tar", "/downloads/favicon.ico", Request("POST", "/posts", body=b"raw=hello&topic_id=1"), Request("PUT", "/t/12.json", body=b"title=x")]


class GitLab(Behind):
    """Everything goes to one server, whatever its size and method; pages for errors of the server."""

    name = "gitlab"
    folders = ("/", "/group/project/", "/assets/", "/-/")
    names = ("404.html", "422.html", "500.html", "502.html", "503.html", "robots.txt")

    def configuration(self, listen, fpm):
        return f"""
upstream gitlab-workhorse {{ server 127.0.0.1:{self.backend_port} fail_timeout=0; }}
map $http_upgrade $connection_upgrade_gitlab {{ default upgrade; '' close; }}
map $request_uri $temporary_uri_1 {{ default $request_uri; ~(?i)^(?<start>.*)(?<temp>[\\?&]private[\\-_]token)=[^&]*(?<rest>.*)$ "$start$temp=[FILTERED]$rest"; }}
map $temporary_uri_1 $filtered_uri {{ default $temporary_uri_1; ~(?i)^(?<start>.*)(?<temp>[\\?&]authenticity[\\-_]token)=[^&]*(?<rest>.*)$ "$start$temp=[FILTERED]$rest"; }}
map $http_referer $filtered_referer {{ default $http_referer; ~^(?<temp>.*)\\? $temp; }}
log_format gitlab '$remote_addr - $remote_user [$time_local] "$request_method $filtered_uri $server_protocol" $status $body_bytes_sent "$filtered_referer" "$http_user_agent"';
server {{
    listen {listen};
    server_name site.example;
    server_tokens off;
    access_log {self.folder}/gitlab.log gitlab;
    location / {{
        client_max_body_size 0;
        gzip off;
        proxy_read_timeout 300;
        proxy_connect_timeout 300;
        proxy_redirect off;
        proxy_http_version 1.1;
        proxy_set_header Host $http_host;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade_gitlab;
        proxy_pass http://gitlab-workhorse;
    }}
    error_page 404 /404.html;
    error_page 422 /422.html;
    error_page 500 /500.html;
    error_page 502 /502.html;
    error_page 503 /503.html;
    location ~ ^/(404|422|500|502|503)\\.html$ {{ root {self.root}; internal; }}
}}
"""

    def extra(self):
        return [*pages("/group/project/-/issues/", "/api/v4/projects/"), "/group/project.git/info/refs?service=git-receive-pack", Request("POST", "/group/project.git/git-receive-pack", body=b"0000" * 1000), Request("POST", "/group/project.git/git-upload-pack", body=b"0032want"),
                Request("PUT", "/api/v4/projects/1/packages/generic/a/1/f", body=b"x" * 3000), "/api/v4/projects/group%2Fproject", "/users/sign_in?private_token=secret", Request("DELETE", "/api/v4/projects/1"), "/502.html", "/error"]


class PeerTube(Behind):
    """An application that also answers for files, with bounds for each kind of upload."""

    name = "peertube"
    folders = ("/", "/client/", "/static/", "/static/web-videos/", "/api/v1/")
    fields = ("cache-control", "access-control-allow-origin", "x-file-maximum-size")
    names = ("client/dist/a.js", "client/dist/b.css", "client/dist/assets/images/icons/i.png", "storage/web-videos/v.mp4", "storage/streaming-playlists/hls/p.m3u8", "storage/avatars/u.png", "robots.txt")
    lost = ("limit_rate",)

    def configuration(self, listen, fpm):
        return f"""
upstream backend {{ server 127.0.0.1:{self.backend_port}; }}
map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
server {{
    listen {listen};
    server_name site.example;
    root {self.root}/storage;
    location @api {{
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header Host $host;
        proxy_set_header X-Real-IP $remote_addr;
        client_max_body_size 100k;
        proxy_connect_timeout 10m;
        proxy_send_timeout 10m;
        proxy_read_timeout 10m;
        proxy_pass http://backend;
    }}
    location / {{ try_files /dev/null @api; }}
    location = /api/v1/videos/upload-resumable {{ client_max_body_size 0; proxy_request_buffering off; try_files /dev/null @api; }}
    location ~ ^/api/v1/videos/(upload|([^/]+/studio/edit))$ {{
        limit_except POST HEAD {{ deny all; }}
        client_max_body_size 12G;
        add_header X-File-Maximum-Size 8G always;
        try_files /dev/null @api;
    }}
    location ~ ^/api/v1/(videos|video-playlists|video-channels|users/me) {{
        client_max_body_size 6M;
        add_header X-File-Maximum-Size 4M always;
        try_files /dev/null @api;
    }}
    location @api_websocket {{
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header Host $host;
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        proxy_pass http://backend;
    }}
    location /socket.io {{ try_files /dev/null @api_websocket; }}
    location ~ ^/client/(.*\\.(js|css|png|svg|woff2|otf|ttf|woff|eot))$ {{
        add_header Cache-Control "public, max-age=31536000, immutable";
        alias {self.root}/client/dist/$1;
    }}
    location ~ ^/static/(web-videos|streaming-playlists)/private/ {{ try_files /dev/null @api; }}
    location ~ ^/static/(webseed|web-videos|redundancy|streaming-playlists)/ {{
        limit_rate_after 5M;
        set $peertube_limit_rate 800k;
        if ($request_uri ~ -fragmented.mp4$) {{ set $peertube_limit_rate 5M; }}
        limit_rate $peertube_limit_rate;
        if ($request_method = 'OPTIONS') {{
            add_header Access-Control-Allow-Origin '*';
            add_header Access-Control-Allow-Methods 'GET, OPTIONS';
            add_header Access-Control-Max-Age 1728000;
            add_header Content-Type 'text/plain charset=UTF-8';
            add_header Content-Length 0;
            return 204;
        }}
        rewrite ^/static/webseed/(.*)$ /web-videos/$1 break;
        rewrite ^/static/(.*)$ /$1 break;
        try_files $uri @api;
    }}
}}
"""

    def extra(self):
        return [*pages("/w/p/", "/api/v1/videos/"), "/w/abc", "/videos/watch/1?start=5", "/client/a.js", "/client/b.css?v=1", "/client/none.js", "/static/web-videos/v.mp4", "/static/webseed/v.mp4", "/static/web-videos/none.mp4", "/static/web-videos/private/x",
                "/api/v1/videos/upload", Request("POST", "/api/v1/videos/upload", body=b"video" * 100), Request("POST", "/api/v1/videos/x", body=b"a=b"), "/socket.io/?EIO=4", Request("PUT", "/api/v1/users/me", body=b"{}")]


class Laradock(NginxSite):
    """The site of a container: a front controller, which also answers for scripts that do not exist."""

    name = "laradock"
    scripts = ("/index.php", "/other.php")
    folders = ("/", "/css/", "/storage/")
    allowed = ()

    def prepare(self):
        for name in ("public/index.php", "public/other.php"):
            self.write(name, PROBE)
        for name in ("public/css/app.css", "public/js/app.js", "public/robots.txt", "public/.htaccess", "public/storage/a.png", "letsencrypt/.well-known/acme-challenge/token", ".env"):
            self.write(name, f"the content of {name}\n" * 3)

    def configuration(self, listen, fpm):
        return f"""
upstream php-upstream {{ server {fpm}; }}
server {{
    listen {listen} default_server;
    server_name localhost site.example;
    root {self.root}/public;
    index index.php index.html index.htm;
    location / {{ try_files $uri $uri/ /index.php$is_args$args; }}
    location ~ \\.php$ {{
        try_files $uri /index.php =404;
        fastcgi_pass php-upstream;
        fastcgi_index index.php;
        fastcgi_buffers 16 16k;
        fastcgi_buffer_size 32k;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_read_timeout 600;
        include fastcgi_params;
    }}
    location ~ /\\.ht {{ deny all; }}
    location /.well-known/acme-challenge/ {{ root {self.root}/letsencrypt/; log_not_found off; }}
}}
"""

    def paths(self):
        return ["/css/app.css", "/js/app.js", "/robots.txt", "/.htaccess", "/storage/a.png", "/.well-known/acme-challenge/token"]

    def extra(self):
        return [*pages("/users/", "/a/b/"), "/users/5?x=1", "/none.php", "/none.php?x=1", "/a/b/none.php", "/.well-known/acme-challenge/none", "/../.env"]


class SwagProxy(Behind):
    """A proxy file as administrators share them: the server in constants, a part of the path removed."""

    name = "swag-proxy"
    folders = ("/", "/app/", "/app/api/", "/photos/")
    names = ("robots.txt",)

    def configuration(self, listen, fpm):
        constants = f"""
        set $upstream_app 127.0.0.1;
        set $upstream_port {self.backend_port};
        set $upstream_proto http;"""
        return f"""
map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
map $http_host $lan_ip {{ default 0; ~^192\\.168\\. 1; }}
server {{
    listen {listen};
    server_name site.*;
    client_max_body_size 0;
    resolver 127.0.0.11 valid=30s;
    proxy_connect_timeout 240;
    proxy_read_timeout 240;
    proxy_buffers 32 4k;
    proxy_headers_hash_bucket_size 128;
    location / {{{FORWARDED}
        proxy_set_header X-Forwarded-Host $host;
        proxy_set_header X-Forwarded-Method $request_method;
        proxy_set_header X-Forwarded-Uri $request_uri;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        proxy_set_header Range $http_range;
        proxy_set_header If-Range $http_if_range;{constants}
        proxy_pass $upstream_proto://$upstream_app:$upstream_port;
    }}
    location ~ (/app)?/api {{{FORWARDED}{constants}
        proxy_pass $upstream_proto://$upstream_app:$upstream_port;
    }}
    location /app {{ return 301 $scheme://$host/app/; }}
    location ^~ /app/ {{{FORWARDED}{constants}
        rewrite /app(.*) $1 break;
        proxy_pass $upstream_proto://$upstream_app:$upstream_port;
        proxy_hide_header X-Frame-Options;
        proxy_redirect off;
    }}
    location ^~ /photos/ {{{FORWARDED}{constants}
        if ($lan_ip = 1) {{ return 403; }}
        proxy_pass $upstream_proto://$upstream_app:$upstream_port;
    }}
}}
"""

    def extra(self):
        return [*pages("/app/item/", "/photos/"), "/app", "/app/library?sort=a%20b", "/app/api/x", "/api/x?y=1", "/photos/1", Request("POST", "/app/upload", body=b"x" * 500), Request("POST", "/api/login", body=b"a=b"), "/redirect", "/app/redirect"]


class WordPressMultisite(NginxSite):
    """A network of sites in folders: files of each, rewrites where there is no file, a redirect for the administration."""

    name = "wordpress-multisite"
    scripts = ("/index.php", "/wp-login.php", "/wp-admin/index.php", "/wp-includes/ms-files.php")
    folders = ("/", "/wp-admin/", "/wp-content/", "/blog/", "/blog/wp-admin/")
    fields = ("cache-control",)

    def prepare(self):
        for name in ("index.php", "wp-login.php", "wp-admin/index.php", "wp-includes/ms-files.php", "wp-admin/admin-ajax.php"):
            self.write(name, PROBE)
        for name in ("wp-content/themes/a/style.css", "wp-content/uploads/b.png", "wp-includes/js/c.js", "wp-content/blogs.dir/2/files/d.png", "robots.txt", "wp-admin/css/e.css", ".htaccess"):
            self.write(name, f"the content of {name}\n" * 3)

    def configuration(self, listen, fpm):
        return f"""
map $uri $blogname {{ ~^(?P<blogpath>/[^/]+/)files/(.*) $blogpath; }}
map $blogname $blogid {{ default -999; /blog/ 2; }}
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    index index.php;
    location ~ ^(/[^/]+/)?files/(?<rt_file>.+) {{
        try_files /wp-content/blogs.dir/$blogid/files/$rt_file /wp-includes/ms-files.php?file=$rt_file;
        access_log off; log_not_found off; expires max;
    }}
    if (!-e $request_filename) {{
        rewrite /wp-admin$ $scheme://$host$request_uri/ permanent;
        rewrite ^(/[^/]+)?(/wp-.*) $2 last;
        rewrite ^(/[^/]+)?(/.*\\.php) $2 last;
    }}
    location ^~ /blogs.dir {{ internal; alias {self.root}/wp-content/blogs.dir; access_log off; log_not_found off; expires max; }}
    location / {{ try_files $uri $uri/ /index.php?$args; }}
    location ~ \\.php$ {{
        try_files $uri =404;
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_pass {fpm};
    }}
    location ~* ^.+\\.(ogg|svg|eot|otf|woff|mp4|ttf|css|js|jpg|jpeg|gif|png|ico)$ {{ access_log off; log_not_found off; expires max; }}
    location = /robots.txt {{ access_log off; log_not_found off; }}
    location ~ /\\. {{ deny all; access_log off; log_not_found off; }}
}}
"""

    def extra(self):
        return [*pages("/blog/post/", "/post/"), "/blog/files/d.png", "/blog/files/none.png", "/blog/wp-admin", "/blog/wp-login.php?x=1", "/blog/wp-content/themes/a/style.css", "/blog/a-post/", "/a-post/?p=1", "/blog/none.php", "/blogs.dir/2/files/d.png"]


class OAuth2Proxy(Behind):
    """The configuration that oauth2-proxy documents: another server says who the client is, and shows its page otherwise."""

    name = "oauth2-proxy"
    folders = ("/", "/private/", "/oauth2/")
    names = ("robots.txt",)

    def configuration(self, listen, fpm):
        return f"""
server {{
    listen {listen};
    server_name site.example;
    location /oauth2/ {{
        proxy_pass http://127.0.0.1:{self.backend_port};
        proxy_set_header Host $host;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Auth-Request-Redirect $request_uri;
    }}
    location = /oauth2/auth {{
        internal;
        if ($cookie_session = "") {{ return 401; }}
        proxy_pass http://127.0.0.1:{self.backend_port};
        proxy_set_header Host $host;
        proxy_set_header X-Forwarded-Uri $request_uri;
        proxy_set_header Content-Length "";
        proxy_pass_request_body off;
    }}
    location / {{
        auth_request /oauth2/auth;
        error_page 401 = @oauth2_signin;
        auth_request_set $user $upstream_http_x_application;
        auth_request_set $secret $upstream_http_x_backend;
        proxy_set_header X-User $user;
        proxy_set_header X-Email $secret;
        auth_request_set $auth_cookie $upstream_http_set_cookie;
        add_header Set-Cookie $auth_cookie;
        proxy_set_header Host $host;
        proxy_pass http://127.0.0.1:{self.backend_port};
    }}
    location @oauth2_signin {{ return 302 /oauth2/sign_in?rd=$scheme://$host$request_uri; }}
}}
"""

    def extra(self):
        cookie = (("Cookie", "session=1"),)
        forged = (("X-User", "root"), ("X-Email", "root@site.example"))
        return [*pages("/private/", "/oauth2/x/"), "/private/x?y=1", "/oauth2/sign_in?rd=/", "/oauth2/auth", Request("GET", "/private/x?y=1", "site.example", cookie), Request("GET", "/", "site.example", (*cookie, *forged)), Request("GET", "/", "site.example", forged),
                Request("POST", "/form", "site.example", cookie, b"a=b"), Request("POST", "/form", "site.example", (), b"a=b")]


class Boilerplate(NginxSite):
    """Fields by the type of the answer, files that are never shown, as the HTML5 Boilerplate has them."""

    name = "h5bp-nginx"
    has_php = False
    scripts = ()
    folders = ("/", "/css/", "/backup/")
    fields = ("x-frame-options", "x-content-type-options", "cache-control", "access-control-allow-origin", "referrer-policy")

    def prepare(self):
        for name in ("index.html", "404.html", "css/main.css", "js/app.js", "img/a.png", "img/b.svg", "fonts/c.woff2", "site.webmanifest", "robots.txt", "backup/dump.sql", "backup/old.bak", ".git/config",
                     ".well-known/security.txt", "app.conf", "notes~", "feed.rss", "data.json", "favicon.ico", "page.html"):
            self.write(name, f"the content of {name}\n" * 3)

    def configuration(self, listen, fpm):
        return f"""
map $sent_http_content_type $expires {{
    default 1y;
    ~*text/css 1y;
    ~*application/json 0;
    ~*text/html 0;
    ~*image/ 30d;
}}
map $sent_http_content_type $x_frame_options {{ ~*text/html DENY; }}
map $sent_http_content_type $referrer_policy {{ ~*text/(css|html|javascript)|application\\/pdf|xml "strict-origin-when-cross-origin"; }}
map $sent_http_content_type $cors {{ ~*image/ "*"; ~*font/ "*"; }}
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    charset utf-8;
    charset_types text/css text/plain application/javascript application/json;
    expires $expires;
    add_header X-Frame-Options $x_frame_options always;
    add_header Referrer-Policy $referrer_policy always;
    add_header Access-Control-Allow-Origin $cors;
    add_header X-Content-Type-Options nosniff always;
    error_page 404 /404.html;
    location ~* /\\.(?!well-known\\/) {{ deny all; }}
    location ~* (?:#.*#|\\.(?:bak|conf|dist|fla|in[ci]|log|orig|psd|sh|sql|sw[op])|~)$ {{ deny all; }}
}}
"""

    def extra(self):
        return [*pages("/css/", "/x/"), "/.git/", "/.well-known/none", "/none.bak", "/css/none.css", "/page.html?x=1"]


class WwwAndTls(NginxSite):
    """One server that leads to the name of the site, one for everything else, and a page for maintenance."""

    name = "canonical-host"
    has_php = False
    scripts = ()
    hosts = ("site.example", "www.site.example", "other.example")
    folders = ("/", "/docs/", "/old/")

    def prepare(self):
        for name in ("index.html", "docs/index.html", "docs/a.html", "b.txt", "img/c.png", "maintenance.html", "404.html"):
            self.write(name, f"the content of {name}\n" * 3)

    def configuration(self, listen, fpm):
        return f"""
server {{ listen {listen} default_server; server_name _; return 421 "unknown host\\n"; }}
server {{ listen {listen}; server_name www.site.example; return 301 $scheme://site.example$request_uri; }}
server {{
    listen {listen};
    server_name site.example;
    root {self.root};
    rewrite ^/old/(.*)$ /docs/$1 permanent;
    rewrite ^/item-([0-9]+)\\.html$ /docs/item?id=$1&from=old last;
    location / {{
        if (-f $document_root/maintenance-on) {{ return 503; }}
        try_files $uri $uri.html $uri/ =404;
    }}
    location = /docs/item {{ return 200 "item $arg_id $arg_from $args\\n"; }}
    error_page 404 /404.html;
    error_page 503 @maintenance;
    location @maintenance {{ rewrite ^ /maintenance.html break; }}
}}
"""

    def extra(self):
        return [*pages("/old/", "/docs/"), "/old/a.html", "/old/a.html?x=1", "/item-12.html", "/item-12.html?k=v", "/docs/a", "/none"]


MORE_NGINX = (Discourse, GitLab, PeerTube, Laradock, SwagProxy, WordPressMultisite, OAuth2Proxy, Boilerplate, WwwAndTls)
