"""A corpus of requests: each is sent to an application that tells what it is given, and compared with what its author says of it."""

import json
import re

from .case import Case
from .wire import Connection

LONGEST = 20
# The server's own patience with what never ends, in seconds.
PATIENCE = 1
HTTP = {"header_read_timeout": PATIENCE, "body_read_timeout": PATIENCE, "idle_timeout": PATIENCE}

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


def with_host(data):
    """RFC 9112 §3.2 has a server refuse a request of HTTP/1.1 without `Host`, and mere parsers take it: the field is added.

    Messages are followed as far as they are well-formed; what comes then stays as it is.
    """
    done = b""
    if data.startswith(b"PROXY "):
        line, end, data = data.partition(b"\r\n")
        done += line + end
    while data:
        while data.startswith(b"\r\n"):
            done, data = done + b"\r\n", data[2:]
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


def invalid(name, port, data, before=None):
    """No request may be taken that the corpus has an error for; those before it in the file may, of which there are `before`."""
    with Connection(port) as connection:
        connection.send(data)
        answered = 0
        while (response := final(connection)) and response.status < 400:
            answered += 1
        if response or (connection.is_closed and answered <= (before or 0)):
            return Case(name, "pass")
        return Case(name, "fail", "it is answered as a request" if answered else "it is neither answered nor refused")


def field(text):
    return ",".join(part.strip() for part in text.split(","))


def text(body):
    return body if isinstance(body, str) else body.decode("latin-1")


def differences(seen, expected):
    version = "HTTP/{}.{}".format(*expected["version"])
    # RFC 9112 §3.2.2: the authority of an absolute target is what `Host` says, and the rest is the target.
    target = re.sub(r"\Ahttps?://[^/?]*(?=(/?))", lambda found: "" if found[1] else "/", expected["uri"])
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


def application(folder):
    """The application that tells what it is given, in this folder."""
    (folder / "seen.py").write_text(APPLICATION)
    return {"type": "python", "path": str(folder), "module": "seen"}
