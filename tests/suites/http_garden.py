"""Request smuggling: what the servers and language hosts behind Tutti take for a request, with the payloads of HTTP Garden and mutations."""

import collections
import json
import os
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote_to_bytes

from base import Case
from base.context import ROOT, wait_until

VERSION = "ffb9164 (9 December 2025): the bugs of its list, written anew, and 5,800 mutations"

HERE = ROOT / "tests/conformance/http_garden"
THREADS = 16
LONGEST = 20

HOST = "Host: localhost\r\n"
# It is never read as a request, but where the router has read it as one.
HIDDEN = f"GET /smuggled-NUMBER HTTP/1.1\r\n{HOST}\r\n"
# Everything that the router takes for a request gets this field with its own view of it, in place of any that the client sends. A request that arrives
# without it, or with another's, has been hidden from the router.
STAMP = "$request_id $method $uri"


def get(fields="", body="", target="/mark-NUMBER", version="HTTP/1.1", method="GET", host=HOST):
    return f"{method} {target} {version}\r\n{host}{fields}\r\n{body}"


def post(fields="", body="", **line):
    return get(fields, body, method="POST", **line)


def chunked(body, fields="Transfer-Encoding: chunked\r\n"):
    return post(fields, body)


def sized(value, body=HIDDEN):
    return post(f"Content-Length: {value}\r\n", body)


SIZE = len(HIDDEN.replace("NUMBER", "000000"))
ENDED = f"0\r\n\r\n{HIDDEN}"

