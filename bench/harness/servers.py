"""The peers: each is configured in a temporary folder, started on a free port, and ended by its pid.

Every server gets the same site folder, the same number of workers, no access log, two event threads or
processes, and limits high enough that none is measured at its default ceiling. What a peer needs beyond that
to do well (FastCGI keep-alive, `open_file_cache`) is a row of its own.
"""

import http.client
import itertools
import json
import os
import resource
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .processes import Process, wait_until

WORKER_USER = "nobody"
WORKER_GROUP = "nogroup"
THREADS = 2


# Held until the end of this program: the kernel lets one process have each name.
CLAIMS = []
CHOICE = threading.Lock()


def claimed_ports():
    """Ports of this program alone, below those that the kernel hands out (ip_local_port_range), which any process may get before they are
    used here. `tutti_testkit::free_port` takes its ports by the same names."""
    for number in range(200):
        # Programs that begin one after the other begin at different places.
        number = (number + os.getpid() * 97) % 200
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0tutti-test-ports-{number}")
        except OSError:
            claim.close()
            continue
        CLAIMS.append(claim)
        yield from range(12_000 + 100 * number, 12_100 + 100 * number)
        if len(CLAIMS) == 20:
            return


# One that was given away comes again after 2,000 others.
PORTS = itertools.cycle(claimed_ports())


def free_port(host="127.0.0.1"):
    for _ in range(4_000):
        with CHOICE:
            port = next(PORTS)
        with socket.socket() as probe:
            # One that a closed connection still holds is free for a server, which sets this, too.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise RuntimeError("there is no free port")


def takes_connections(host, port):
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


@dataclass
class Place:
    """Where a server runs: its address, and the command prefix that puts it there (a network namespace)."""

    host: str = "127.0.0.1"
    prefix: tuple = ()
    ports: Iterator = field(default_factory=lambda: itertools.count(8080))

    def port(self):
        """Free on loopback; in a namespace of our own no other program takes one, so they are counted up."""
        return next(self.ports) if self.prefix else free_port(self.host)


class Server:
    """A started peer. Subclasses write the configuration in `arguments`."""

    label = "?"
    # Seconds within which it has to answer.
    start_seconds = 30

    def __init__(self, folder, site, workers=4, place=None):
        self.place = place or Place()
        self.site = Path(site)
        self.workers = workers
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        self.processes = []

    @property
    def name(self):
        return self.label

    def start(self):
        self.port = self.place.port()
        try:
            self.launch()
            wait_until(self.answers, self.start_seconds, f"{self.name} on port {self.port}; log: {self.log_tail()}")
        except BaseException:
            self.stop()
            raise
        return self

    def launch(self):
        self.spawn(self.arguments())

    def spawn(self, arguments, log="log", env=None, cwd=None):
        process = Process([*self.place.prefix, *arguments], self.folder / log, env=env, cwd=cwd)
        self.processes.append(process)
        return process

    @property
    def roots(self):
        return [process.pid for process in self.processes]

    def url(self, path):
        return f"http://{self.place.host}:{self.port}{path}"

    def answers(self):
        dead = [process for process in self.processes if not process.is_alive()]
        if dead:
            raise RuntimeError(f"{self.name} ended at start: {self.log_tail()}")
        if self.place.prefix:  # another network namespace: ask from inside it
            probe = [*self.place.prefix, "curl", "-s", "-o", "/dev/null", self.url("/")]
            return subprocess.run(probe, check=False).returncode == 0
        return takes_connections(self.place.host, self.port)

    def get(self, path):
        """(status, body) of one request."""
        connection = http.client.HTTPConnection(self.place.host, self.port, timeout=20)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def log_tail(self):
        log = self.folder / "log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else ""

    def stop(self):
        for process in reversed(self.processes):
            process.stop()
        self.processes = []


class Floor(Server):
    label = "floor (no parsing)"
    program = "tutti-floor"

    def arguments(self):
        return [self.program, f"{self.place.host}:{self.port}", str(THREADS)]


