"""The requests of a combination, each with its known response.

An [Ask] is a request, and the [Answer] that its capabilities give it. [asks] returns those that any protocol can send at any time: their
responses are the same over every protocol, before and after each event. combination.py has those that need an event or a connection of
their own.
"""

import base64
import gzip
from dataclasses import dataclass, field, replace

import site_app
from capabilities import FORWARDER_ADDRESS, PROXY_ADDRESS, UPSTREAM_HOST, USERS

DATA = bytes(at * 7 % 251 for at in range(300_000))
TEXT = "".join(f"line {at} of the text\n" for at in range(5000)).encode()
CLIENT_BEHIND_FORWARDER, CLIENT_BEHIND_PROXY = "198.51.100.7", "203.0.113.9"
# 16 KiB is the limit of a body in memory, and that of a mirror's copy.
LARGE_BODY = b"0123456789abcdef" * 1300
HINTS = [("link", "</site.css>; rel=preload; as=style")]


@dataclass
class Answer:
    """The response that is known. `None`: anything, as long as it is the same over every protocol and at any time."""

    status: int
    body: bytes | None = None
    fields: dict = field(default_factory=dict)
    # The number of 103 that come before it; None: any.
    hints: int | None = None
    # The number of copies that the mirror gets; None: at most one.
    copies: int | None = 0


@dataclass
class Ask:
    """A request."""

    name: str
    answer: Answer
    path: str
    method: str = "GET"
    fields: list = field(default_factory=list)
    body: bytes = b""
    user: str | None = "anna"
    # The address that the client has, and the protocol in front of it.
    source: str = "127.0.0.1"
    announced: str = ""
    # Other responses are possible: those of a cache that another request fills.
    alternatives: list = field(default_factory=list)
    host: str | None = None
    # No other request gets the same response.
    is_unique: bool = False


def credentials(on, user):
    """The fields by which a user is known."""
    if user is None:
        return []
    made = [("Authorization", "Basic " + base64.b64encode(f"{user}:{USERS.get(user, 'wrong')}".encode()).decode())]
    if "forward-auth" in on:
        made.append(("X-Name", user))
    if on & {"guards", "forward-auth"}:
        # A client cannot set it itself.
        made.append(("Remote-User", "mallory"))
    return made


def seen_user(on, user):
    """The user as the application sees it."""
    if on & {"guards", "forward-auth"}:
        return user
    return dict(credentials(on, user)).get("Authorization", "-")


def page(path):
    return f"the page {path} for all\n".encode() * site_app.PAGE


def mine(on, user):
    return f"this is for {seen_user(on, user)} alone\n".encode() * site_app.PAGE


def refused(on):
    """The body of a 401 of the server itself, and of the service of forward-auth."""
    return (b"the error page of 401\n", b"the error page of 401\n") if "error pages" in on else (None, b"who are you?\n")


def failures(on):
    """Error responses of the application and of the server."""
    not_found, failed = b"the application has no such page\n", b"the application fails\n"
    nowhere = None
    if "error pages" in on:
        not_found = nowhere = b"the error page of 404\n"
        failed = b"the error page of 5xx\n"
    copied = 1 if "mirror" in on else 0
    return [
        Ask("missing", Answer(404, not_found, copies=copied), "/missing"),
        Ask("head of missing", Answer(404, b"", copies=copied), "/missing", method="HEAD"),
        Ask("failure", Answer(500, failed, copies=copied), "/fail"),
        Ask("nowhere", Answer(404, nowhere), "/nowhere"),
        Ask("no file", Answer(404, nowhere), "/files/none"),
    ]


def refusals(on):
    """Requests without the permission."""
    made = []
    own, service = refused(on)
    if "guards" in on:
        basic = {"www-authenticate": 'Basic realm="Restricted", charset="UTF-8"'}
        made += [
            Ask("without a password", Answer(401, own, basic), "/page/one", user=None),
            Ask("with a wrong password", Answer(401, own, basic), "/mine", user="mallory"),
            Ask("POST without a password", Answer(401, own, basic), "/echo", method="POST", body=b"said", user=None),
        ]
    elif "forward-auth" in on:
        forward = {"www-authenticate": "Forward"}
        made += [
            Ask("not admitted", Answer(401, service, forward), "/page/one", user=None),
            Ask("admitted for no name", Answer(401, service, forward), "/mine", user="mallory"),
        ]
    return made