# By the numbers of HTTP Garden's list: bugs of servers, then of what stands before them.
PAYLOADS = {
    "server-1": chunked(f"0_2e\r\n\r\n{HIDDEN}0\r\n\r\n"),
    "server-1-plus": chunked(f"+{SIZE:x}\r\n{HIDDEN}\r\n0\r\n\r\n"),
    "server-1-minus": chunked(f"-0\r\n\r\n{HIDDEN}"),
    "server-2-nul": get("Header: v\0alue\r\n"),
    "server-2-cr": get(f"Header: v\r\r\n{HIDDEN}"),
    "server-2-lf": get(f"Header: v\n\n{HIDDEN}"),
    "server-3": post(f"Content-Length : {SIZE}\r\n", HIDDEN),
    "server-3-tab": post("Transfer-Encoding\t: chunked\r\n", ENDED),
    "server-4": get("", HIDDEN, host=f"\tContent-Length: {SIZE}\r\n{HOST}"),
    "server-5": get(version="HTTP/1.32"),
    "server-6": get(method='G=":<>(e),[T];?"'),
    "server-7": get(target="!"),
    "server-8": get("\xeffoo: bar\r\n"),
    "server-9": f"GET /mark-NUMBER\nHTTP/1.1\r\n{HOST}\r\n",
    "server-10": sized("+1_0", "0123456789" + HIDDEN),
    "server-11": chunked("1\r\nZ\r\n" + ENDED, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
    "server-12": chunked(ENDED, "Transfer-Encoding: \xa0chunked\xa0\r\n"),
    "server-12-length": post(f"Transfer-Encoding: \x85chunked\r\nContent-Length: {5 + SIZE}\r\n", ENDED),
    "server-13": get(f"Visible: :/\rContent-Length: {SIZE}\r\n", HIDDEN),
    "server-14": get("".join(chr(byte) for byte in range(32) if byte not in (10, 13)) + ' "(),/;<=>?@[/]{}: whatever\r\n'),
    "server-15": get(version="HTTP/\r\r1.1"),
    "server-16": sized(""),
    "server-17": chunked(f"\r\n\r\n{HIDDEN}"),
    "server-18": get(": ignored\r\n"),
    "server-18-end": get(f":\r\n{HIDDEN}"),
    "server-19": get(f"Useless:\n\n{HIDDEN}"),
    "server-20": post(f"Content-Length\x85: {SIZE}\r\n", HIDDEN),
    "server-20-nbsp": chunked(ENDED, "Transfer-Encoding\xa0: chunked\r\n"),
    "server-21": post(f"Transfer-Encoding: ,chunked\r\nContent-Length: {5 + SIZE}\r\n", ENDED),
    "server-21-alone": chunked(ENDED, "Transfer-Encoding: ,chunked\r\n"),
    "server-22": chunked(f"0x{SIZE:x}\r\n{HIDDEN}\r\n0\r\n\r\n"),
    "server-23": post(f"Content-Length: {SIZE}\r\nContent-Length: 0\r\n", HIDDEN),
    "server-24": get(version="HTTP/4294967295.255"),
    "server-25": chunked(f"0x0\r\n\r\n{HIDDEN}"),
    "server-26": sized("-48"),
    "server-27": get(f":\r\nContent-Length: {SIZE}\r\n", HIDDEN),
    "server-28": post(f"Content-Length {SIZE}\r\n", HIDDEN),
    "server-29": sized(f"{SIZE}Z"),
    "server-30": get(f"\rZ{HIDDEN}"),
    "server-31": chunked(f"5\r\r;ABCD\r\n34\r\nE\r\n{ENDED}"),
    "server-32": sized(f"0{SIZE}"),
    "server-32-octal": sized("010", "01234567" + HIDDEN),
    "server-33": post(f"Content-Length: 0\r\nContent-Length: {SIZE}\r\n", HIDDEN),
    "server-34": get("Header: va\rlue\r\n"),
    "server-35": get("Test: test\0 dropped\r\nConnection: close\r\n"),
    "server-36": chunked(f"{SIZE:x};a=b\r\r{HIDDEN}\r\n0\r\n\r\n"),
    "server-37": post(f"Transfer-\r\nEncoding: chunked\r\nContent-Length: {5 + SIZE}\r\n", ENDED),
    "server-38": get("Content-Length: \r\n", HIDDEN),
    "server-39": chunked(f"0\r\nX:POST /smuggled-NUMBER HTTP/1.1\r\n\r\n{HIDDEN}"),
    "server-40": get(method="\0", version="HTTP/............0596.7407."),
    "server-41": get("User: \x85admin\xa0\r\n"),
    "server-42": post(f"Content-Length: \r\nContent-Length: {SIZE}\r\n", HIDDEN),
    "server-43": get("Evil: evil\0\r\n"),
    "server-44": chunked(f"1\r\nZ\r\n{ENDED}", "Transfer-Encoding: blegh\r\n"),
    "server-45": get("Connection: close\r\n", "Invalid\r\n\r\n"),
    "server-46": chunked(f"1\r\nZ\r\n{ENDED}", "Transfer-Encoding: \xffchunked\xff\r\n"),
    "server-46-host": get(host="Host: \xffa\xff\r\n"),
    "server-47": chunked(f"INVALID!!!\r\n{HIDDEN}"),
    "server-48": post(f"Content-Length: 0\r\nConnection:keep-alive\r\n", post(f"Content-Length: {SIZE}\r\n", HIDDEN)),
    "transducer-1": sized(f"0x{SIZE:x}"),
    "transducer-2": chunked(f"Z\r\nZZ\r\nZZZ\r\n\r\n{HIDDEN}"),
    "transducer-3": chunked(f"2\r\r;a\r\n02\r\n41\r\n{ENDED}"),
    "transducer-4": chunked(f"1\r0\n{HIDDEN}"),
    "transducer-5": get("content-length: \r\n"),
    "transducer-6": get("Header\x85: value\r\n"),
    "transducer-7": chunked(f"{SIZE:x}these-are-not-looked-at\r\n{HIDDEN}\r\n0\r\n\r\n"),
    "transducer-9": chunked(ENDED, "Transfer-Encoding: ,chunked\r\n"),
    "transducer-10": get("Invalid-Header: this\rvalue\ris\rinvalid\r\n"),
    "transducer-11": get(f"content-length: \r\ncontent-length: {SIZE}\r\n", HIDDEN),
    "transducer-12": get(host="Host: localhost\0.example\r\n"),
    "transducer-13": chunked(f"a\r\n0123456789\n{ENDED}"),
    "transducer-14": get("Te\nst: test\r\nConnection: close\r\n"),
    "transducer-15": post("Transfer-Encoding: ,chunked\r\nContent-Length: 5\r\nConnection: close\r\n", f"0r\n\r\n{HIDDEN}"),
    "transducer-16": f"GET /mark-NUMBER HTTP/1.1\nHost: localhost\nContent-Length: {SIZE}\n\n{HIDDEN}",
    "transducer-17": chunked(f"{5 + SIZE:x}\r\n{ENDED}\r\n\r\n0\r\n\r\n"),
    "transducer-18": post("Transfer-Encoding: ,chunked\r\nContent-Length: 5\r\n", ENDED),
    "transducer-19": chunked(f"-0x0\r\n\r\n{HIDDEN}"),
    "transducer-20": get("a:b\r\nc\0\r\n"),
    "transducer-20-lf": get(f"a:b\r\nc\nContent-Length: {SIZE}\r\n", HIDDEN),
    "transducer-21": get(f"Content-Length: {SIZE}\r\n", HIDDEN),
    "transducer-22": post(f"Content-Length: 0\r\nContent-Length: {SIZE}\r\n", HIDDEN),
    "transducer-23": post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", ENDED),
    "transducer-24": chunked(f"           0\r\n\r\n{HIDDEN}"),
    "transducer-25": chunked(ENDED, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
    "bonus-3": chunked("0\r\n\r\n\0"),
    "bonus-4": chunked("1\r\nZ\r\n0\r\n\r\n"),
    "bonus-http2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HIDDEN,
}

# Messages without a fault, and what is inserted at each place of them; each byte is also left out.
SEEDS = {
    "get": get("X-Test: value\r\nConnection: keep-alive\r\n"),
    "length": sized(SIZE),
    "chunked": chunked(f"{SIZE:x};a=b\r\n{HIDDEN}\r\n0\r\nX-Trailer: c\r\n\r\n"),
}
INSERTED = ["\r\n", "\r", "\n", "\0", ":", "\t", " ", ",", ";", "0", "_", "+", "\x0b", "\x85", "\xa0"]


def mutations():
    """(seed, name, payload) of each."""
    for seed, text in SEEDS.items():
        for place in range(len(text)):
            # The number stays whole, since it says which payload a request is of.
            if "NUMBER" in text[max(0, place - 6):place + 6]:
                continue
            for inserted in INSERTED:
                yield seed, f"{inserted.encode('latin-1').hex()}@{place}", text[:place] + inserted + text[place:]
            yield seed, f"without@{place}", text[:place] + text[place + 1:]


def sent(port, data):
    """All that comes back; the client has ended its half of the connection."""
    with socket.create_connection(("127.0.0.1", port), LONGEST) as connection:
        connection.settimeout(LONGEST)
        received = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                received += part
        except ConnectionError:
            pass
        return received


TOLD = re.compile(rb'\{"stamp".*?\}\n')


def same(stamp, method, target):
    """True if a receiver has the router's view of a request."""
    parts = stamp.split(" ", 2)
    if len(parts) != 3:
        return False
    path = re.sub(r"\Ahttps?://[^/?]*", "", target).partition("?")[0] or "/"
    return (parts[1], parts[2].encode("latin-1", "replace")) == (method, unquote_to_bytes(path))


class Receiver:
    """A server behind the router."""

    def __init__(self, name, port):
        self.name = name
        # The port of the router's listener for it.
        self.port = port


class Host(Receiver):
    """A language host of Tutti: its responses say what it was given."""

    def seen(self, numbered):
        """{payload: what the host was given}, after all have been sent."""
        def one(item):
            number, payload = item
            told = [json.loads(text) for text in TOLD.findall(sent(self.port, payload))]
            return number, [(each["stamp"], each["method"], each["target"], each["body"]) for each in told]
        with ThreadPoolExecutor(THREADS) as pool:
            return dict(pool.map(one, numbered.items()))


class Server(Receiver):
    """A server that Tutti is a proxy of: its log says what it was given.

    `parse` makes (stamp, method, target, body) of a line, or None where the server has refused what the router may pass on.
    """

    def __init__(self, name, port, log, parse):
        super().__init__(name, port)
        self.log = Path(log)
        self.parse = parse

    def lines(self):
        return self.log.read_bytes().splitlines() if self.log.exists() else []

    def seen(self, numbered):
        begin = len(self.lines())
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda payload: sent(self.port, payload), numbered.values()))
        # Everything that was sent before it has arrived when this has: on each connection to the server that is kept, one request follows the other.
        fence = f"/fence-{begin}"
        for _ in range(THREADS):
            sent(self.port, f"GET {fence} HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n".encode())
        wait_until(lambda: sum(fence.encode() in line for line in self.lines()) >= THREADS, LONGEST, f"{self.name} to log {fence}")
        found = collections.defaultdict(list)
        for line in self.lines()[begin:]:
            seen = self.parse(line)
            if seen is None:
                continue
            number = re.search(r"(?:mark|smuggled)-(\d{6})", f"{seen[0]} {seen[2]}")
            found[number[1] if number else None].append(seen)
        return found