class Nginx(Server):
    """nginx for static files and `return`; with `open_file_cache` when `cached`."""

    cached = False
    label = "nginx"
    protocol = ""

    def arguments(self):
        configuration = self.folder / "nginx.conf"
        configuration.write_text(self.configuration())
        return ["nginx", "-p", str(self.folder), "-c", str(configuration), "-e", str(self.folder / "log")]

    def configuration(self):
        cache = "open_file_cache max=1000 inactive=60s; open_file_cache_valid 30s;" if self.cached else ""
        user = f"user {WORKER_USER} {WORKER_GROUP};" if os.geteuid() == 0 else ""
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return f"""
daemon off; {user}
worker_processes {THREADS}; worker_rlimit_nofile {descriptors}; pid {self.folder}/pid; error_log {self.folder}/log crit;
events {{ worker_connections 16384; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 300s; {cache}
    types {{ text/html html; text/plain txt; }} default_type application/octet-stream;
    client_body_temp_path {self.folder}/body; fastcgi_temp_path {self.folder}/fastcgi; proxy_temp_path {self.folder}/proxy;
    scgi_temp_path {self.folder}/scgi; uwsgi_temp_path {self.folder}/uwsgi;
    {self.upstream()}
    server {{
        listen {self.place.host}:{self.port} backlog=4096 {self.protocol};
        root {self.site};
        location = /return {{ return 200; }}
        {self.locations()}
    }}
}}
"""

    def upstream(self):
        return ""

    def locations(self):
        return ""


class NginxCached(Nginx):
    cached = True
    label = "nginx, open_file_cache"


class NginxHttp2(Nginx):
    """On a port where it speaks HTTP/2 only, with prior knowledge."""

    label = "nginx, HTTP/2"
    protocol = "http2"

    def get(self, path):
        return curl_http2(self.url(path))


class NginxHttp2Cached(NginxHttp2):
    cached = True
    label = "nginx, HTTP/2, open_file_cache"


class H2o(Server):
    """h2o for static files. It has no `return`: `/return` is an empty file."""

    label = "h2o, HTTP/2"

    def arguments(self):
        empty = self.folder / "empty"
        empty.mkdir()
        (empty / "return").write_bytes(b"")
        configuration = self.folder / "h2o.conf"
        user = f"user: {WORKER_USER}\n" if os.geteuid() == 0 else ""
        configuration.write_text(f"""{user}num-threads: {THREADS}
max-connections: 16384
http2-idle-timeout: 300
error-log: {self.folder}/log
listen: {{host: {self.place.host}, port: {self.port}}}
hosts:
  default:
    paths:
      "/return": {{file.file: {empty}/return}}
      "/": {{file.dir: {self.site}}}
""")
        return ["h2o", "-m", "worker", "-c", str(configuration)]

    def get(self, path):
        return curl_http2(self.url(path))


def curl_http2(url):
    """(status, body) of one request over HTTP/2."""
    command = ["curl", "-s", "--http2-prior-knowledge", "-w", "%{stderr}%{http_version} %{http_code}", url]
    done = subprocess.run(command, capture_output=True, check=True)
    version, status = done.stderr.decode().split()
    if version != "2":
        raise RuntimeError(f"{url} is not answered over HTTP/2")
    return int(status), done.stdout


class Fpm(Server):
    """php-fpm on a Unix socket, with a child for each worker, before the server in front of it."""

    def launch(self):
        self.socket = self.folder / "fpm.sock"
        self.spawn(self.fpm_arguments(), log="fpm.log")
        wait_until(self.socket.exists, 30, f"php-fpm; log: {self.fpm_log()}")
        super().launch()

    def fpm_log(self):
        log = self.folder / "fpm.log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else ""

    def fpm_arguments(self):
        user = f"user = {WORKER_USER}\ngroup = {WORKER_GROUP}\nlisten.owner = {WORKER_USER}\nlisten.group = {WORKER_GROUP}" \
            if os.geteuid() == 0 else ""
        configuration = self.folder / "fpm.conf"
        configuration.write_text(f"""
[global]
error_log = {self.folder}/fpm.log
daemonize = no
rlimit_files = 4096
[bench]
{user}
listen = {self.socket}
listen.backlog = 4096
pm = static
pm.max_children = {self.workers}
""")
        return [fpm_program(), "-F", "-y", str(configuration)]


