"""HTTP/1.1: which requests are refused, and how the others are read: gunicorn's corpus of requests."""

import json
import re
import runpy
import sys
import types
from concurrent.futures import ThreadPoolExecutor

from base import Case
from base.wire import Connection

VERSION = "gunicorn 26.2.0"
QUICK = True

LONGEST = 20
PATIENCE = 1

# An option of gunicorn that a file sets, and why the file is then no case for another server; the others' defaults are near enough.
OPTIONS = {
    "strip_header_spaces": "gunicorn takes it by an option against the RFC",
    "permit_unconventional_http_method": "gunicorn takes it by an option against the RFC",
    "casefold_http_method": "gunicorn takes it by an option against the RFC",
    "permit_obsolete_folding": "gunicorn takes it by an option against the RFC",
    "header_map": "about an option of gunicorn for names with an underscore",
    "forwarded_allow_ips": "about an option of gunicorn for fields of a proxy",
    "limit_request_fields": "about the number of fields that gunicorn permits",
}
# The same, of files that set no option.
DEFAULTS = {
    "invalid/008": "about the size of all fields together that gunicorn permits",
    "invalid/009": OPTIONS["limit_request_fields"],
    "invalid/limit_header_default_01": "about whether a line's end counts for its size",
}
# The longest line of a head, of the servers that a file may need: gunicorn has one limit for the first line, and another for the others.
LINE, FIELD, LARGE = 4094, 8190, 8220

APPLICATION = '''
"""Tells what an application is given."""

import json


def application(environ, start_response):
    body = environ["wsgi.input"].read().decode("latin-1")
    fields = {name[5:]: value for name, value in environ.items() if name.startswith("HTTP_")}
    fields |= {name: environ[name] for name in ("CONTENT_TYPE", "CONTENT_LENGTH") if environ.get(name)}
    seen = {"method": environ["REQUEST_METHOD"], "uri": environ["REQUEST_URI"], "version": environ["SERVER_PROTOCOL"], "fields": fields, "body": body}
    text = json.dumps(seen).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
    return [text]
'''


class Options(dict):
    """In place of gunicorn's Config: which options a file sets."""

    set = dict.__setitem__


class Errors(types.ModuleType):
    """In place of gunicorn's errors: their names."""

    def __getattr__(self, name):
        return name


def stand_ins():
    """The modules that the files import, since gunicorn is not installed."""
    for name in ("gunicorn", "gunicorn.http"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["gunicorn.http.errors"] = Errors("gunicorn.http.errors")
    sys.modules["gunicorn.config"] = types.ModuleType("gunicorn.config")
    sys.modules["gunicorn.config"].Config = Options


def described(file):
    """(expected requests or the name of an error, options) of a file."""
    values = runpy.run_path(str(file), {"uri": lambda text: text, "cfg": Options()})
    expected = values["request"]
    return expected if isinstance(expected, (list, str)) else [expected], values["cfg"]


def bytes_of(file):
    """The request, as gunicorn's own tests read its files."""
    data = file.read_bytes().replace(b"\n", b"").replace(rb"\r\n", b"\r\n").replace(rb"\0", b"\0").replace(rb"\n", b"\n").replace(rb"\t", b"\t")
    return re.sub(rb"\\x([0-9a-fA-F]{2})", lambda found: bytes([int(found[1], 16)]), data)


def with_host(data):
    """RFC 9112 §3.2 has a server refuse a request of HTTP/1.1 without `Host`, and gunicorn takes it: the field is added.

    Messages are followed as far as they are well-formed; what comes then stays as it is.
    """
    done = b""
    if data.startswith(b"PROXY "):
        line, end, data = data.partition(b"\r\n")
        done += line + end
    while data:
        first, end, rest = data.partition(b"\r\n")
        if end and re.fullmatch(rb"\S+ \S+ HTTP/1\.1", first) and not re.search(rb"(?mi)^host\s*:", data.partition(b"\r\n\r\n")[0]):
            data = first + end + b"Host: localhost\r\n" + rest
        head, end, rest = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?mi)^content-length: *(\d+)\r?$", head)
        if re.search(rb"(?mi)^transfer-encoding:", head):
            taken = re.match(rb"(?s).*?\r\n0+\r\n\r\n", b"\r\n" + rest)
            body = taken.end() - 2 if taken else len(rest)
        else:
            body = int(length[1]) if length else 0
        done += head + end + rest[:body]
        data = rest[body:]
    return done