def of_json(line):
    seen = json.loads(line)
    return seen["stamp"], seen["method"], seen["target"], seen["body"]


def of_words(line):
    """A line `METHOD TARGET STAMP`; there is no body."""
    method, target, stamp = (line.decode("latin-1").split(" ", 2) + ["", ""])[:3]
    return stamp, method, target, None


def of_nginx(line):
    """The same behind the status, and the request line behind all. nginx has 400 for a method with other characters than `A-Z_-`."""
    words, _, request = line.partition(b"|")
    status, _, words = words.partition(b" ")
    if status == b"400" and re.fullmatch(rb"(?=.*[^A-Z_-].* /)[!-~]+ /\S* HTTP/1\.1", request):
        return None
    return of_words(words)


def judged(receiver, found, names, numbered):
    """Cases of one receiver: what it was given, compared with what the router says in its stamp."""
    wrong = collections.defaultdict(list)
    stamps = collections.Counter(seen[0] for seens in found.values() for seen in seens)
    for number, seens in found.items():
        for stamp, method, target, _ in seens:
            if "/fence-" in target:
                continue
            if not stamp:
                wrong[number].append(f"`{method} {target}` arrives, and the router knows nothing of it")
            elif stamps[stamp] > 1:
                wrong[number].append(f"`{method} {target}` arrives as a part of another request")
            elif not same(stamp, method, target):
                wrong[number].append(f"`{method} {target}` arrives, and the router has seen `{stamp.partition(' ')[2]}`")
    if None in found and wrong[None]:
        yield Case(f"{receiver.name}/unnumbered", "fail", "; ".join(wrong[None]))
    yield from told(receiver.name, names, numbered, wrong)


