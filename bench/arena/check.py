#!/usr/bin/env python3
"""Checks our entries for HttpArena without Docker: `bench/arena/check.py [--dist DIST] [ENTRY…]`.

Each entry is started by the configuration of its image, with places and ports of its own, and asked what HttpArena's validation asks of the
profiles in its `meta.json`; besides that HTTP/3 itself, chunked uploads, and broken requests.
"""

import argparse
import base64
import functools
import gzip
import hashlib
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import arena, arena_data  # noqa: E402
from harness.servers import Tutti, is_installed  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
TYPE_OF = {".css": "text/css", ".js": "text/javascript", ".json": "application/json"}
# Sent over TCP in parts, each so many seconds after the one before, so that the server reads them one by one.
PAUSE = 0.03


@dataclass
class Answer:
    """A response, as curl gives it."""

    version: str
    status: int
    fields: dict
    body: bytes

    @property
    def text(self):
        return self.body.decode(errors="replace").strip()

    def type(self):
        kind = self.fields.get("content-type", "").partition(";")[0]
        return "text/javascript" if kind == "application/javascript" else kind


class Report:
    """Counts what holds and what does not, by profile."""

    def __init__(self):
        self.counts, self.faults, self.left_out = {}, [], []
        self.entry = self.profile = None

    def begin(self, entry, profile):
        self.entry, self.profile = entry, profile
        self.counts.setdefault((entry, profile), 0)

    def holds(self, what, condition, seen=""):
        if condition:
            self.counts[self.entry, self.profile] += 1
        else:
            self.faults.append(f"{self.entry}, {self.profile}: {what}: {seen}")
            print(f"  FAULT {self.faults[-1]}", file=sys.stderr)


class Client:
    """Asks one server at its entrances."""

    def __init__(self, server):
        self.server = server

    def base(self, entrance):
        return f"{'https' if entrance.startswith('tls') else 'http'}://127.0.0.1:{self.server.ports[entrance]}"

    def ask(self, path, entrance="plain", body=None, program=("curl",), options=(), fields=()):
        """An answer, or None when there is none."""
        if entrance == "h2c" and not options:
            options = ("--http2-prior-knowledge",)
        with tempfile.TemporaryDirectory() as folder:
            head, page = Path(folder) / "head", Path(folder) / "page"
            sent = ("--data-binary", "@-", "-H", "Content-Type: text/plain") if body is not None else ()
            done = subprocess.run(
                [*program, "-sk", "--max-time", "60", "-D", head, "-o", page, "-w", "%{http_version} %{http_code}", *sent, *options,
                 *(word for field in fields for word in ("-H", field)), f"{self.base(entrance)}{path}"],
                input=body, capture_output=True, check=False)
            if done.returncode:
                return None
            version, status = done.stdout.decode().split()
            lines = (line.partition(":") for line in head.read_text().splitlines() if ":" in line)
            return Answer(version, int(status), {name.lower(): value.strip() for name, _, value in lines}, page.read_bytes() if page.exists() else b"")

    def send(self, *parts, until_closed=True):
        """Everything that is answered to these bytes, sent in parts, until the server closes or is silent for a second after an answer."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.server.ports["plain"]), timeout=10) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for number, part in enumerate(parts):
                    if number:
                        time.sleep(PAUSE)
                    connection.sendall(part)
                if not until_closed:
                    connection.settimeout(2)
                while data := connection.recv(65536):
                    answer += data
            except (TimeoutError, ConnectionError):
                pass
        return answer


def body_of(answer):
    """The body of one response of HTTP/1.1 that says how long it is."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return body
    pieces = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        count = int(size, 16)
        pieces, body = pieces + body[:count], body[count + 2:]
    return pieces


def sum_of(client, report, path, entrance="plain", program=("curl",), options=()):
    """The sum of two numbers, known and chosen at random, as text."""
    for a, b in ((13, 42), (random.randint(100, 999), random.randint(100, 999))):
        answer = client.ask(f"{path}?a={a}&b={b}", entrance, program=program, options=options)
        report.holds(f"GET {path}?a={a}&b={b}", answer and answer.text == str(a + b), answer)
        report.holds(f"{path} is text", answer and answer.type() == "text/plain", answer)