def delivery(on):
    """Compression and ranges, of files and of the application's pages."""
    made = []
    accept = [("Accept-Encoding", "gzip")]
    if "compression" in on:
        made += [
            Ask("page, gzip", Answer(200, page("/page/one"), {"content-encoding": "gzip"}, copies=None), "/page/one", fields=accept),
            Ask("text, gzip", Answer(200, TEXT, {"content-encoding": "gzip"}), "/files/text.txt", fields=accept),
            Ask("head, gzip", Answer(200, b"", {"content-encoding": "gzip"}, copies=None), "/page/one", method="HEAD", fields=accept),
            Ask("mine, gzip", Answer(200, mine(on, "ben"), {"content-encoding": "gzip"}, copies=None), "/mine", user="ben", fields=accept),
        ]
    if "ranges" in on:
        part = {"content-range": f"bytes 100-299/{len(DATA)}"}
        made += [
            Ask("range of a file", Answer(206, DATA[100:300], part), "/files/data.bin", fields=[("Range", "bytes=100-299")]),
            Ask("end of a file", Answer(206, DATA[-10:]), "/files/data.bin", fields=[("Range", "bytes=-10")]),
            Ask("range beyond", Answer(416, None), "/files/data.bin", fields=[("Range", "bytes=900000-")]),
            Ask("two ranges, gzip", Answer(206, None), "/files/data.bin", fields=[("Range", "bytes=0-9,20-29"), *accept]),
        ]
        if "compression" in on:
            both = Answer(200, page("/page/one"), copies=None)
            part = Answer(206, page("/page/one")[10:20], copies=None)
            made.append(Ask("range of a page, gzip", both, "/page/one", fields=[("Range", "bytes=10-19"), *accept], alternatives=[part]))
            made.append(Ask("range of a text, gzip", Answer(200, TEXT), "/files/text.txt", fields=[("Range", "bytes=10-19"), *accept],
                            alternatives=[Answer(206, TEXT[10:20])]))
        whole = Answer(200, page("/page/range"), copies=None)
        text = page("/page/range")
        some = Answer(206, text[10:20], {"content-range": f"bytes 10-19/{len(text)}"}, copies=None)
        made.append(Ask("range of a page", whole, "/page/range", fields=[("Range", "bytes=10-19")], alternatives=[some] if "cache" in on else []))
    return made


def redirects(on):
    """X-Accel-Redirect, and paths that are rewritten."""
    made = []
    copied = 1 if "mirror" in on else 0
    if "X-Accel" in on:
        kept = {"content-type": "application/x-report", "set-cookie": "kept=1"}
        made.append(Ask("accel", Answer(200, DATA, kept, copies=copied), "/accel"))
        made.append(Ask("accel to nothing", Answer(404, b"the error page of 404\n" if "error pages" in on else None, copies=copied), "/accel-nothing"))
        if "compression" in on:
            text = Answer(200, TEXT, {"content-encoding": "gzip", "content-type": "text/plain"}, copies=copied)
            made.append(Ask("accel to a text, gzip", text, "/accel-text", fields=[("Accept-Encoding", "gzip")]))
        if "ranges" in on:
            made.append(Ask("range of accel", Answer(206, DATA[5:9], copies=copied), "/accel", fields=[("Range", "bytes=5-8")]))
    else:
        made.append(Ask("accel, off", Answer(200, b"not this\n", {"x-accel-redirect": "/protected/data.bin"}, copies=copied), "/accel"))
    made.append(Ask("protected", Answer(404, None, copies=copied), "/protected/data.bin"))
    if "rewrite" in on:
        made.append(Ask("rewritten", Answer(200, page("/page/one"), copies=copied), "/old/one"))
    return made