def told(name, names, numbered, wrong):
    """A case for each payload, and one for all mutations of a seed."""
    groups = collections.defaultdict(list)
    for number in numbered:
        groups[names[number].partition("+")[0]].append(number)
    for group, numbers in groups.items():
        bad = [(names[number], number) for number in numbers if wrong.get(number)]
        detail = "; ".join(f"{which}: {wrong[number][0]} ({numbered[number]!r})" for which, number in bad[:3])
        yield Case(f"{name}/{group}", "fail" if bad else "pass", detail)


# The receivers.

def hosts(context):
    """{name: application} of each language host that is there."""
    folder = str(HERE)
    java, go = context.folder / "java", context.folder / "go-program"
    yield "wsgi", "tutti-python*", {"type": "python", "path": folder, "module": "seen", "callable": "wsgi"}
    yield "asgi", "tutti-python*", {"type": "python", "path": folder, "module": "seen", "callable": "asgi"}
    yield "php", "tutti-php*", {"type": "php", "root": folder, "script": "index.php"}
    yield "perl", "tutti-perl*", {"type": "perl", "script": f"{folder}/seen.psgi"}
    yield "ruby", "tutti-ruby*", {"type": "ruby", "script": f"{folder}/seen.ru"}
    yield "node", "tutti-node", {"type": "node", "working_directory": folder, "script": "seen.js"}
    yield "java", "tutti-java", {"type": "java", "webapp": str(java)}
    yield "go", "tutti-external", {"type": "external", "executable": str(go)}


