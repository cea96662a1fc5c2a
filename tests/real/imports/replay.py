"""Requests that are sent to two servers, and how their answers may differ."""

import http.client
import json
import re
import socket
import ssl
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin, urlsplit

# Stands for the time of the file as the old server has it.
UNCHANGED = "as the file is"

# Pages that a server writes by itself; each has its own words.
SERVERS_OWN = {301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 408, 410, 411, 413, 414, 416, 429, 500, 501, 502, 503, 504}


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    host: str = "site.example"
    fields: tuple = ()
    body: bytes = b""
    # `on`, or the file with a certificate that the client shows and its key.
    tls: str = ""

    def __str__(self):
        fields = "".join(f" {name}: {value};" for name, value in self.fields)
        return f"{self.method} {self.target} (Host: {self.host}{fields})"


@dataclass
class Answer:
    status: int
    body: bytes
    location: str
    content_type: str
    fields: dict = field(default_factory=dict)
    # Fields after the body.
    trailers: dict = field(default_factory=dict)
    # It lets the client see nothing, whatever its status.
    is_refusal: bool = False


class Response(http.client.HTTPResponse):
    """One that keeps the fields after its body; the library discards them."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.trailers = {}

    def _read_and_discard_trailer(self):
        self.trailers = {name.lower(): value for name, value in http.client.parse_headers(self.fp).items()}


def connection_for(port, request):
    connection = opened(port, request)
    connection.response_class = Response
    return connection


def opened(port, request):
    if not request.tls:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if request.tls != "on":
        context.load_cert_chain(request.tls)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    # The name that the client asks for is that of the site.
    connection.sock = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 60), server_hostname=request.host)
    return connection


def send_datagram(port, text):
    """The answers to a datagram; of the status 0 if none comes."""
    answers = []
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", port))
        client.send(text.encode())
        # Long enough for answers of a server on this machine, and it is waited for on both sides.
        client.settimeout(1)
        try:
            while True:
                answers.append(client.recv(1 << 16))
        except (socket.timeout, ConnectionError):
            pass
    return Answer(200 if answers else 0, b"\n".join(answers), "", "")


def ask(port, request):
    if request.method == "UDP":
        return send_datagram(port, request.target)
    connection = connection_for(port, request)
    try:
        # The target goes out as it is: no library resolves its dots.
        connection.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", request.host)
        for name, value in request.fields:
            connection.putheader(name, value)
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body or None)
        response = connection.getresponse()
        fields = {}
        for name, value in response.getheaders():
            fields[name.lower()] = f"{fields[name.lower()]}, {value}" if name.lower() in fields else value
        body = response.read()
        return Answer(response.status, body, fields.get("location", ""), fields.get("content-type", ""), fields, response.trailers)
    except (socket.timeout, http.client.HTTPException, ConnectionError) as error:
        return Answer(0, repr(error).encode(), "", "")
    finally:
        connection.close()


def place(request, location):
    """Where a redirect leads, whatever way it is written."""
    if not location:
        return ""
    scheme = "https" if request.tls else "http"
    led = urlsplit(urljoin(f"{scheme}://{request.host}{request.target}", location))
    # A server's own port, or the one that was asked for: both are right where a port is forwarded.
    host = led.netloc.rsplit(":", 1)[0].lower()
    return f"{led.scheme}://{host}{led.path}{'?' + led.query if led.query else ''}"


class Comparison:
    """Answers of an old server and of the new one. `allowed`: (reason, function of request, old, new) → may differ in that way."""

    def __init__(self, ports, allowed=(), scrub=(), fields=()):
        self.old_port, self.new_port = ports
        self.allowed = [*GENERAL, *allowed]
        self.scrub = [(re.compile(pattern), by) for pattern, by in scrub]
        self.fields = fields
        self.used = {}
        self.faults = []
        self.asked = 0
        self.statuses = {}
        # Requests whose answers differ, be it in an allowed way.
        self.differed = []
        # The result of `tutti import --try`, in one line.
        self.tried = ""

    def cleaned(self, body):
        for pattern, by in self.scrub:
            body = pattern.sub(by, body)
        return body

    def compare(self, request):
        if any(value == UNCHANGED for _, value in request.fields):
            told = ask(self.old_port, Request("HEAD", request.target, request.host)).fields.get("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT")
            request = Request(request.method, request.target, request.host, (("If-Modified-Since", told),))
        old, new = ask(self.old_port, request), ask(self.new_port, request)
        self.asked += 1
        self.statuses[old.status] = self.statuses.get(old.status, 0) + 1
        differing = self.differing(request, old, new)
        if not differing:
            return
        self.differed.append(request)
        for reason, may in self.allowed:
            if may(request, old, new, differing):
                self.used[reason] = self.used.get(reason, 0) + 1
                return
        self.faults.append(f"{request}\n    differ in {', '.join(differing)}\n    old {self.shown(old)}\n    new {self.shown(new)}")

    def differing(self, request, old, new):
        differing = []
        if old.status != new.status:
            differing.append("status")
        if place(request, old.location) != place(request, new.location):
            differing.append("location")
        own_page = old.status in SERVERS_OWN and b"server page" not in old.body and not is_of_application(old)
        if not own_page:
            old_body, new_body = (self.cleaned(body.replace(str(port).encode(), b"PORT"))
                                  for body, port in ((listed(old), self.old_port), (listed(new), self.new_port)))
            if old_body != new_body:
                differing.append("body")
            if kind(old.content_type) != kind(new.content_type):
                differing.append("type")
            if old.trailers != new.trailers:
                differing.append("trailers")
        for name in self.fields:
            if old.fields.get(name) != new.fields.get(name) and not own_page:
                differing.append(name)
        return differing

    @staticmethod
    def shown(answer):
        return f"{answer.status} {answer.content_type} {answer.location} {answer.body[:300]!r}"


def listed(answer):
    """The body; of a folder that is listed as JSON the entries, in the order of their names: servers have other words for the same."""
    if kind(answer.content_type) != "application/json":
        return answer.body
    try:
        found = json.loads(answer.body)
        entries = found["entries"] if isinstance(found, dict) else found
        same = [(one["name"].rstrip("/"), one["type"], one.get("size"), changed(one)) for one in entries]
    except (ValueError, KeyError, TypeError, AttributeError):
        return answer.body
    return json.dumps(sorted(same)).encode()


def changed(entry):
    """The time of an entry in a list, in seconds."""
    return entry["modified"] if "modified" in entry else int(parsedate_to_datetime(entry["mtime"]).timestamp())


def is_of_application(answer):
    """A page of an error that an application wrote."""
    return "x-application" in answer.fields


def kind(content_type):
    """A type without what two servers write differently: letters' case, spaces."""
    return re.sub(r"\s*;\s*", ";", content_type.strip()).lower()