class FloorFpm(Fpm, Floor):
    """Forwards canned requests and does nothing else: what is left is php-fpm's own work and the kernel's."""

    label = "floor + php-fpm"

    def arguments(self):
        each = max(1, self.workers // THREADS)
        return [*super().arguments(), str(self.socket), str(self.site / "hello.php"), str(each)]


class NginxFpm(Fpm, Nginx):
    """nginx in front of php-fpm over a Unix socket."""

    keepalive = False
    spare_children = 0
    label = "nginx + php-fpm"

    def upstream(self):
        kept = f"keepalive {self.pool()};" if self.keepalive else ""
        return f"upstream php {{ server unix:{self.socket}; {kept} }}"

    def pool(self):
        """Idle FastCGI connections that each nginx worker may keep; each holds an FPM child."""
        return max(1, self.workers // THREADS - self.spare_children)

    def locations(self):
        parameters = "include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;"
        kept = "fastcgi_keep_conn on;" if self.keepalive else ""
        return f"""
        index index.php;
        location / {{ try_files $uri /index.php; }}
        location ~ \\.php$ {{ fastcgi_pass php; fastcgi_read_timeout 60s; {kept} {parameters} }}"""


class NginxFpmKept(NginxFpm):
    """Kept FastCGI connections, as many as there are children: the most requests per second, but a connection
    beyond them waits in FPM's backlog until a kept one is given up, which under a steady load is never."""

    keepalive = True
    label = "nginx + php-fpm, keep-alive"


class NginxFpmSpare(NginxFpmKept):
    """One child for each nginx worker is left to connections that are not kept, so that none starves."""

    spare_children = 1
    label = "nginx + php-fpm, keep-alive, spare"


def fpm_program():
    """Debian names it by version: php-fpm8.2."""
    for folder in ("/usr/sbin", "/usr/local/sbin"):
        found = sorted(Path(folder).glob("php-fpm*"))
        if found:
            return str(found[-1])
    raise RuntimeError("php-fpm is not installed\nhint: packaging/install-deps bench")


class Apache(Server):
    """Apache prefork with mod_php. A kept connection holds a process, so `workers` bounds its connections."""

    label = "apache + mod_php"

    def arguments(self):
        modules = Path("/usr/lib/apache2/modules")
        php = sorted(modules.glob("libphp*.so"))[-1]
        user = f"User {WORKER_USER}\nGroup {WORKER_GROUP}" if os.geteuid() == 0 else ""
        configuration = self.folder / "apache.conf"
        configuration.write_text(f"""
ServerRoot {self.folder}
PidFile {self.folder}/pid
ErrorLog {self.folder}/log
LogLevel crit
Mutex file:{self.folder} default
DefaultRuntimeDir {self.folder}
ServerName localhost
Listen {self.place.host}:{self.port}
ListenBacklog 4096
{user}
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule dir_module {modules}/mod_dir.so
LoadModule mime_module {modules}/mod_mime.so
LoadModule php_module {php}
TypesConfig /etc/mime.types
ServerLimit {self.workers}
StartServers {self.workers}
MinSpareServers 1
MaxSpareServers {self.workers + 1}
MaxRequestWorkers {self.workers}
MaxConnectionsPerChild 0
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 5
DocumentRoot {self.site}
DirectoryIndex index.php index.html
<Directory {self.site}>
    Require all granted
    AllowOverride None
    FallbackResource /index.php
</Directory>
<FilesMatch "\\.php$">
    SetHandler application/x-httpd-php
</FilesMatch>
""")
        return ["apache2", "-f", str(configuration), "-DFOREGROUND"]

class Tutti(Server):
    """Tutti from `dist/`, configured by one PUT to its control socket, like any user does it."""

    label = "tutti"
    dist = None
    # The language host that it cannot do without, as a pattern below `modules`.
    host = None
    # Seconds that the control API may take to answer: applications start before it does.
    patience = 60

    def launch(self):
        state, temporary = self.folder / "state", self.folder / "tmp"
        for folder in (state, temporary):
            folder.mkdir(exist_ok=True)
        self.control = self.folder / "control.sock"
        identity = ["--user", WORKER_USER, "--group", WORKER_GROUP] if os.geteuid() == 0 else []
        self.spawn([str(Path(self.dist) / "bin/tuttid"), "--no-daemon", "--control", f"unix:{self.control}",
                    "--modulesdir", str(Path(self.dist) / "modules"), "--statedir", str(state), "--tmpdir", str(temporary),
                    "--pid", str(self.folder / "pid"), "--log", str(self.folder / "log"), *identity], log="stderr")
        wait_until(self.control_answers, 30, f"tutti's control socket; log: {self.log_tail()}")
        status, body = self.put("/config", self.configuration())
        if status != 200:
            raise RuntimeError(f"the configuration was refused: {body}")

    def control_answers(self):
        if not self.processes[0].is_alive():
            raise RuntimeError(f"tutti ended at start: {self.log_tail()}{(self.folder / 'stderr').read_text()}")
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.control)) == 0

    def put(self, path, value):
        return self.control_request("PUT", path, json.dumps(value))

    def control_request(self, method, path, body=None):
        """(status, body text) of one request to the control socket."""
        connection = http.client.HTTPConnection("localhost", timeout=self.patience)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(self.patience)
        connection.sock.connect(str(self.control))
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def configuration(self):
        php = {"type": "php", "root": str(self.site), "processes": self.workers}
        configuration = {
            "listeners": {f"{self.place.host}:{self.port}": {"pass": "routes", "backlog": 4096}},
            "settings": {"listen_threads": THREADS, "http": {"idle_timeout": 300, "header_read_timeout": 60}},
            "routes": [
                {"match": {"uri": "/return"}, "action": {"return": 200}},
                {"match": {"uri": "*.php"}, "action": {"pass": "applications/php"}},
                {"action": {"share": f"{self.site}$uri", "index": "index.html", "fallback": {"pass": "applications/php"}}},
            ],
            "applications": {"php": php},
        }
        if not self.workers:
            configuration["routes"] = [configuration["routes"][0], {"action": {"share": f"{self.site}$uri"}}]
            del configuration["applications"]
        return configuration

    def serving(self, name, application):
        """The same with this application alone, behind its listener and with as many processes as there are workers."""
        configuration = Tutti.configuration(self)
        del configuration["routes"]
        for listener in configuration["listeners"].values():
            listener["pass"] = f"applications/{name}"
        configuration["applications"] = {name: {**application, "processes": self.workers}}
        return configuration