def build_java(context):
    classes = context.folder / "java/WEB-INF/classes"
    classes.mkdir(parents=True)
    jars = [str(jar) for jar in (context.dist / "modules/java").rglob("*.jar") if "servlet" in jar.name]
    command = [context.program("javac", "default-jdk-headless"), "-cp", ":".join(jars), "-d", str(classes), str(HERE / "Seen.java")]
    subprocess.run(command, check=True)


def build_go(context):
    environment = dict(os.environ, GOFLAGS="-mod=mod")
    subprocess.run([context.program("go"), "build", "-o", str(context.folder / "go-program"), "."], cwd=HERE / "go", env=environment, check=True)
    (context.folder / "go-program").chmod(0o755)


def start_servers(context):
    """(name, address, log, how to read it) of each server."""
    folder = context.folder

    def log(name):
        return folder / f"{name}.seen"

    port = context.free_port()
    context.process([context.program("node", "nodejs"), HERE / "seen.js", port, log("node")], port, "node")
    yield "node-server", port, log("node"), of_json

    port = context.free_port()
    context.process([context.program("python3"), HERE / "seen.py", port, log("python")], port, "python")
    yield "python-server", port, log("python"), of_json

    port = context.free_port()
    environment = dict(os.environ, SEEN_LOG=str(log("gunicorn")), PYTHONPATH=str(HERE), PYTHONDONTWRITEBYTECODE="1")
    context.process([context.program("gunicorn", "gunicorn"), "--bind", f"127.0.0.1:{port}", "--worker-class", "gthread", "--threads", THREADS, "--keep-alive",
                     60, "logged:application"], port, "gunicorn", env=environment)
    yield "gunicorn", port, log("gunicorn"), of_json

    port = context.free_port()
    user = "user nobody nogroup;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(f"""
daemon off; {user} worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log crit;
events {{ worker_connections 1024; }}
http {{
    log_format seen '$status $request_method $request_uri $http_x_router|$request';
    client_body_temp_path {folder}/nb; proxy_temp_path {folder}/np; fastcgi_temp_path {folder}/nf; uwsgi_temp_path {folder}/nu; scgi_temp_path {folder}/ns;
    keepalive_requests 1000000;
    server {{ listen 127.0.0.1:{port}; access_log {log("nginx")} seen; location / {{ return 200 'seen'; }} }}
}}
""")
    context.process([context.program("nginx", "nginx"), "-c", folder / "nginx.conf", "-e", folder / "nginx.log"], port, "nginx")
    yield "nginx", port, log("nginx"), of_nginx

    port = context.free_port()
    modules = Path("/usr/lib/apache2/modules")
    user = "User nobody\nGroup nogroup" if os.geteuid() == 0 else ""
    (folder / "apache.conf").write_text(f"""