def is_404_for_folder(request, old, new, differing):
    return "status" in differing and old.status == 403 and new.status == 404 and request.target.split("?")[0].endswith("/")


def is_unknown_type(request, old, new, differing):
    return differing == ["type"] and kind(old.content_type) in ("application/octet-stream", "")


def is_bad_target(request, old, new, differing):
    path = request.target.split("?")[0]
    return new.status == 400 and any(bad in path for bad in ("/..", "%2e%2e", "%2E%2E", "%00")) or new.status == 400 and path.endswith("%")


def is_multipart_boundary(request, old, new, differing):
    return old.status == new.status == 206 and "multipart/byteranges" in old.content_type and "multipart/byteranges" in new.content_type


def is_method_of_no_file(request, old, new, differing):
    return old.status == 405 and request.method not in ("GET", "HEAD") and new.status in (200, 302, 404, 403)


# Differences that any two servers may have, each with the reason.
GENERAL = [
    ("a folder without an index: Tutti says 404, which does not reveal that there is one", is_404_for_folder),
    ("a file of a kind that the old server does not know: Tutti has its type, or says none", is_unknown_type),
    ("a path that leads above the root, has a NUL or a bare `%`: Tutti says 400", is_bad_target),
    ("a method that no file has: Tutti asks the fallback, nginx says 405", is_method_of_no_file),
    ("parts of a file have a boundary of the server's choice", is_multipart_boundary),
]


def requests_for(paths, folders, hosts=("site.example",), scripts=(), extra=()):
    """A few hundred requests about the paths of a site, the same each time."""
    made = []

    def add(method, target, **more):
        made.append(Request(method, target, host=more.pop("host", hosts[0]), **more))

    for path in paths:
        add("GET", path)
        add("HEAD", path)
        add("GET", path + "?a=1&b=%20x")
        add("GET", path + "/")
        add("GET", path, fields=(("Range", "bytes=0-9"),))
        add("GET", path, fields=(("Range", "bytes=-5"),))
        add("GET", path, fields=(("Range", "bytes=99999999-"),))
        add("GET", path, fields=(("If-Modified-Since", UNCHANGED),))
        add("GET", path, fields=(("If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"),))
        add("GET", path, fields=(("If-None-Match", '"no-such-tag"'),))
        add("GET", path[:-1] + "%" + format(ord(path[-1]), "02X"))
        add("GET", "/." + path)
        add("GET", "//" + path.lstrip("/"))
    for folder in folders:
        bare = folder.rstrip("/")
        for target in (bare + "/", bare + "/?q=1", bare + "/no-such-file", bare + "/no/such/folder/", bare + "/.hidden", bare + "/.git/config", bare + "/%2e%2e/"):
            add("GET", target)
        if bare:
            add("GET", bare)
            add("GET", bare + "?q=1")
            add("HEAD", bare)
    for script in scripts:
        for target in (script, script + "/path/info", script + "/path%20info?x=1", script + "?x=1&y=%C3%A4", script + ".bak", script + "~"):
            add("GET", target)
        add("POST", script, body=b"a=1&b=2", fields=(("Content-Type", "application/x-www-form-urlencoded"),))
        add("PUT", script, body=b"{}", fields=(("Content-Type", "application/json"),))
        for method in ("HEAD", "DELETE", "OPTIONS", "PATCH"):
            add(method, script)
    for host in (*hosts, "unknown.example", "SITE.example", "site.example:8080", "192.0.2.1"):
        for target in ("/", "/no-such-page", *(list(paths)[:2]), *(list(scripts)[:1])):
            add("GET", target, host=host)
    for target in ("/no-such-page", "/no/such/page/", "/no-such.php", "/no-such.txt", "/%C3%A4%20%26", "/a+b", "/?x", "/x?y=/../z", "/%00", "/%", "/~user/"):
        add("GET", target)
        add("POST", target, body=b"x=1", fields=(("Content-Type", "application/x-www-form-urlencoded"),))
    for request in extra:
        made.append(request if isinstance(request, Request) else Request("GET", request, host=hosts[0]))
    return list(dict.fromkeys(made))
