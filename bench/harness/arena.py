"""HttpArena's profiles (P54): our entries in `bench/arena`, each beside the servers that it is compared with, the same application in both.

An entry runs here by the configuration that its image has; only places and ports are put in. See bench/README.md, "HttpArena".
"""

import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from . import arena_data
from .cases import Case, no_errors, ratio
from .http3 import program_of_trixie
from .java import HEAP, Tomcat
from .loads import H2load, Http3, Wrk, _run, parse_h2load, parse_wrk
from .measure import Check
from .node import Cluster
from .python import Echo, FastPySgi, environment
from .ruby import Puma
from .servers import THREADS, H2o, Nginx, NginxFpmKept, Server, Tutti, free_port

ROOT = Path(__file__).resolve().parent.parent.parent
ARENA = ROOT / "bench/arena"
ENTRIES = ("php", "python", "ruby", "node", "websocket", "java", "gateway", "gateway-h3")
# The ports of an entry's configuration, by what is spoken there.
ENTRANCES = {"plain": 8080, "tls1": 8081, "h2c": 8082, "tls": 8443, "server": 8090}
ACCEPT = {"Accept-Encoding": "br;q=1, gzip;q=0.8"}


def meta(entry):
    return json.loads((ARENA / entry / "meta.json").read_text())


def site(entry, role="entry"):
    """The configuration of an entry's image: the listeners that entries share, and its application. `role` "server": the one behind a gateway."""
    if role == "entry" and entry.startswith("gateway"):
        return json.loads((ARENA / "gateway.json").read_text())
    # HttpArena's validation has a certificate only for entries that subscribe to an encrypted profile.
    name = role if role == "server" else entry if entry == "websocket" else "languages"
    shared = json.loads((ARENA / f"{name}.json").read_text())
    return {**shared, "applications": {"arena": json.loads((ARENA / entry / "application.json").read_text())}}


@dataclass(frozen=True)
class Request:
    """A request of a profile; `chunked`: its body is sent in one chunk."""

    path: str
    body: bytes | None = None
    is_chunked: bool = False
    fields: tuple = ()

    def raw(self, host, is_last=False):
        """Its bytes in HTTP/1.1."""
        fields = [("Host", host), *self.fields]
        body = self.body or b""
        if self.body is not None:
            fields += [("Content-Type", "text/plain"), ("Transfer-Encoding", "chunked") if self.is_chunked else ("Content-Length", str(len(body)))]
        if is_last:
            fields.append(("Connection", "close"))
        if self.is_chunked:
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        head = "".join(f"{name}: {value}\r\n" for name, value in fields)
        return f"{'GET' if self.body is None else 'POST'} {self.path} HTTP/1.1\r\n{head}\r\n".encode() + body


@dataclass
class Rotation:
    """wrk, with the requests one after the other; `depth` of them at once; `each` of them on a connection."""

    requests: list
    connections: int
    seconds: float
    depth: int = 1
    each: int = 0

    @property
    def name(self):
        more = f", {self.depth} at once" if self.depth > 1 else f", {self.each} on each" if self.each else ""
        return f"wrk -t1 -c{self.connections}{more}"

    def run(self, url, prefix=()):
        host = url.partition("://")[2].partition("/")[0]
        rotation = [self.requests[number % len(self.requests)] for number in range(self.each or len(self.requests))]
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, request in enumerate(rotation):
                files.append(Path(folder) / str(number))
                files[-1].write_bytes(request.raw(host, is_last=number + 1 == self.each))
            output, cost = _run(["wrk", "-t1", f"-c{self.connections}", f"-d{max(1, round(self.seconds))}s", "--timeout=30s", "--latency",
                                 "-s", ARENA / "rotate.lua", url, "--", self.depth, *files], prefix)
        return parse_wrk(output, cost)


@dataclass
class Http2Rotation(H2load):
    """h2load, with these paths one after the other."""

    paths: list = field(default_factory=list)
    fields: dict = field(default_factory=dict)

    def run(self, url, prefix=()):
        base = "/".join(url.split("/")[:3])
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("".join(f"{base}{path}\n" for path in self.paths))
            file.flush()
            headers = [word for name, value in self.fields.items() for word in ("-H", f"{name}: {value}")]
            output, cost = _run(["h2load", f"-c{self.connections}", f"-m{self.streams}", "-t1", f"-D{max(1, round(self.seconds))}", "--warm-up-time=1",
                                 *headers, "-i", file.name], prefix)
        return parse_h2load(output, cost)


