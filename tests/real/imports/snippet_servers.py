"""The servers that snippets are for: where these are, what stands around one, and how the server is started with it."""

from imports.servers import IS_ROOT


class Nginx:
    folder = "."

    @staticmethod
    def around(text):
        return f"server {{\nlisten 127.0.0.1:@PORT@;\nserver_name site.example;\nroot @ROOT@;\n{text}\n}}"

    @staticmethod
    def start(old, text):
        folder = old.folder
        conf = folder / "nginx.conf"
        for name in ("fastcgi_params", "fastcgi.conf", "mime.types", "uwsgi_params", "scgi_params"):
            (folder / name).symlink_to(f"/etc/nginx/{name}")
        temporary = "".join(f"{name}_temp_path {folder}/tmp-{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        log = "" if "access_log" in text else "access_log off;"
        if text.lstrip().startswith("stream"):
            # Debian has it as a module.
            conf.write_text(f"load_module /usr/lib/nginx/modules/ngx_stream_module.so;\nevents {{}}\n{text}\n")
        else:
            conf.write_text(f"events {{}}\nhttp {{\n{temporary}\n{log}\n{text}\n}}\n")
        # These are about the process only.
        process = f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/nginx.log;"
        old.run(["nginx", "-p", folder, "-c", conf, "-g", process, "-e", folder / "nginx.log"], "nginx-output.log")
        return conf


class Apache:
    folder = "apache"
    modules = ("mpm_event", "access_compat", "actions", "alias", "allowmethods", "auth_basic", "auth_digest", "authn_core", "authn_file", "authz_core", "authz_groupfile", "authz_host", "authz_user", "autoindex",
               "brotli", "cgid", "deflate", "dir", "env", "expires", "filter", "headers", "include", "info", "lbmethod_byrequests", "macro", "mime", "negotiation", "proxy", "proxy_balancer", "proxy_fcgi", "proxy_http",
               "proxy_wstunnel", "ratelimit", "remoteip", "reqtimeout", "rewrite", "setenvif", "slotmem_shm", "speling", "ssl", "status", "substitute", "userdir", "vhost_alias")

    @staticmethod
    def around(text):
        return f"""<VirtualHost 127.0.0.1:@PORT@>
ServerName site.example
DocumentRoot @ROOT@
<Directory @ROOT@>
AllowOverride All
Require all granted
</Directory>
{text}
</VirtualHost>"""

    @classmethod
    def start(cls, old, text):
        folder = old.folder
        conf = folder / "apache2.conf"
        modules = "".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n" for name in cls.modules)
        conf.write_text(f"""ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/pid
Mutex file:{folder} default
ErrorLog {folder}/apache.log
{"User nobody" if IS_ROOT else ""}
{"Group nogroup" if IS_ROOT else ""}
{modules}
Listen 127.0.0.1:{old.port}
TypesConfig /etc/mime.types
<Directory />
Options FollowSymLinks
AllowOverride None
Require all denied
</Directory>
<FilesMatch "^\\.ht">
Require all denied
</FilesMatch>
{text}
""")
        old.run(["apache2", "-f", conf, "-DFOREGROUND"], "apache-output.log")
        return conf


class Caddy:
    folder = "caddy"

    @staticmethod
    def around(text):
        return f"{{\nadmin off\nauto_https off\n}}\nhttp://site.example:@PORT@ {{\nbind 127.0.0.1\nroot * @ROOT@\n{text}\n}}"

    @staticmethod
    def start(old, text):
        conf = old.folder / "Caddyfile"
        conf.write_text(text + "\n")
        home = {"HOME": str(old.folder), "PATH": "/usr/bin:/bin"}
        old.run(["caddy", "run", "--config", conf, "--adapter", "caddyfile"], "caddy.log", env=home)
        return conf


SERVERS = {"nginx": Nginx, "apache": Apache, "caddy": Caddy}