def baseline(client, report, _data):
    path = "/baseline11?a=13&b=42"
    sum_of(client, report, "/baseline11")
    for body in (20, random.randint(100, 499), random.randint(500, 999)):
        for options in ((), ("-H", "Transfer-Encoding: chunked")):
            answer = client.ask(path, body=str(body).encode(), options=options)
            report.holds(f"POST {path} with {body} {options}", answer and answer.text == str(55 + body), answer)
            report.holds("POST's answer is text", answer and answer.type() == "text/plain", answer)
    head = b"Host: localhost\r\nConnection: close\r\n"
    post = b"POST /baseline11?a=13&b=42 HTTP/1.1\r\n" + head + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n"
    chunked = b"POST /baseline11?a=13&b=42 HTTP/1.1\r\n" + head + b"Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    for what, expected, parts in (
            ("a request line in parts", b"55", (b"GET /baseli", b"ne11?a=13&b=42 HTTP/1.1\r\n", head + b"\r\n")),
            ("a head in parts", b"55", (b"GET /baseline11?a=13&b=42 HTTP/1.1\r\n", b"Host: localhost\r\n", b"User-Agent: parts\r\n", b"Connection: close\r\n\r\n")),
            ("head and body", b"75", (post, b"20")),
            ("a body in parts", b"75", (post, b"2", b"0")),
            ("chunks in parts", b"75", (chunked, b"1\r\n", b"2\r\n1", b"\r\n0\r\n0\r\n", b"\r\n"))):
        answer = client.send(*parts)
        report.holds(what, body_of(answer) == expected, answer)
    noise(client, report)