def final(connection, method="GET"):
    while (response := connection.response(LONGEST, method == "HEAD")) and response.status < 200:
        pass
    return response


def invalid(name, port, data):
    """No request may be taken that the corpus has an error for; those before it in the file may."""
    with Connection(port) as connection:
        connection.send(data)
        answered = 0
        while (response := final(connection)) and response.status < 400:
            answered += 1
        if response or (connection.is_closed and not answered):
            return Case(name, "pass")
        return Case(name, "fail", "it is answered as a request" if answered else "it is neither answered nor refused")


def field(text):
    return ",".join(part.strip() for part in text.split(","))


def text(body):
    return body if isinstance(body, str) else body.decode("latin-1")


def differences(seen, expected):
    version = "HTTP/{}.{}".format(*expected["version"])
    # RFC 9112 §3.2.2: the authority of an absolute target is what `Host` says, and the rest is the target.
    target = re.sub(r"\Ahttps?://[^/?]*", "", expected["uri"])
    for what, given, wanted in (("method", seen["method"], expected["method"]), ("target", seen["uri"], target),
                                ("version", seen["version"], version), ("body", seen["body"], text(expected["body"]))):
        if given != wanted:
            yield f"{what} {given[:60]!r}, and not {wanted[:60]!r}"
    wanted = {}
    for key, value in expected["headers"]:
        wanted.setdefault(key, []).append(value)
    for key, values in wanted.items():
        given = seen["fields"].get(key.replace("-", "_"))
        # The framing of the connection is not an application's.
        if key in ("TRANSFER-ENCODING", "CONNECTION") and given is None:
            continue
        if field(given or "") not in (field(",".join(values)), field(values[0])):
            yield f"{key} {given!r}, and not {values!r}"


def valid(name, port, data, expected):
    with Connection(port) as connection:
        connection.send(data)
        for number, request in enumerate(expected, 1):
            response = final(connection, request["method"])
            which = f"request {number}: " if len(expected) > 1 else ""
            if response is None:
                return Case(name, "fail", f"{which}it gets no response")
            if response.status != 200:
                return Case(name, "fail", f"{which}{response.status}")
            if request["method"] == "HEAD":
                continue
            wrong = list(differences(json.loads(response.body), request))
            if wrong:
                return Case(name, "fail", which + "; ".join(wrong))
    return Case(name, "pass")


def one(ports, file, expected, options):
    name = f"{file.parent.name}/{file.stem}"
    reason = next((OPTIONS[option] for option in options if option in OPTIONS), DEFAULTS.get(name))
    longest = options.get("limit_request_field_size") or FIELD
    if longest < FIELD:
        reason = "about a limit that is smaller than any here"
    if reason:
        return Case(name, "skip", reason)
    if options.get("proxy_protocol"):
        port = ports["proxied"]
    else:
        port = ports[LINE if expected == "LimitRequestLine" else LARGE if longest > FIELD else FIELD]
    data = with_host(bytes_of(file))
    return valid(name, port, data, expected) if file.parent.name == "valid" else invalid(name, port, data)


def run(context):
    context.module("tutti-python*")
    corpus = context.sdist("gunicorn==26.2.0") / "tests/requests"
    (context.folder / "seen.py").write_text(APPLICATION)
    ports = {"proxied": context.free_port()}

    def configuration(port, longest):
        listeners = {f"127.0.0.1:{port}": {"pass": "applications/seen"}}
        if longest == FIELD:
            listeners[f"127.0.0.1:{ports['proxied']}"] = {"pass": "applications/seen", "proxy_protocol": {"source": "127.0.0.1"}}
        limits = {"large_header_buffer_size": longest, "header_read_timeout": PATIENCE, "body_read_timeout": PATIENCE, "idle_timeout": PATIENCE}
        return {
            "listeners": listeners,
            "applications": {"seen": {"type": "python", "path": str(context.folder), "module": "seen"}},
            "settings": {"http": limits},
        }

    for longest in (LINE, FIELD, LARGE):
        ports[longest] = context.server(lambda port, longest=longest: configuration(port, longest), f"server-{longest}").port
    stand_ins()
    # One after the other: what runs a file is not for several threads.
    files = [(file, *described(file.with_suffix(".py"))) for file in sorted(corpus.glob("*/*.http"))]
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda file: one(ports, *file), files))