class TuttiFpm(Fpm, Tutti):
    """Tutti in front of php-fpm over a Unix socket; it does not know how many children there are."""

    label = "tutti + php-fpm"
    bound = None

    def configuration(self):
        configuration = super().configuration()
        del configuration["applications"]
        server = {} if self.bound is None else {"max_connections": self.bound * self.workers}
        configuration["upstreams"] = {"fpm": {
            "servers": {f"unix:{self.socket}": server}, "queue": 1000, "fastcgi": {"root": str(self.site)}}}
        configuration["routes"] = [
            {"match": {"uri": "/return"}, "action": {"return": 200}},
            {"match": {"uri": "*.php"}, "action": {"pass": "upstreams/fpm"}},
            {"action": {"share": f"{self.site}$uri", "fallback": {"pass": "upstreams/fpm"}}},
        ]
        return configuration


class TuttiFpmBound(TuttiFpm):
    """As many requests at once as there are children; the others wait in Tutti."""

    label = "tutti + php-fpm, max_connections"
    bound = 1


class TuttiSite(Tutti):
    """The configuration shape of the published comparison: everything that is no file goes to one script."""

    def configuration(self):
        configuration = super().configuration()
        configuration["routes"] = [
            {"match": {"uri": "!/index.php"},
             "action": {"share": f"{self.site}$uri", "fallback": {"pass": "applications/php"}}},
            {"action": {"pass": "applications/php"}},
        ]
        configuration["applications"]["php"]["script"] = "index.php"
        return configuration