def noise(client, report):
    """Broken and unusual requests, each followed by a good one: the first is refused, the second answered."""
    line = b"GET /baseline11?a=1&b=1 HTTP/1.1\r\nHost: localhost\r\n"
    refused = {
        "a path that is not there": b"GET /this/is/not/there HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a folded field": line + b"X-Folded: one\r\n two\r\n\r\n",
        "a zero byte in a field": line + b"X-Zero: a\0b\r\n\r\n",
        "a carriage return in a field": line + b"X-Return: a\rb\r\n\r\n",
        "a field without a name": line + b": nothing\r\n\r\n",
        "a field without a colon": line + b"nothing\r\n\r\n",
        "a head of 200 KB": line + b"X-Long: " + b"a" * 200_000 + b"\r\n\r\n",
        "bytes that are no request": random.Random(54).randbytes(512) + b"\r\n\r\n",
        "two lengths": b"POST /baseline11?a=1&b=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12",
        "a length that is no number": b"POST /baseline11?a=1&b=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    }
    for what, request in refused.items():
        answer = client.send(request, until_closed=False)
        report.holds(f"{what} is refused", not answer or re.match(rb"HTTP/1\.1 4\d\d ", answer), answer[:200])
        good = client.ask("/baseline11?a=2&b=3")
        report.holds(f"after {what}", good and good.text == "5", good)
    answer = client.send(b"\r\n" + line + b"Connection: close\r\n\r\n")
    report.holds("an empty line before a request", body_of(answer) == b"2", answer)
    with socket.create_connection(("127.0.0.1", client.server.ports["plain"]), timeout=10) as connection:
        connection.sendall(b"POST /baseline11?a=1&b=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n12")
    good = client.ask("/baseline11?a=2&b=3")
    report.holds("after a body that does not come", good and good.text == "5", good)


def pipelined(client, report, _data):
    answer = client.ask("/pipeline")
    report.holds("GET /pipeline", answer and (answer.text, answer.type()) == ("ok", "text/plain"), answer)
    one = b"GET /pipeline HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    answer = client.send(one * 15 + last)
    report.holds("16 requests at once", answer.count(b"HTTP/1.1 200 ") == 16, answer[:300])


def listed(client, report, data, pairs, entrance="plain", fields=()):
    """The first items with their totals, in the order of the data set; other fields as they are."""
    items = json.loads((data / "dataset.json").read_text())
    for count, factor in (*pairs, (random.randint(1, 50), random.randint(2, 99))):
        answer = client.ask(f"/json/{count}?m={factor}", entrance, fields=fields)
        expected = [{**item, "total": item["price"] * item["quantity"] * factor} for item in items[:count]]
        page = json_of(answer)
        report.holds(f"/json/{count}?m={factor}", page == {"items": expected, "count": count}, answer and answer.text[:300])
        report.holds("it is JSON", answer and answer.type() == "application/json", answer and answer.fields)


def json_of(answer):
    try:
        return json.loads(decoded(answer))
    except (ValueError, AttributeError):
        return None


def decoded(answer):
    """The body without its encoding."""
    encoding = answer.fields.get("content-encoding")
    if encoding == "gzip":
        return gzip.decompress(answer.body)
    if encoding == "br":
        script = "process.stdout.write(require('zlib').brotliDecompressSync(require('fs').readFileSync(0)))"
        return subprocess.run(["node", "-e", script], input=answer.body, capture_output=True, check=False).stdout
    return answer.body


def json_plain(client, report, data):
    listed(client, report, data, ((12, 3), (22, 7), (31, 2), (50, 5)))


def json_comp(client, report, data):
    for accepted in ("gzip, br", "gzip", "br"):
        answer = client.ask("/json/50?m=1", fields=(f"Accept-Encoding: {accepted}",))
        report.holds(f"{accepted}: encoded", answer and answer.fields.get("content-encoding") in accepted.split(", "), answer and answer.fields)
    listed(client, report, data, ((25, 3), (40, 7), (50, 2)), fields=("Accept-Encoding: gzip, br",))
    answer = client.ask("/json/50?m=1")
    report.holds("plain for those that accept nothing", answer and "content-encoding" not in answer.fields, answer and answer.fields)


def json_tls(client, report, data):
    for option in ("--http1.1", "--http2"):
        answer = client.ask("/json/1?m=1", "tls1", options=(option,))
        report.holds(f"{option}: HTTP/1.1 over TLS", answer and answer.version == "1.1", answer)
    listed(client, report, data, ((7, 2), (23, 11), (50, 1)), "tls1")


def upload(client, report, _data):
    for size in (17, random.randint(20, 400), 512_000, 2_097_152, 10_485_760, 20_971_520):
        body = os.urandom(size)
        for options in ((), ("-H", "Transfer-Encoding: chunked")):
            answer = client.ask("/upload", body=body, options=("-H", "Content-Type: application/octet-stream", *options))
            report.holds(f"{size} bytes {options}", answer and answer.text == str(size), answer)


def baseline_h2(client, report, _data):
    answer = client.ask("/baseline2?a=1&b=1", "tls", options=("--http2",))
    report.holds("HTTP/2 over TLS", answer and answer.version == "2", answer)
    sum_of(client, report, "/baseline2", "tls", options=("--http2",))


def only_http2(client, report, path):
    answer = client.ask(path, "h2c")
    report.holds("HTTP/2 without TLS", answer and answer.version == "2", answer)
    answer = client.ask(path, "h2c", options=("--http1.1",))
    report.holds("no HTTP/1.1 there", answer is None or answer.status != 200, answer)


def baseline_h2c(client, report, _data):
    only_http2(client, report, "/baseline2?a=1&b=1")
    sum_of(client, report, "/baseline2", "h2c")


def json_h2c(client, report, data):
    only_http2(client, report, "/json/1?m=1")
    listed(client, report, data, ((12, 3), (22, 7), (31, 2), (50, 5)), "h2c")


@functools.cache
def curl_with_http3():
    return tuple(arena.program_of_trixie("curl", "curl"))


def baseline_h3(client, report, _data):
    sum_of(client, report, "/baseline2", "tls", curl_with_http3(), ("--http3-only",))


def files(client, report, data, entrance="plain", program=("curl",), options=(), version="1.1"):
    """Each file as it is on disk, by itself and compressed, with its type."""
    compressed = 0
    for name in arena_data.FILES:
        path, expected = f"/static/{name}", (data / "static" / name).read_bytes()
        answer = client.ask(path, entrance, program=program, options=options)
        report.holds(f"{path} by HTTP/{version}", answer and (answer.version, answer.status) == (version, 200) and answer.body == expected, answer and answer.fields)
        if kind := TYPE_OF.get(Path(name).suffix):
            report.holds(f"{path} is {kind}", answer and answer.type() == kind, answer and answer.fields)
        answer = client.ask(path, entrance, program=program, options=options, fields=("Accept-Encoding: br;q=1, gzip;q=0.8",))
        report.holds(f"{path} as accepted", answer and decoded(answer) == expected, answer and answer.fields)
        compressed += bool(answer and "content-encoding" in answer.fields)
    text = sum(not name.endswith(arena_data.BINARY) for name in arena_data.FILES)
    report.holds("all text is compressed, and nothing else", compressed == text, compressed)
    answer = client.ask("/static/nonexistent.txt", entrance, program=program, options=options)
    report.holds("a file that is not there", answer and answer.status == 404, answer)


def static(client, report, data):
    files(client, report, data)


def static_h2(client, report, data):
    files(client, report, data, "tls", options=("--http2",), version="2")


def static_h3(client, report, data):
    files(client, report, data, "tls", curl_with_http3(), ("--http3-only",), "3")


def rows(client, report, entrance="plain", program=("curl",), options=()):
    for low, high, limit in ((5, 80, 7), (20, 150, 18), (100, 400, 33), (10, 50, 50)):
        answer = client.ask(f"/async-db?min={low}&max={high}&limit={limit}", entrance, program=program, options=options)
        page = json_of(answer) or {}
        items = page.get("items", [])
        report.holds(f"{limit} rows from {low} to {high}", page.get("count") == len(items) == limit and all(low <= item["price"] <= high for item in items), page)
        report.holds("the shape of rows", all(isinstance(item["rating"]["score"], int) and isinstance(item["tags"], list) and isinstance(item["active"], bool)
                                              for item in items), items[:1])
        report.holds("rows are JSON", answer and answer.type() == "application/json", answer and answer.fields)
    answer = client.ask("/async-db?min=9999&max=9999&limit=50", entrance, program=program, options=options)
    report.holds("no rows", json_of(answer) == {"items": [], "count": 0}, answer)


def async_db(client, report, _data):
    rows(client, report)


def frame(kind, payload):
    """A frame of a client: masked."""
    mask, size = os.urandom(4), len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack("!H", size) if size < 65536 else b"\xff" + struct.pack("!Q", size)
    return bytes([0x80 | kind]) + length + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


def read_frame(stream):
    """(kind, payload) of one frame of the server."""
    first, second = stream.read(2)
    size = second & 0x7F
    if size >= 126:
        size = int.from_bytes(stream.read(2 if size == 126 else 8))
    return first & 0x0F, stream.read(size)


def echo_ws(client, report, _data):
    key = base64.b64encode(os.urandom(16)).decode()
    with socket.create_connection(("127.0.0.1", client.server.ports["plain"]), timeout=10) as connection, connection.makefile("rb") as stream:
        connection.sendall(f"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                           "Sec-WebSocket-Version: 13\r\n\r\n".encode())
        status = stream.readline()
        fields = {}
        while (line := stream.readline()).strip():
            name, _, value = line.decode().partition(":")
            fields[name.lower()] = value.strip()
        report.holds("upgraded", b" 101 " in status, status)
        expected = base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode(), usedforsecurity=False).digest()).decode()
        report.holds("the key is answered", fields.get("sec-websocket-accept") == expected, fields)
        for kind, payload in ((1, b"hello"), (1, random.randbytes(8).hex().encode()), (2, os.urandom(256)), (1, b"x" * 70_000)):
            connection.sendall(frame(kind, payload))
            report.holds(f"an echo of {len(payload)} bytes", read_frame(stream) == (kind, payload))
        for number in range(5):
            connection.sendall(frame(1, b"%d" % number))
        report.holds("several in their order", [read_frame(stream)[1] for _ in range(5)] == [b"%d" % number for number in range(5)])
        connection.sendall(frame(9, b"ping"))
        report.holds("a ping is answered", read_frame(stream) == (10, b"ping"))
        connection.sendall(frame(8, struct.pack("!H", 1000)))
        report.holds("closed in order", read_frame(stream)[0] == 8)