BASELINE = [Request("/baseline11?a=13&b=42"), Request("/baseline11?a=13&b=42", b"20"), Request("/baseline11?a=13&b=42", b"20", is_chunked=True)]
JSON = [Request(f"/json/{count}?m={factor}") for count, factor in ((1, 3), (5, 7), (10, 2), (15, 5), (25, 4), (40, 8), (50, 6))]
COMPRESSED = [Request(f"/json/{count}?m={factor}", fields=(("Accept-Encoding", "gzip, br"),)) for count, factor in ((25, 4), (40, 8), (50, 6))]
UPLOAD = [Request("/upload", bytes(size)) for size in (512_000, 2_097_152, 10_485_760, 20_971_520)]
STATIC = [f"/static/{name}" for name in arena_data.FILES]
DATABASE = [Request(f"/async-db?min=10&max=50&limit={limit}") for limit in (5, 10, 20, 35, 50)]
GATEWAY = [*(f"/static/{name}" for name in ("reset.css", "components.css", "app.js", "vendor.js", "header.html", "hero.webp")),
           *(f"/json/{count}" for count in (1, 5, 10, 15, 25, 40, 50)),
           *(f"/baseline2?a={a}&b={b}" for a, b in ((1, 1), (13, 42), (100, 200), (7, 9))),
           *(f"/async-db?min=10&max=50&limit={limit}" for limit in (10, 25, 50))]


@dataclass(frozen=True)
class Profile:
    """A profile of HttpArena: where it is asked, one path of it, and its load, made from a context."""

    entrance: str
    path: str
    load: object


# Fewer connections than there, where 64 cores serve up to 16,384.
PROFILES = {
    "baseline": Profile("plain", BASELINE[0].path, lambda context: Rotation(BASELINE, 64, context.seconds)),
    "pipelined": Profile("plain", "/pipeline", lambda context: Rotation([Request("/pipeline")], 64, context.seconds, depth=16)),
    "limited-conn": Profile("plain", BASELINE[0].path, lambda context: Rotation(BASELINE, 64, context.seconds, each=10)),
    "json": Profile("plain", JSON[-1].path, lambda context: Rotation(JSON, 64, context.seconds)),
    "json-comp": Profile("plain", COMPRESSED[-1].path, lambda context: Rotation(COMPRESSED, 64, context.seconds)),
    "json-tls": Profile("tls1", JSON[-1].path, lambda context: Rotation(JSON, 64, context.seconds)),
    "upload": Profile("plain", "/upload", lambda context: Rotation(UPLOAD, 8, context.seconds)),
    "static": Profile("plain", STATIC[0], lambda context: Rotation([Request(path, fields=tuple(ACCEPT.items())) for path in STATIC], 64, context.seconds)),
    "async-db": Profile("plain", DATABASE[-1].path, lambda context: Rotation(DATABASE, 32, context.seconds)),
    "baseline-h2": Profile("tls", "/baseline2?a=1&b=1", lambda context: Http2Rotation(8, 100, context.seconds, ["/baseline2?a=1&b=1"])),
    "static-h2": Profile("tls", STATIC[0], lambda context: Http2Rotation(8, 100, context.seconds, STATIC, ACCEPT)),
    "baseline-h2c": Profile("h2c", "/baseline2?a=1&b=1", lambda context: Http2Rotation(8, 100, context.seconds, ["/baseline2?a=1&b=1"])),
    "json-h2c": Profile("h2c", JSON[-1].path, lambda context: Http2Rotation(8, 100, context.seconds, [request.path for request in JSON])),
    # One path: our client of HTTP/3 has no rotation.
    "baseline-h3": Profile("tls", "/baseline2?a=1&b=1", lambda context: Http3(context.load_program, 4, 64, context.seconds)),
    "static-h3": Profile("tls", STATIC[0], lambda context: Http3(context.load_program, 4, 64, context.seconds)),
    "gateway-64": Profile("tls", "/baseline2?a=1&b=1", lambda context: Http2Rotation(8, 32, context.seconds, GATEWAY, ACCEPT)),
    "gateway-h3": Profile("tls", "/baseline2?a=1&b=1", lambda context: Http3(context.load_program, 4, 32, context.seconds)),
    "echo-ws": Profile("plain", "/ws", lambda context: Echo(context.load_program, 64, context.seconds)),
}


