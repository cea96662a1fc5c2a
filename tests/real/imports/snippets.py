"""Small configurations of nginx, Apache and Caddy, each with requests that this server and Tutti must answer alike.

A file of `snippets/`, `snippets/apache/` or `snippets/caddy/` has several, each of this form:

    === name                          and perhaps: `; lost: DIRECTIVE, …`, which the importer must report
    location / { return 204; }        the content of a `server`, or of `http` if it has a `server`;
                                      a `stream` stands beside `http`;
                                      of a `<VirtualHost>`, or of the whole server if it has one; of a site, or of the Caddyfile if it has one
    +++ sub/.htaccess                 a file of the site, if there is one, and its content
    ---
    GET /path?query Host=a.example Field="its value" body=text Tls=on
    GET /other # differs: the reason, for an answer that may differ
    UDP text                          a datagram, in place of a request

In the text, `@PORT@` is the port to listen on, `@PORT2@` another one, `@ROOT@` a folder of files, `@BACKEND@` a server that says what it was asked,
`@DEAD@` an address where no server listens, `@FCGI@` a FastCGI server that lists its variables, `@TMP@` a folder for logs, and
`@CONF@` one with the files `htpasswd`, `hashes` and `groups`, and with certificates: `site.pem` and `site.key` for `site.example`, `client.pem` of a
client, both of the authority `ca.pem`, `stranger.pem` of none, and `first.pem` of X.509 version 1. `Tls=@CONF@/client.pem` shows the client's.
"""

import gzip
import re
import shlex
from dataclasses import dataclass, field

from imports.replay import Request, kind, listed, place

# Fields that two servers may set differently without an effect on the client.
TECHNICAL = {"date", "trailer", "server", "connection", "keep-alive", "content-length", "transfer-encoding", "location"}
# Fields of which only the presence is compared.
PRESENT = {"etag", "last-modified"}
# Times of `Expires` that are the same at any time; a cache that knows `Cache-Control` does not look at the others.
FIXED_TIMES = ("Thu, 01 Jan 1970 00:00:01 GMT", "Thu, 31 Dec 2037 23:55:55 GMT")
OWN_PAGES = {
    "nginx": re.compile(rb"<center>nginx(/[\d.]+)?( \(\w+\))?</center>"),
    "apache": re.compile(rb"^<!DOCTYPE HTML PUBLIC \"-//"),
    "caddy": re.compile(rb"^$"),
}
# A line of these begins a configuration that has all of its parts.
WHOLE = {"nginx": r"^\s*(server|stream)\s*\{", "apache": r"^\s*<VirtualHost", "caddy": r"^\{"}


@dataclass
class Snippet:
    server: str
    area: str
    name: str
    text: str
    requests: list = field(default_factory=list)
    lost: tuple = ()
    files: dict = field(default_factory=dict)

    def is_whole(self):
        return re.search(WHOLE[self.server], self.text, re.M) is not None


def parse(server, area, text):
    """The snippets of a file."""
    made = []
    for part in re.split(r"^=== ", text, flags=re.M)[1:]:
        head, rest = part.split("\n", 1)
        source, _, asked = rest.partition("\n---\n")
        name, _, lost = head.partition("; lost:")
        source, *files = re.split(r"^\+\+\+ ", source, flags=re.M)
        files = dict(file.split("\n", 1) for file in files)
        snippet = Snippet(server, area, name.strip(), source, lost=tuple(one.strip() for one in lost.split(",") if one.strip()), files=files)
        for line in asked.splitlines():
            if line.strip():
                snippet.requests.append(request(line))
        made.append(snippet)
    return made


def request(line):
    """(request, reason why its answer may differ or an empty text)."""
    line, _, reason = line.partition(" # differs: ")
    method, target, *more = shlex.split(line)
    host, body, fields, tls = "site.example", b"", [], ""
    for word in more:
        name, _, value = word.partition("=")
        if name == "Host":
            host = value
        elif name == "body":
            body = value.encode()
        elif name == "Tls":
            tls = value
        else:
            fields.append((name, value))
    return Request(method, target, host, tuple(fields), body, tls), reason


def differences(server, request, old, new):
    """The differences of two answers, each as a text."""
    found = []
    if server == "apache" and (old.status, new.status) == (403, 404) and request.target.split("?")[0].endswith("/"):
        # A folder without an index: Tutti does not reveal that there is one.
        return found
    if old.status != new.status:
        found.append(f"status {old.status} → {new.status}")
    if place(request, old.location) != place(request, new.location):
        found.append(f"location {old.location!r} → {new.location!r}")
    if OWN_PAGES[server].search(old.body) and (server != "caddy" or old.status >= 400):
        # The words of a server's own page are its own.
        ignored = {"content-type", "content-language", "vary"}
    else:
        ignored = set()
        # Tutti tells servers the port, too.
        after = re.sub(rb"(?mi)^(http_)?x.forwarded.port.*\n", b"", content(new)) if server == "caddy" else content(new)
        if content(old) != after and request.method != "HEAD":
            found.append(f"body {old.body[:400]!r} → {new.body[:400]!r}")
        if old.trailers != new.trailers:
            found.append(f"trailers {old.trailers!r} → {new.trailers!r}")
    if old.fields.get("expires") not in FIXED_TIMES:
        ignored |= {"expires"}
    if old.status >= 400:
        # A page may be a file or not, and 405 must name the methods.
        ignored |= {"accept-ranges", "etag", "last-modified", "allow"}
    if server == "caddy":
        # Caddy adds these to every response.
        ignored |= {"alt-svc", "via", "vary", "accept-ranges"}
    if server == "apache":
        # Apache names the fields that its conditions looked at, and says that a compressed file has ranges.
        ignored |= {"vary", "accept-ranges"}
    if listed(new) != new.body:
        # No script may be made of a list.
        ignored |= {"x-content-type-options"}
    names = sorted((set(old.fields) | set(new.fields)) - TECHNICAL - ignored)
    for name in names:
        before, after = old.fields.get(name), new.fields.get(name)
        if name == "content-type":
            before, after = kind(before or ""), kind(after or "")
        elif name in PRESENT:
            before, after = before is not None, after is not None
        elif name == "www-authenticate":
            # Tutti also names the charset of passwords (RFC 7617).
            after = (after or "").replace(', charset="UTF-8"', "") or None
        if before != after:
            found.append(f"{name} {before!r} → {after!r}")
    return found


def content(answer):
    """The body, not compressed; lists of folders are in the order of their names."""
    return gzip.decompress(answer.body) if answer.fields.get("content-encoding") == "gzip" and answer.body else listed(answer)


def exposes(old, new):
    """True if a client gets what the old server refused."""
    return old.status in (401, 403, 444, 0) and 200 <= new.status < 300
