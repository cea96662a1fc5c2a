"""HTTP/1.1: which requests are refused, and how the others are read: gunicorn's corpus of requests."""

import re
import runpy
import sys
import types
from concurrent.futures import ThreadPoolExecutor

from base import Case
from base.corpus import HTTP, application, invalid, valid, with_host

VERSION = "gunicorn 26.2.0"
QUICK = True

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
    seen = application(context.folder)
    ports = {"proxied": context.free_port()}

    def configuration(port, longest):
        listeners = {f"127.0.0.1:{port}": {"pass": "applications/seen"}}
        if longest == FIELD:
            listeners[f"127.0.0.1:{ports['proxied']}"] = {"pass": "applications/seen", "proxy_protocol": {"source": "127.0.0.1"}}
        return {
            "listeners": listeners,
            "applications": {"seen": seen},
            "settings": {"http": {"large_header_buffer_size": longest, **HTTP}},
        }

    for longest in (LINE, FIELD, LARGE):
        ports[longest] = context.server(lambda port, longest=longest: configuration(port, longest), f"server-{longest}").port
    stand_ins()
    # One after the other: what runs a file is not for several threads.
    files = [(file, *described(file.with_suffix(".py"))) for file in sorted(corpus.glob("*/*.http"))]
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda file: one(ports, *file), files))