@functools.cache
def data(folder):
    """The files of all servers of a run."""
    return arena_data.make(Path(folder) / "arena-data")


@functools.cache
def application(entry, folder):
    """The folder of an entry's application, as its Dockerfile makes it."""
    www = Path(folder) / f"arena-{entry}"
    shutil.copytree(ARENA / entry, www)
    if (www / "package.json").exists():
        run_quietly("npm", "install", "--prefix", www, "--omit=dev", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error")
    if entry == "ruby":
        run_quietly("bundle", "install", "--local", "--quiet", f"--gemfile={www}/Gemfile")
    if entry == "java":
        run_quietly("mvn", "-q", "-B", "-f", www / "pom.xml", "package")
        shutil.copy(www / "target/arena.war", www / "arena.war")
    for each in [www, *www.rglob("*")]:
        if not each.is_symlink():
            each.chmod(each.stat().st_mode | (0o555 if each.is_dir() else 0o444))
    return www


def run_quietly(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed ({done.returncode}): {(done.stderr or done.stdout)[-2000:]}")


class Contestant:
    """The part that every server of these cases has: the data, the application, and a port for each entrance."""

    entry = "gateway"

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.ports = {name: free_port() for name in ENTRANCES}

    @property
    def data(self):
        return data(str(self.folder.parent))

    @property
    def www(self):
        return application(self.entry, str(self.folder.parent))

    @property
    def database(self):
        return arena_data.database(str(self.folder.parent)) if "async-db" in meta(self.entry)["tests"] else None

    @property
    def environment(self):
        return {"DATASET": str(self.data / "dataset.json"), "PROCESSES": str(self.workers), "HOST": self.place.host, "PORT": str(self.ports["plain"]),
                **({"DATABASE_URL": self.database} if self.database else {})}

    @property
    def port(self):
        """Where it is asked whether it is there."""
        return self.ports["plain"]

    @port.setter
    def port(self, _number):
        """Each entrance has its own."""

    def url(self, path):
        """Returns the URL of a path, or of a profile by its name."""
        profile = PROFILES.get(path)
        if not profile:
            return f"http://{self.place.host}:{self.port}{path}"
        scheme = "https" if profile.entrance.startswith("tls") else "http"
        return f"{scheme}://{self.place.host}:{self.ports[profile.entrance]}{profile.path}"

    def get(self, path):
        """(status, body) of one request; the body of JSON without what its writer may choose."""
        profile = PROFILES[path]
        program = program_of_trixie("curl", "curl") if path.endswith("-h3") else ["curl"]
        how = ["--http3-only"] if path.endswith("-h3") else ["--http2-prior-knowledge"] if profile.entrance == "h2c" else []
        if path == "upload":
            how += ["--data-binary", "Hello"]
        if path == "echo-ws":
            return 200, b""
        done = subprocess.run([*program, "-sk", "--max-time", "30", *how, "-w", "%{stderr}%{http_code}", self.url(path)], capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self.name} does not answer {path}: curl's status {done.returncode}")
        body = done.stdout
        if profile.path.startswith(("/json", "/async-db")):
            body = json.dumps(json.loads(body), sort_keys=True).encode()
        return int(done.stderr.decode().split()[-1]), body


class Entry(Contestant, Tutti):
    """One of our entries, by the configuration of its image."""

    role = "entry"

    def configuration(self):
        configuration = self.placed(site(self.entry, self.role))
        configuration.setdefault("settings", {})["listen_threads"] = THREADS
        for one in configuration.get("applications", {}).values():
            one["environment"] |= self.environment
            if "processes" in one:
                one["processes"] = self.workers
            if one["type"] == "python":
                one["home"] = str(environment())
            if one["type"] == "java":
                one["options"] = [HEAP]
        return configuration

    def placed(self, value):
        """The places of the container, and its ports, for those of here."""
        places = {"/data": self.data, "/certs": self.data, "/www": self.www}
        text = re.sub(r'"(/data|/certs|/www)(?=[/"$])', lambda found: f'"{places[found[1]]}', json.dumps(value))
        numbers = {str(number): self.ports[name] for name, number in ENTRANCES.items()}
        return json.loads(re.sub(r'"(?:\*|127\.0\.0\.1):(\d+)"', lambda found: f'"{self.place.host}:{numbers[found[1]]}"', text))


class Behind(Entry):
    """The application server of a gateway: the entry for Node.js with one listener."""

    entry, host, role = "node", "tutti-node", "server"
    label = "the server behind"

    @property
    def port(self):
        return self.ports["server"]

    @port.setter
    def port(self, _number):
        """As above."""


class WithServer:
    """A gateway with the application server behind it, which is part of what it costs."""

    behind = Behind

    def launch(self):
        self.server = Behind(self.folder.parent / f"{self.folder.name}-server", self.site, self.workers, self.place)
        self.server.ports["server"] = self.ports["server"]
        self.server.start()
        super().launch()

    @property
    def roots(self):
        return [*super().roots, *self.server.roots]

    def stop(self):
        super().stop()
        if hasattr(self, "server"):
            self.server.stop()


class Files(Entry):
    """A gateway that is asked for files only, without the server behind."""

    label = "tutti"

    @property
    def www(self):
        """There is no application in it."""
        return None


class Gateway(WithServer, Files):
    pass


def entry(name):
    """The class of an entry's server."""
    if name.startswith("gateway"):
        return type("Gateway", (Gateway,), {"entry": name})
    hosts = {"php": "tutti-php*", "python": "tutti-python*", "ruby": "tutti-ruby*", "node": "tutti-node", "websocket": "tutti-node", "java": "tutti-java"}
    return type(f"Entry{name}", (Entry,), {"entry": name, "host": hosts[name], "label": "tutti"})


class FpmPeer(Contestant, NginxFpmKept):
    """The entry's script by FPM, for each request; nginx compresses and encrypts."""

    entry, label = "php", "nginx + php-fpm, keep-alive"
    protocol = ""

    def configuration(self):
        # The methods and levels that are Tutti's by default.
        compression = "gzip on; gzip_comp_level 6; gzip_types application/json; brotli on; brotli_comp_level 4; brotli_types application/json;"
        brotli = "load_module /usr/lib/nginx/modules/ngx_http_brotli_filter_module.so; "
        return brotli + super().configuration().replace("access_log off;", f"access_log off; client_max_body_size 32m; {compression}")

    def locations(self):
        parameters = f"include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME {self.www}/arena.php;"
        chain, key = self.data / "server.crt", self.data / "server.key"
        return f"""
        listen {self.place.host}:{self.ports["tls1"]} ssl backlog=4096;
        ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;
        location / {{ fastcgi_pass php; fastcgi_keep_conn on; {parameters} }}"""

    def fpm_arguments(self):
        arguments = super().fpm_arguments()
        with open(self.folder / "fpm.conf", "a", encoding="utf-8") as file:
            file.write(f"env[DATASET] = {self.data}/dataset.json\nphp_admin_value[post_max_size] = 32M\n")
        return arguments


class FastPySgiPeer(Contestant, FastPySgi):
    entry, label = "python", FastPySgi.label

    def arguments(self):
        code = (f"import fastpysgi, arena; fastpysgi.server.backlog = 4096; fastpysgi.server.max_content_length = 32 << 20; "
                f"fastpysgi.run(arena.app, {self.place.host!r}, {self.port}, loglevel=0, workers={self.workers})")
        return ["env", f"PYTHONPATH={self.www}", f"DATASET={self.data}/dataset.json", self.program("python"), "-c", code]


class PumaPeer(Contestant, Puma):
    entry, label = "ruby", Puma.label

    @property
    def application(self):
        return str(self.www / "config.ru")

    def launch(self):
        self.spawn(self.arguments(), env={**os.environ, **self.environment, "RACK_ENV": "production"})


class ClusterPeer(Contestant, Cluster):
    entry, label = "node", Cluster.label

    def launch(self):
        self.spawn(["node", ROOT / "bench/site/node/cluster.js", self.www / "arena.js", str(self.workers)],
                   env={**os.environ, **self.environment, "NODE_ENV": "production"})


def websocket(server):
    """The same server with the entry for WebSocket."""
    return type(f"{server.__name__}WebSocket", (server,), {"entry": "websocket"})


class TomcatPeer(Contestant, Tomcat):
    entry, label = "java", Tomcat.label

    def webapp(self, folder):
        folder.parent.mkdir(parents=True)
        shutil.copy(self.www / "arena.war", folder.with_suffix(".war"))

    def arguments(self):
        return ["env", f"DATASET={self.data}/dataset.json", *super().arguments()]

    def answers(self):
        return Server.answers(self) and self.get("baseline")[0] == 200


class NginxFiles(Contestant, Nginx):
    """Files from disk, their compressed siblings where it knows them."""

    label = "nginx"
    server_part = ""

    def configuration(self):
        module = "load_module /usr/lib/nginx/modules/ngx_http_brotli_static_module.so; "
        types = "text/css css; application/javascript js; application/json json; image/svg+xml svg; image/webp webp; font/woff2 woff2;"
        return module + super().configuration().replace("text/html html;", f"text/html html; {types}")

    def locations(self):
        chain, key = self.data / "server.crt", self.data / "server.key"
        return f"""
        listen {self.place.host}:{self.ports["tls"]} ssl http2 backlog=4096;
        ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3; http2_max_concurrent_streams 128;
        location /static/ {{ gzip_static on; brotli_static on; root {self.data}; }}
        {self.server_part}"""


class NginxGateway(WithServer, NginxFiles):
    label = "nginx"

    def upstream(self):
        return f"upstream server {{ server {self.place.host}:{self.ports['server']}; keepalive 64; }}"

    @property
    def server_part(self):
        return "location / { proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection ''; }"


class H2oFiles(Contestant, H2o):
    label = "h2o"
    programs = ("h2o",)

    def arguments(self):
        arguments = super().arguments()
        file = self.folder / "h2o.conf"
        listening = (f"{{host: {self.place.host}, port: {self.ports['tls']}, "
                     f"ssl: {{certificate-file: {self.data}/server.crt, key-file: {self.data}/server.key}}}}")
        text = file.read_text().replace("hosts:", f"listen: {listening}\nhosts:")
        file.write_text(text.replace(f"file.dir: {self.site}", f"file.dir: {self.data}, file.send-compressed: ON"))
        return arguments


def memory(table, peer):
    """A check of the memory of all processes after the loads."""
    mine, theirs = table.find("tutti"), table.find(peer)
    if not mine or not theirs or not mine.pss_mib or not theirs.pss_mib:
        return Check(f"memory ≤ 1.0 × {peer}'s: not measured", None)
    value = mine.pss_mib / theirs.pss_mib
    return Check(f"memory ≤ 1.0 × {peer}'s: {value:.2f}", value <= 1.0)


def case(context, name, title, servers, profiles, workers=2):
    """The profiles of one entry, beside its peers; those with none have no bound."""
    loads = [(PROFILES[profile].load(context), profile) for profile in profiles]
    peers = [server.label for server in servers[:-1]]

    def verdict(table):
        checks = [ratio(table, "rps", load.name, profile, at_least=1.0, peer=peer) for load, profile in loads for peer in peers]
        return [*checks, *(memory(table, peer) for peer in peers), no_errors(table)]

    return Case(f"P54-{name}", f"HttpArena: {title}", "≥ 1.0 × each peer, with at most its memory" if peers else "no peer here speaks this",
                [(server, workers, server.label) for server in servers], loads, verdict)


def cases(context):
    plain = ["baseline", "pipelined", "limited-conn", "json", "upload"]
    http2 = ["baseline-h2", "baseline-h2c", "json-h2c", "baseline-h3"]
    return [
        case(context, "php", "plain PHP, 2 processes", [FpmPeer, entry("php")], [*plain, "json-comp", "json-tls"]),
        case(context, "python", "Flask, 2 processes", [FastPySgiPeer, entry("python")], plain),
        case(context, "ruby", "Sinatra, 2 processes", [PumaPeer, entry("ruby")], plain),
        case(context, "node", "Express, 2 processes", [ClusterPeer, entry("node")], [*plain, "async-db"]),
        case(context, "websocket", "WebSocket by ws, 2 processes", [websocket(ClusterPeer), entry("websocket")], ["echo-ws"]),
        case(context, "java", "servlets", [TomcatPeer, entry("java")], plain),
        case(context, "http2", "Express by HTTP/2 and HTTP/3", [entry("node")], http2),
        case(context, "files", "files from disk", [NginxFiles, H2oFiles, Files], ["static", "static-h2"]),
        case(context, "gateway", "a gateway before Express", [NginxGateway, entry("gateway")], ["gateway-64"]),
        case(context, "gateway-h3", "a gateway before Express, by HTTP/3", [entry("gateway-h3")], ["static-h3", "gateway-h3"]),
    ]