def gateway(client, report, data, program=("curl",), options=("--http2",), version="2"):
    how = {"entrance": "tls", "program": program, "options": options}
    for name in ("reset.css", "app.js"):
        answer = client.ask(f"/static/{name}", **how)
        report.holds(f"/static/{name} by HTTP/{version}", answer and answer.version == version and answer.type() == TYPE_OF[Path(name).suffix]
                     and answer.body == (data / "static" / name).read_bytes(), answer and answer.fields)
    answer = client.ask("/static/nonexistent.txt", **how)
    report.holds("a file that is not there", answer and answer.status == 404, answer)
    items = json.loads((data / "dataset.json").read_text())
    for count in (1, 25, 50):
        answer = client.ask(f"/json/{count}", **how)
        expected = [{**item, "total": item["price"] * item["quantity"]} for item in items[:count]]
        report.holds(f"/json/{count}", json_of(answer) == {"items": expected, "count": count}, answer and answer.text[:300])
        report.holds("it is JSON", answer and answer.type() == "application/json", answer and answer.fields)
    sum_of(client, report, "/baseline2", **how)
    if client.server.server.database:
        rows(client, report, **how)
    else:
        report.left_out.append(f"{report.entry}: the database of {report.profile} (Postgres is not installed)")


def gateway_h3(client, report, data):
    gateway(client, report, data, curl_with_http3(), ("--http3-only",), "3")
    # HttpArena asks it by HTTP/2.
    gateway(client, report, data)


