"""The old servers, with a configuration as somebody has it, and Tutti with what `tutti import` makes of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent.parent / "bench"))

from harness.processes import Process, wait_until  # noqa: E402
from harness.servers import Tutti, fpm_program, free_port  # noqa: E402

IS_ROOT = os.geteuid() == 0
USER = "user = nobody\ngroup = nogroup\nlisten.owner = nobody\nlisten.group = nogroup\n" if IS_ROOT else ""


class Old:
    """Processes of an old server, on `port`."""

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.processes = []

    def run(self, arguments, log, env=None):
        process = Process([str(argument) for argument in arguments], self.folder / log, env=env)
        self.processes.append(process)
        return process

    def log(self):
        texts = [f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in sorted(self.folder.glob("*.log"))]
        return "\n".join(texts)

    def wait(self):
        import socket

        def answers():
            if not all(process.is_alive() for process in self.processes):
                raise RuntimeError(f"it ended at start:\n{self.log()}")
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0
        wait_until(answers, 30, f"the old server on port {self.port}")

    def stop(self):
        for process in reversed(self.processes):
            process.stop()
        self.processes = []


class OldNginx(Old):
    """nginx with a file of a site in a `nginx.conf` around it, and PHP-FPM with a pool."""

    def start(self, site, pool=None, http=""):
        folder = self.folder
        if pool:
            conf = folder / "fpm.conf"
            conf.write_text(f"[global]\nerror_log = {folder}/fpm.log\ndaemonize = no\ninclude = {pool}\n")
            self.run([fpm_program(), "-F", "-y", conf], "fpm-output.log")
            wait_until((folder / "fpm.sock").exists, 30, f"php-fpm: {self.log()}")
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o777)
        temporary = "".join(f"{name}_temp_path {folder}/tmp/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        # Relative names of `include` begin in the folder of this file, as they do in /etc/nginx.
        for name in ("snippets", "fastcgi_params", "fastcgi.conf"):
            (folder / name).symlink_to(f"/etc/nginx/{name}")
        main = folder / "nginx.conf"
        main.write_text(f"""{'user nobody nogroup;' if IS_ROOT else ''}
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 256; }}
http {{
    {temporary}
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    access_log off;
    {http}
    include {site};
}}
""")
        self.run(["nginx", "-p", folder, "-c", main, "-e", folder / "nginx.log"], "nginx-output.log")
        self.wait()
        return [main, *([pool] if pool else [])]


class OldApache(Old):
    """Apache with a file of a site in an `apache2.conf` around it as Debian's is, and PHP-FPM with a pool."""

    def start(self, site, modules, pool=None):
        folder = self.folder
        if pool:
            conf = folder / "fpm.conf"
            conf.write_text(f"[global]\nerror_log = {folder}/fpm.log\ndaemonize = no\ninclude = {pool}\n")
            self.run([fpm_program(), "-F", "-y", conf], "fpm-output.log")
            wait_until((folder / "fpm.sock").exists, 30, f"php-fpm: {self.log()}")
        library = Path("/usr/lib/apache2/modules")
        # PHP in Apache wants processes without threads.
        loaded = ["mpm_prefork" if "php" in modules else "mpm_event", *modules]
        files = {name: sorted(library.glob("libphp*.so"))[-1] if name == "php" else library / f"mod_{name}.so" for name in loaded}
        (folder / "sites-enabled").mkdir()
        (folder / "sites-enabled/site.conf").write_text(site)
        main = folder / "apache2.conf"
        main.write_text(f"""
ServerRoot "{folder}"
DefaultRuntimeDir {folder}
PidFile {folder}/pid
Mutex file:{folder} default
Timeout 300
KeepAlive On
MaxKeepAliveRequests 100
KeepAliveTimeout 5
{"User nobody" if IS_ROOT else ""}
{"Group nogroup" if IS_ROOT else ""}
HostnameLookups Off
ErrorLog {folder}/apache.log
LogLevel warn
{"".join(f"LoadModule {name}_module {file}{chr(10)}" for name, file in files.items())}
<IfModule mpm_prefork_module>
    StartServers 2
    MaxRequestWorkers 8
</IfModule>
Listen 127.0.0.1:{self.port}
<Directory />
    Options FollowSymLinks
    AllowOverride None
    Require all denied
</Directory>
<Directory /usr/share>
    AllowOverride None
    Require all granted
</Directory>
AccessFileName .htaccess
<FilesMatch "^\\.ht">
    Require all denied
</FilesMatch>
TypesConfig /etc/mime.types
IncludeOptional sites-enabled/*.conf
""")
        self.run(["apache2", "-f", main, "-DFOREGROUND"], "apache-output.log")
        self.wait()
        return [main, *([pool] if pool else [])]

    def start_debian(self, server):
        """Apache with a copy of Debian's own files."""
        self.run(["sh", "-c", '. "$1/envvars" && exec apache2 -d "$1" -f "$1/apache2.conf" -DFOREGROUND', "sh", server], "apache-output.log", env={**os.environ, "APACHE_CONFDIR": str(server)})
        self.wait()
        return [server / "apache2.conf"]


class Imported(Tutti):
    """Tutti with what was imported, its listeners on another port."""

    def __init__(self, folder, dist, kind, files, old_port, expect_loss=(), more=(), adjust=None):
        self.dist = dist
        self.kind, self.files, self.old_port = kind, [str(file) for file in files], old_port
        self.expect_loss = list(expect_loss)
        self.more = list(more)
        self.adjust = adjust
        super().__init__(folder, folder, 2)

    def configuration(self):
        done = subprocess.run([f"{self.dist}/bin/tutti", "import", self.kind, *self.files, *self.more], capture_output=True, text=True, check=False)
        (self.folder / "findings.log").write_text(done.stderr)
        told = [line for line in done.stderr.splitlines() if "not carried over:" in line and "`" in line]
        for wanted in self.expect_loss:
            if not any(wanted in line for line in told):
                raise AssertionError(f"`{wanted}` is not reported as lost:\n{done.stderr}")
        unexpected = [line for line in told if not any(wanted in line for wanted in self.expect_loss)]
        if unexpected:
            raise AssertionError("lost, and not expected:\n" + "\n".join(unexpected))
        if done.returncode != (1 if self.expect_loss else 0):
            raise AssertionError(f"exit code {done.returncode}:\n{done.stderr}")
        text = done.stdout.replace(f":{self.old_port}\"", f":{self.port}\"")
        (self.folder / "imported.json").write_text(text)
        configuration = json.loads(text)
        if self.adjust:
            self.adjust(configuration, self.port)
        return configuration