class TuttiResident(Tutti):
    """Resident PHP: one script, booted once in each process, answers everything."""

    label = "tutti, resident"
    script = "resident/hello.php"

    def configuration(self):
        configuration = super().configuration()
        configuration["routes"] = [{"action": {"pass": "applications/php"}}]
        configuration["applications"]["php"].update(mode="resident", script=self.script)
        return configuration


class TuttiResidentSlim(TuttiResident):
    script = "resident/slim.php"


class TuttiResidentLumen(TuttiResident):
    script = "resident/lumen.php"


class TuttiResidentYii(TuttiResident):
    """The front controller as it is, for each request."""

    script = "resident/yii.php"


class TuttiResidentYiiAdapter(TuttiResident):
    """By the adapter: configuration and connection are kept."""

    label = "tutti, resident by the adapter"
    script = "resident/yii-adapter.php"


def go_program(folder):
    """The Go program of the benchmarks, built once a run."""
    program = Path(folder).parent / "go-program"
    if not program.exists():
        subprocess.run(["go", "build", "-o", str(program), "."], cwd=Path(__file__).resolve().parent.parent / "go", check=True)
        program.chmod(0o755)
    return str(program)


class GoAlone(Server):
    """The Go program by itself, served by net/http."""

    label = "net/http"

    def arguments(self):
        return [go_program(self.folder), f"{self.place.host}:{self.port}"]


class TuttiGo(Tutti):
    """The same program as an application of type `external`."""

    label = "tutti, Go"
    host = "tutti-external"

    def configuration(self):
        return {
            "listeners": {f"{self.place.host}:{self.port}": {"pass": "applications/go", "backlog": 4096}},
            "settings": {"listen_threads": THREADS, "http": {"idle_timeout": 300}},
            "applications": {"go": {"type": "external", "executable": go_program(self.folder), "processes": self.workers}},
        }


class TuttiGoHttp(Tutti):
    """The same program, unmodified, behind Tutti by HTTP: it is only told a port."""

    label = "tutti, Go by HTTP"
    host = "tutti-external"
    address = {"arguments": ["127.0.0.1:$PORT"]}

    def configuration(self):
        return {
            "listeners": {f"{self.place.host}:{self.port}": {"pass": "applications/go", "backlog": 4096}},
            "settings": {"listen_threads": THREADS, "http": {"idle_timeout": 300}},
            "applications": {"go": {"type": "external", "protocol": "http", "executable": go_program(self.folder),
                                    "processes": self.workers, **self.address}},
        }


class TuttiGoUnix(TuttiGoHttp):
    """The same, told the path of a Unix socket."""

    label = "tutti, Go by HTTP, Unix socket"
    address = {"arguments": ["$SOCKET"], "listen": "unix"}


def is_installed(server):
    """Returns whether this peer can run here; the reason if not."""
    if (behind := getattr(server, "behind", None)) and (reason := is_installed(behind)):
        return reason
    if issubclass(server, (TuttiGo, TuttiGoHttp)) and not shutil.which("go"):
        return "go is not installed"
    if issubclass(server, Tutti):
        dist = Path(server.dist or "dist")
        for needed in ("bin/tuttid", *([f"modules/{server.host}"] if server.host else [])):
            if not any(dist.glob(needed)):
                return f"{dist / needed} is missing (make build)"
    if issubclass(server, Floor):
        return None if Path(server.program).exists() else f"{server.program} is missing"
    if issubclass(server, GoAlone):
        return None if shutil.which("go") else "go is not installed"
    usual = [] if issubclass(server, Tutti) else ["apache2"] if issubclass(server, Apache) else ["nginx"]
    for program in getattr(server, "programs", None) or usual:
        if not shutil.which(program, path="/usr/sbin:/usr/bin:" + os.environ.get("PATH", "")):
            return f"{program} is not installed"
    return None