CHECKS = {
    "baseline": baseline, "pipelined": pipelined, "limited-conn": baseline, "json": json_plain, "json-comp": json_comp, "json-tls": json_tls,
    "upload": upload, "static": static, "async-db": async_db, "baseline-h2": baseline_h2, "static-h2": static_h2, "baseline-h2c": baseline_h2c,
    "json-h2c": json_h2c, "baseline-h3": baseline_h3, "static-h3": static_h3, "gateway-64": gateway, "gateway-h3": gateway_h3, "echo-ws": echo_ws,
}


def check(entry, folder, site, report):
    """Starts an entry and asks all of its profiles."""
    server_class = arena.entry(entry)
    behind = getattr(server_class, "behind", None)
    if reason := is_installed(server_class) or (behind and is_installed(behind)):
        report.left_out.append(f"{entry}: {reason}")
        return
    server = server_class(folder / entry, site, 2)
    server.start()
    try:
        for profile in arena.meta(entry)["tests"]:
            if profile == "async-db" and not server.database:
                report.left_out.append(f"{entry}: async-db (Postgres is not installed)")
                continue
            report.begin(entry, profile)
            try:
                CHECKS[profile](Client(server), report, server.data)
            except (OSError, ValueError, RuntimeError) as error:
                report.holds("the check comes to its end", False, repr(error))
            print(f"{entry:11} {profile:13} {report.counts[entry, profile]:4} hold", flush=True)
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("entries", nargs="*", metavar="ENTRY", help=f"of {', '.join(arena.ENTRIES)} (default: all)")
    parser.add_argument("--dist", default=str(ROOT / "dist"), help="the built Tutti (default dist/)")
    options = parser.parse_args()
    if unknown := set(options.entries) - set(arena.ENTRIES):
        parser.error(f"there is no entry {', '.join(sorted(unknown))}")
    Tutti.dist = options.dist
    report = Report()
    with tempfile.TemporaryDirectory(prefix="tutti-arena-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        for entry in options.entries or arena.ENTRIES:
            try:
                check(entry, folder, ROOT / "bench/site", report)
            except (RuntimeError, TimeoutError, OSError) as error:
                report.begin(entry, "start")
                report.holds("the entry starts", False, error)
    for left_out in report.left_out:
        print(f"left out: {left_out}")
    print(f"{sum(report.counts.values())} hold, {len(report.faults)} do not")
    sys.exit(bool(report.faults))


if __name__ == "__main__":
    main()