ServerRoot {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.log
LogLevel crit
Mutex file:{folder} default
DefaultRuntimeDir {folder}
ServerName localhost
Listen 127.0.0.1:{port}
{user}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LogFormat "%m %U%q %{{X-Router}}i" seen
CustomLog {log("apache")} seen
MaxKeepAliveRequests 0
KeepAliveTimeout 60
DocumentRoot {folder}
""")
    context.process([context.program("apache2", "apache2"), "-f", folder / "apache.conf", "-DFOREGROUND"], port, "apache")
    yield "apache", port, log("apache"), of_words

    port, behind = context.free_port(), context.free_port()
    context.process([context.program("node"), HERE / "seen.js", behind, log("haproxy")], behind, "behind-haproxy")
    (folder / "haproxy.cfg").write_text(f"""
defaults
    mode http
    timeout client 60s
    timeout server 60s
    timeout connect 5s
    timeout http-request 60s
    http-reuse always
frontend front
    bind 127.0.0.1:{port}
    default_backend back
backend back
    server node 127.0.0.1:{behind}
""")
    context.process([context.program("haproxy", "haproxy"), "-f", folder / "haproxy.cfg"], port, "haproxy")
    yield "haproxy", port, log("haproxy"), of_json


def run(context):
    context.folder.chmod(0o777)
    applications = {}
    for name, pattern, application in hosts(context):
        context.module(pattern)
        applications[name] = application
    build_java(context)
    build_go(context)
    servers = list(start_servers(context))
    ports = {name: context.free_port() for name in [*applications, *(name for name, *_ in servers)]}

    def configure(port):
        stamped = {"request_headers": {"X-Router": STAMP}}
        routes = {name: [{"action": {"pass": f"applications/{name}", **stamped}}] for name in applications}
        routes |= {name: [{"action": {"proxy": f"http://127.0.0.1:{address}", **stamped}}] for name, address, _, _ in servers}
        routes["here"] = [{"action": {"return": 200}}]
        listeners = {f"127.0.0.1:{ports.get(name, port)}": {"pass": f"routes/{name}"} for name in routes}
        patience = {"header_read_timeout": 5, "body_read_timeout": 5, "idle_timeout": 5}
        return {"listeners": listeners, "routes": routes, "applications": applications, "settings": {"http": patience}}

    context.server(configure)
    texts = [*PAYLOADS.items(), *((f"plain-{name}", text) for name, text in SEEDS.items())]
    texts += [(f"mutations-of-{seed}+{name}", text) for seed, name, text in mutations()]
    names = {f"{number:06}": name for number, (name, _) in enumerate(texts)}
    numbered = {number: text.replace("NUMBER", number).encode("latin-1") for number, (_, text) in zip(names, texts)}
    number = "999999"
    for name, address, log, parse in servers:
        # What the router has not seen is found out.
        server = Server(name, address, log, parse)
        found = server.seen({number: get(target=f"/smuggled-{number}").encode()})
        if all(case.outcome == "pass" for case in judged(server, found, {number: "hidden"}, {number: b""})):
            raise RuntimeError(f"a request that was hidden from the router is not seen at {name}")
    views = {}
    for name in applications:
        host = Host(name, ports[name])
        views[name] = host.seen(numbered)
        yield from judged(host, views[name], names, numbered)
    for name, _, log, parse in servers:
        server = Server(name, ports[name], log, parse)
        yield from judged(server, server.seen(numbered), names, numbered)
    yield from agreement(views, names, numbered)


def agreement(views, names, numbered):
    """Every host is given the same method, target and body; a host may refuse more (Node.js: methods that it does not know; Java: parameters of
    a path), but no message without a fault."""
    first, *others = views
    for other in others:
        wrong = {}
        for number in numbered:
            one, two = ([seen[1:] for seen in views[name].get(number, [])] for name in (first, other))
            rest = iter(one)
            is_plain = names[number].startswith("plain-")
            if one != two if is_plain else not all(each in rest for each in two):
                wrong[number] = [f"{first} is given {one}, {other} {two}"]
        yield from told(f"{other}-as-{first}", names, numbered, wrong)