def origins(on):
    """Requests whose client has another address."""
    copied = 1 if "mirror" in on else 0
    made = [Ask("who", Answer(200, b"127.0.0.1 SCHEME early=0\n", copies=copied), "/who")]
    behind = [("X-Forwarded-For", CLIENT_BEHIND_FORWARDER), ("X-Forwarded-Proto", "https")]
    body = f"{CLIENT_BEHIND_FORWARDER} https early=0\n" if "forwarded" in on else f"{FORWARDER_ADDRESS} SCHEME early=0\n"
    made.append(Ask("who, forwarded", Answer(200, body.encode(), copies=copied), "/who", fields=behind, source=FORWARDER_ADDRESS))
    # A cache has one response for each scheme.
    scheme = b"https\n" if "forwarded" in on else b"SCHEME\n"
    made.append(Ask("scheme", Answer(200, b"SCHEME\n", copies=copied), "/scheme"))
    made.append(Ask("scheme, forwarded", Answer(200, scheme, copies=copied), "/scheme", fields=behind, source=FORWARDER_ADDRESS))
    made.append(Ask("scheme again", Answer(200, b"SCHEME\n", copies=copied), "/scheme"))
    made.append(Ask("who, forged", Answer(200, b"127.0.0.1 SCHEME early=0\n", copies=copied), "/who", fields=behind))
    if "PROXY protocol" in on:
        made.append(Ask("who, PROXY", Answer(200, f"{CLIENT_BEHIND_PROXY} http early=0\n".encode(), copies=copied), "/who",
                        source=PROXY_ADDRESS, announced=CLIENT_BEHIND_PROXY))
    return made


def asks(on):
    """All of them, in the order in which each protocol sends them: to the application, and to the server behind."""
    own = pages(on)
    return own + [replace(ask, name=f"{ask.name}, upstream", host=UPSTREAM_HOST) for ask in own]


def pages(on):
    """Those of one site."""
    copied = 1 if "mirror" in on else 0
    hints = 1 if "early hints" in on else 0
    return [
        Ask("page", Answer(200, page("/page/one"), {"etag": '"page"'}, copies=copied), "/page/one"),
        Ask("page again", Answer(200, page("/page/one"), {"etag": '"page"'}, copies=copied), "/page/one", user="ben"),
        Ask("head", Answer(200, b"", {"etag": '"page"'}, copies=None), "/page/one", method="HEAD"),
        Ask("mine, anna", Answer(200, mine(on, "anna"), hints=hints, copies=copied), "/mine"),
        Ask("mine, ben", Answer(200, mine(on, "ben"), hints=hints, copies=copied), "/mine", user="ben"),
        Ask("echo", Answer(200, b"said", copies=copied), "/echo", method="POST", body=b"said"),
        Ask("large echo", Answer(200, LARGE_BODY), "/echo", method="POST", body=LARGE_BODY),
        Ask("file", Answer(200, DATA), "/files/data.bin"),
        Ask("known tag", Answer(200, page("/page/one"), copies=None), "/page/one", fields=[("If-None-Match", '"page"')],
            alternatives=[Answer(304, b"", {"etag": '"page"'}, copies=None)] if "cache" in on else []),
        *refusals(on), *failures(on), *redirects(on), *delivery(on), *origins(on),
    ]


def decoded(response):
    """The body without its content coding."""
    return gzip.decompress(response.body) if response.get("content-encoding") == "gzip" and response.body else response.body


def fits(response, answer, is_tls, method):
    """The difference between a response and a known one, or None."""
    if response.status != answer.status:
        return f"the status is {response.status} instead of {answer.status}"
    for name, value in answer.fields.items():
        if response.get(name) != value:
            return f"`{name}` is {response.get(name)!r} instead of {value!r}"
    try:
        body = decoded(response)
    except (OSError, EOFError) as error:
        return f"the body cannot be decompressed: {error}"
    expected = answer.body
    if expected is not None and method != "HEAD":
        expected = expected.replace(b"SCHEME", b"https" if is_tls else b"http")
        if body != expected:
            return f"the body is {body[:60]!r}… ({len(body)} bytes) instead of {expected[:60]!r}… ({len(expected)} bytes)"
    if answer.hints is not None and [each for each in response.interim if each[0] == 103] != [(103, HINTS)] * answer.hints:
        return f"the interim responses are {response.interim} instead of {answer.hints} with the hints"
    return None


# Those that depend on the protocol, the time, or on requests before.
VOLATILE = {"date", "alt-svc", "connection", "keep-alive", "transfer-encoding", "content-length", "age", "cache-status", "server"}


def compared(response):
    """The part of a response that every protocol has to give alike."""
    fields = sorted((name, value) for name, value in response.fields if name not in VOLATILE)
    body = decoded(response)
    # Each response of several ranges has a boundary of its own.
    boundary = response.get("content-type", "").partition("boundary=")[2]
    if boundary:
        fields = [(name, value.replace(boundary, "BOUNDARY")) for name, value in fields]
        body = body.replace(boundary.encode(), b"BOUNDARY")
    return response.status, fields, body
