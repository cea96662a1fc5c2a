"""HTTP/1.1: framing, smuggling, malformed input, targets, fields, conditional requests, cookies: the cases of Http11Probe."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from base import Case
from base.wire import Connection

VERSION = "95bc6a9 (17 February 2026), its 215 cases written from its documentation"
QUICK = True
# It only becomes smaller; the best published server has 12.
MOST_WARNINGS = 11

# Long enough for the slowest machine; only a fault takes it.
LONGEST = 20
# The server's own patience with what never ends: a second, so that the cases that end by it are quick.
PATIENCE = 1

HOST = "Host: localhost:8080\r\n"
GET = f"GET / HTTP/1.1\r\n{HOST}\r\n"

APPLICATION = '''
"""The endpoints that Http11Probe asks of a server: a body comes back, /echo names the fields, /cookie the cookies."""

from http.cookies import SimpleCookie


def fields(environ):
    named = {"CONTENT_LENGTH": "Content-Length", "CONTENT_TYPE": "Content-Type"}
    for name, value in environ.items():
        if name.startswith("HTTP_") or (name in named and value):
            yield named.get(name, name.removeprefix("HTTP_").replace("_", "-").title()), value


def cookies(environ):
    for part in environ.get("HTTP_COOKIE", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name:
            yield name, value


def application(environ, start_response):
    path, body = environ["PATH_INFO"], environ["wsgi.input"].read()
    if path == "/echo":
        body = "".join(f"{name}: {value}\\n" for name, value in fields(environ)).encode("latin-1")
    elif path == "/cookie":
        body = "".join(f"{name}={value}\\n" for name, value in cookies(environ)).encode("latin-1")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
'''


def request(method="GET", target="/", version="HTTP/1.1", fields="", body=""):
    return f"{method} {target} {version}\r\n{HOST}{fields}\r\n{body}"


def post(fields="", body="", **line):
    return request("POST", fields=fields, body=body, **line)


def chunked(body):
    return post("Transfer-Encoding: chunked\r\n", body)


def length(value, body="hello"):
    return post(f"Content-Length: {value}\r\n", body)


def coding(line, body="hello"):
    """A transfer coding in disguise, beside a length."""
    return post(f"{line}\r\nContent-Length: {len(body)}\r\n", body)


# Each case has what is sent and what is accepted: statuses, `2xx`, `any` status, `close` (no response), `timeout` (the server's own), `!NNN` (any status but this);
# behind `~`, what is a warning. All else is a failure.
REJECT, STRICT, PREFER = "400 close", "400", "400 close ~ 2xx"
SILENCE = "400 close timeout"

SINGLE = [
    # Baseline, request line.
    ("COMP-BASELINE", "2xx", GET),
    ("COMP-ABSOLUTE-FORM", "2xx ~ 400", request(target="http://localhost:8080/")),
    ("COMP-ASTERISK-WITH-GET", REJECT, request(target="*")),
    ("COMP-HTTP12-VERSION", "~ 2xx 505 400", request(version="HTTP/1.2")),
    ("COMP-LONG-URL-OK", "!414 ~ close", request(target="/" + "a" * 7900)),
    ("COMP-METHOD-CASE", "400 405 501 ~ 2xx", request("get")),
    ("COMP-METHOD-CONNECT", "400 405 501 close", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"),
    ("COMP-METHOD-TRACE", "400 405 501 ~ 2xx", request("TRACE")),
    ("COMP-OPTIONS-STAR", "2xx", request("OPTIONS", "*")),
    ("COMP-REQUEST-LINE-TAB", PREFER, f"GET\t/ HTTP/1.1\r\n{HOST}\r\n"),
    ("COMP-SPACE-IN-TARGET", REJECT, request(target="/pa th")),
    ("COMP-TRACE-WITH-BODY", "400 405 501 ~ 2xx", request("TRACE", fields="Content-Length: 5\r\n", body="hello")),
    ("COMP-UNKNOWN-METHOD", "400 405 501", request("FOOBAR")),
    ("COMP-UNKNOWN-TE-501", "400 501 close", post("Transfer-Encoding: gzip\r\n")),
    ("COMP-VERSION-CASE", REJECT, request(version="http/1.1")),
    ("COMP-VERSION-LEADING-ZEROS", REJECT, request(version="HTTP/01.01")),
    ("COMP-VERSION-MISSING-MINOR", REJECT, request(version="HTTP/1")),
    ("COMP-VERSION-WHITESPACE", REJECT, request(version="HTTP/ 1.1")),
    ("RFC9112-2.3-HTTP09-REQUEST", SILENCE, "GET /\r\n"),
    ("RFC9112-2.3-INVALID-VERSION", "400 505 close", request(version="HTTP/9.9")),
    ("RFC9112-3-MISSING-TARGET", REJECT, f"GET HTTP/1.1\r\n{HOST}\r\n"),
    ("RFC9112-3-MULTI-SP-REQUEST-LINE", PREFER, f"GET  / HTTP/1.1\r\n{HOST}\r\n"),
    ("RFC9112-3.2-FRAGMENT-IN-TARGET", PREFER, request(target="/path#frag")),
    # Upgrades.
    ("COMP-UPGRADE-HTTP10", "!101", request(version="HTTP/1.0", fields=(upgrade := "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n") + "Sec-WebSocket-Version: 13\r\n")),
    ("COMP-UPGRADE-INVALID-VER", "!101", request(fields=upgrade + "Sec-WebSocket-Version: 99\r\n")),
    ("COMP-UPGRADE-MISSING-CONN", "!101", request(fields=upgrade.partition("\r\n")[2] + "Sec-WebSocket-Version: 13\r\n")),
    ("COMP-UPGRADE-POST", "!101", post(upgrade + "Sec-WebSocket-Version: 13\r\n")),
    ("COMP-UPGRADE-UNKNOWN", "!101", request(fields="Connection: Upgrade\r\nUpgrade: totally-made-up/1.0\r\n")),
    # Line endings.
    ("COMP-LEADING-CRLF", PREFER, "\r\n\r\n" + GET),
    ("RFC9112-2.2-BARE-LF-HEADER", PREFER, "GET / HTTP/1.1\r\nHost: localhost:8080\nX-Test: value\r\n\r\n"),
    ("RFC9112-2.2-BARE-LF-REQUEST-LINE", PREFER, f"GET / HTTP/1.1\n{HOST}\r\n"),
    ("RFC9112-3-CR-ONLY-LINE-ENDING", STRICT, f"GET / HTTP/1.1\r{HOST}\r\n"),
    # Host.
    ("COMP-DUPLICATE-HOST-SAME", STRICT, request(fields=HOST)),
    ("COMP-HOST-EMPTY-VALUE", REJECT, "GET / HTTP/1.1\r\nHost: \r\n\r\n"),
    ("COMP-HOST-WITH-PATH", REJECT, "GET / HTTP/1.1\r\nHost: localhost:8080/path\r\n\r\n"),
    ("COMP-HOST-WITH-USERINFO", REJECT, "GET / HTTP/1.1\r\nHost: user@localhost:8080\r\n\r\n"),
    ("COMP-HTTP10-NO-HOST", "400 ~ 2xx", "GET / HTTP/1.0\r\n\r\n"),
    ("RFC9110-5.4-DUPLICATE-HOST", STRICT, request(fields="Host: other.example.com\r\n")),
    ("RFC9112-7.1-MISSING-HOST", STRICT, "GET / HTTP/1.1\r\n\r\n"),
    # Fields.
    ("COMP-ACCEPT-NONSENSE", "406 ~ 2xx", request(fields="Accept: application/x-nonsense\r\n")),
    ("COMP-DUPLICATE-CT", PREFER, post("Content-Length: 5\r\nContent-Type: text/plain\r\nContent-Type: text/html\r\n", "hello")),
    ("COMP-EXPECT-UNKNOWN", "417 ~ 2xx", request(fields="Expect: 200-ok\r\n")),
    ("COMP-WHITESPACE-BEFORE-HEADERS", REJECT, f"GET / HTTP/1.1\r\n \r\n{HOST}\r\n"),
    ("RFC9110-5.6.2-SP-BEFORE-COLON", STRICT, request(fields="X-Test : value\r\n")),
    ("RFC9112-5-EMPTY-HEADER-NAME", REJECT, request(fields=": empty-name\r\n")),
    ("RFC9112-5-HEADER-NO-COLON", REJECT, request(fields="NoColonHere\r\n")),
    ("RFC9112-5-INVALID-HEADER-NAME", REJECT, request(fields="Bad[Name: value\r\n")),
    ("RFC9112-5.1-OBS-FOLD", STRICT, request(fields="X-Test: value\r\n continued\r\n")),
    # Bodies.
    ("COMP-CHUNKED-BODY", "2xx", chunked("5\r\nhello\r\n0\r\n\r\n")),
    ("COMP-CHUNKED-EMPTY", "2xx close", chunked("0\r\n\r\n")),
    ("COMP-CHUNKED-EXTENSION", "2xx ~ 400", chunked("5;ext=value\r\nhello\r\n0\r\n\r\n")),
    ("COMP-CHUNKED-HEX-UPPERCASE", "2xx", chunked("A\r\nhelloworld\r\n0\r\n\r\n")),
    ("COMP-CHUNKED-MULTI", "2xx", chunked("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")),
    ("COMP-CHUNKED-NO-FINAL", SILENCE, chunked("5\r\nhello\r\n")),
    ("COMP-CHUNKED-TRAILER-VALID", "2xx", chunked("5\r\nhello\r\n0\r\nX-Checksum: abc\r\n\r\n")),
    ("COMP-GET-WITH-CL-BODY", "400 ~ 2xx", request(fields="Content-Length: 5\r\n", body="hello")),
    ("COMP-POST-CL-BODY", "2xx", length(5)),
    ("COMP-POST-CL-UNDERSEND", SILENCE, length(10)),
    ("COMP-POST-CL-ZERO", "2xx close", length(0, "")),
    ("COMP-POST-NO-CL-NO-TE", "2xx close", post()),
    ("COMP-POST-UNSUPPORTED-CT", "2xx 415 ~ any", post("Content-Length: 5\r\nContent-Type: application/x-nonsense\r\n", "hello")),
    ("COMP-RANGE-INVALID", "2xx 416 ~ any", request(fields="Range: bytes=abc-xyz\r\n")),
    ("RFC9112-6.1-CL-NON-NUMERIC", REJECT, length("abc", "")),
    ("RFC9112-6.1-CL-PLUS-SIGN", REJECT, length("+5")),
    # Lengths.
    ("SMUG-CL-COMMA-DIFFERENT", REJECT, length("5, 10")),
    ("SMUG-CL-COMMA-SAME", PREFER, length("5, 5")),
    ("SMUG-CL-COMMA-TRIPLE", PREFER, length("5, 5, 5")),
    ("SMUG-CL-DOUBLE-ZERO", PREFER, length("00", "")),
    ("SMUG-CL-EXTRA-LEADING-SP", PREFER, length(" 5")),
    ("SMUG-CL-HEX-PREFIX", REJECT, length("0x5")),
    ("SMUG-CL-INTERNAL-SPACE", REJECT, length("1 0", "hello12345")),
    ("SMUG-CL-LEADING-ZEROS", PREFER, length("005")),
    ("SMUG-CL-LEADING-ZEROS-OCTAL", PREFER, length("0200", "A" * 200)),
    ("SMUG-CL-NEGATIVE", REJECT, length("-1", "")),
    ("SMUG-CL-NEGATIVE-ZERO", REJECT, length("-0", "")),
    ("SMUG-CL-OCTAL", REJECT, length("0o5")),
    ("SMUG-CL-TE-BOTH", PREFER, post("Content-Length: 23\r\nTransfer-Encoding: chunked\r\n", "D\r\nhello-bananas\r\n0\r\n\r\n")),
    ("SMUG-CL-TRAILING-SPACE", PREFER, length("5 ")),
    ("SMUG-CL-UNDERSCORE", REJECT, length("1_0", "helloworld")),
    ("SMUG-DUPLICATE-CL", REJECT, post("Content-Length: 5\r\nContent-Length: 10\r\n", "hello")),
    ("SMUG-CLTE-PIPELINE", PREFER, post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")),
    ("SMUG-TECL-PIPELINE", PREFER, post("Transfer-Encoding: chunked\r\nContent-Length: 30\r\n", "0\r\n\r\n")),
    # Chunks.
    ("SMUG-CHUNK-BARE-CR-TERM", REJECT, chunked("5\rhello\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-BARE-SEMICOLON", REJECT, chunked("5;\r\nhello\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-EXT-CR", REJECT, chunked("5;a\rX\r\nhello\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-EXT-CTRL", REJECT, chunked("5;\0ext\r\nhello\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-EXT-INVALID-TOKEN", REJECT, chunked("5;bad[=x\r\nhello\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-EXT-LF", PREFER, chunked("5;\nhello\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-HEX-PREFIX", REJECT, chunked("0x5\r\nhello\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-LEADING-SP", REJECT, chunked(" 5\r\nhello\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-LF-TERM", PREFER, chunked("5\r\nhello\n0\r\n\r\n")),
    ("SMUG-CHUNK-LF-TRAILER", PREFER, chunked("5\r\nhello\r\n0\r\n\n")),
    ("SMUG-CHUNK-MISSING-TRAILING-CRLF", REJECT, chunked("5\r\nhello0\r\n\r\n")),
    ("SMUG-CHUNK-NEGATIVE", REJECT, chunked("-1\r\nhello\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-SIZE-PLUS", REJECT, chunked("+5\r\nhello\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-SIZE-TRAILING-OWS", REJECT, chunked("5 \r\nhello\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-SPILL", REJECT, chunked("5\r\nhello!!\r\n0\r\n\r\n")),
    ("SMUG-CHUNK-UNDERSCORE", REJECT, chunked("1_0\r\nhello world!!!!!\r\n0\r\n\r\n")),
    ("SMUG-TRAILER-AUTH", PREFER, chunked("5\r\nhello\r\n0\r\nAuthorization: Bearer evil\r\n\r\n")),
    ("SMUG-TRAILER-CL", PREFER, chunked("5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n")),
    ("SMUG-TRAILER-CONTENT-TYPE", PREFER, chunked("5\r\nhello\r\n0\r\nContent-Type: text/evil\r\n\r\n")),
    ("SMUG-TRAILER-HOST", PREFER, chunked("5\r\nhello\r\n0\r\nHost: evil.example.com\r\n\r\n")),
    ("SMUG-TRAILER-TE", PREFER, chunked("5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n")),
    # Transfer codings.
    ("SMUG-CHUNKED-WITH-PARAMS", PREFER, coding("Transfer-Encoding: chunked;ext=val")),
    ("SMUG-TE-CASE-MISMATCH", PREFER, coding("Transfer-Encoding: Chunked")),
    ("SMUG-TE-DOUBLE-CHUNKED", PREFER, coding("Transfer-Encoding: chunked, chunked")),
    ("SMUG-TE-DUPLICATE-HEADERS", REJECT, coding("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity")),
    ("SMUG-TE-EMPTY-VALUE", REJECT, coding("Transfer-Encoding: ")),
    ("SMUG-TE-FORMFEED", REJECT, coding("Transfer-Encoding: \x0cchunked")),
    ("SMUG-TE-HTTP10", REJECT, post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "hello", version="HTTP/1.0")),
    ("SMUG-TE-IDENTITY", "400 501 close", coding("Transfer-Encoding: identity")),
    ("SMUG-TE-LEADING-COMMA", PREFER, coding("Transfer-Encoding: , chunked")),
    ("SMUG-TE-NOT-FINAL-CHUNKED", REJECT, post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n")),
    ("SMUG-TE-NULL", REJECT, coding("Transfer-Encoding: chunked\0")),
    ("SMUG-TE-SP-BEFORE-COLON", REJECT, coding("Transfer-Encoding : chunked")),
    ("SMUG-TE-TAB-BEFORE-VALUE", PREFER, coding("Transfer-Encoding:\tchunked")),
    ("SMUG-TE-TRAILING-COMMA", PREFER, coding("Transfer-Encoding: chunked,")),
    ("SMUG-TE-VTAB", REJECT, coding("Transfer-Encoding: \x0bchunked")),
    ("SMUG-TE-XCHUNKED", "400 501 close", coding("Transfer-Encoding: xchunked")),
    ("SMUG-TRANSFER_ENCODING", PREFER, coding("Transfer_Encoding: chunked")),
    # Other ways to be read twice.
    ("SMUG-ABSOLUTE-URI-HOST-MISMATCH", PREFER, request(target="http://other.example.com/")),
    ("SMUG-BARE-CR-HEADER-VALUE", REJECT, post("Content-Length: 5\r\nX-Test: val\rue\r\n", "hello")),
    ("SMUG-EXPECT-100-CL", PREFER, post("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello")),
    ("SMUG-HEAD-CL-BODY", PREFER, request("HEAD", fields="Content-Length: 5\r\n", body="hello")),
    ("SMUG-MULTIPLE-HOST-COMMA", REJECT, "GET / HTTP/1.1\r\nHost: localhost:8080, other.example.com\r\n\r\n"),
    ("SMUG-OPTIONS-CL-BODY", "400 405 close ~ 2xx", request("OPTIONS", fields="Content-Length: 5\r\n", body="hello")),
    # Malformed input.
    ("MAL-BINARY-GARBAGE", SILENCE, "".join(chr((167 * place + 13) * (place + 5) % 251) for place in range(256))),
    ("MAL-CHUNK-EXT-64K", "400 413 431 close ~ 2xx", chunked(f"5;ext={'a' * 65536}\r\nhello\r\n0\r\n\r\n")),
    ("MAL-CHUNK-SIZE-OVERFLOW", REJECT, chunked("FFFFFFFFFFFFFFFF0\r\nhello\r\n0\r\n\r\n")),
    ("MAL-CL-EMPTY", REJECT, length("", "")),
    ("MAL-CL-OVERFLOW", REJECT, length("99999999999999999999", "")),
    ("MAL-CL-TAB-BEFORE-VALUE", PREFER, post("Content-Length:\t5\r\n", "hello")),
    ("MAL-CONTROL-CHARS-HEADER", REJECT, request(fields="X-Test: abc\x07\x08\x0bdef\r\n")),
    ("MAL-EMPTY-REQUEST", SILENCE, ""),
    ("MAL-H2-PREFACE", "400 505 close timeout", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("MAL-INCOMPLETE-REQUEST", SILENCE, f"GET / HTTP/1.1\r\n{HOST}X-Test: value"),
    ("MAL-LONG-HEADER-NAME", "400 431 close", request(fields=f"{'A' * 100_000}: val\r\n")),
    ("MAL-LONG-HEADER-VALUE", "400 431 close", request(fields=f"X-Big: {'B' * 100_000}\r\n")),
    ("MAL-LONG-METHOD", REJECT, request("A" * 100_000)),
    ("MAL-LONG-URL", "400 414 431 close", request(target="/" + "A" * 100_000)),
    ("MAL-MANY-HEADERS", "400 431 close", request(fields="".join(f"X-H-{number}: value\r\n" for number in range(10_000)))),
    ("MAL-NON-ASCII-HEADER-NAME", REJECT, request(fields="X-T\xc3\xabst: value\r\n")),
    ("MAL-NON-ASCII-URL", REJECT, request(target="/caf\xc3\xa9")),
    ("MAL-NUL-IN-HEADER-VALUE", REJECT, request(fields="X-Test: val\0ue\r\n")),
    ("MAL-NUL-IN-URL", REJECT, request(target="/\0test")),
    ("MAL-POST-CL-HUGE-NO-BODY", "400 413 close timeout", length(999_999_999, "")),
    ("MAL-RANGE-OVERLAPPING", "~ any", request(fields=f"Range: bytes={','.join(['0-'] * 1000)}\r\n")),
    ("MAL-URL-BACKSLASH", "400 close ~ 2xx 404", request(target="/path\\file")),
    ("MAL-URL-OVERLONG-UTF8", REJECT, request(target="/\xc0\xaf")),
    ("MAL-URL-PERCENT-CRLF", "400 close ~ 2xx 404", request(target="/path%0d%0aX-Injected:%20true")),
    ("MAL-URL-PERCENT-NULL", "400 close ~ 2xx 404", request(target="/path%00.html")),
    ("MAL-WHITESPACE-ONLY-LINE", SILENCE, "   \r\n\r\n"),
    # Cookies that may be refused, and must not be fatal.
    ("COOK-EMPTY", "2xx 400", request(target="/echo", fields="Cookie: \r\n")),
    ("COOK-MALFORMED", "2xx 400", request(target="/echo", fields="Cookie: ===;;;\r\n")),
    ("COOK-MANY-PAIRS", "2xx 400 431", request(target="/echo", fields=f"Cookie: {'; '.join(f'k{n}=v{n}' for n in range(1000))}\r\n")),
    ("COOK-OVERSIZED", "2xx 400 431 close", request(target="/echo", fields=f"Cookie: big={'A' * 65_536}\r\n")),
    ("COOK-PARSED-EMPTY-VAL", "2xx 400 ~ 404", request(target="/cookie", fields="Cookie: foo=\r\n")),
    ("COOK-PARSED-SPECIAL", "2xx 400 ~ 404", request(target="/cookie", fields="Cookie: a=hello world; b=x=y\r\n")),
]

# An ambiguous message that holds a whole request: no more than one response may come, and the connection must end.
HIDDEN = "0\r\n\r\n" + GET


def both(length_of=str, line="Transfer-Encoding: chunked", hidden=HIDDEN):
    return post(f"Content-Length: {length_of(len(hidden))}\r\n{line}\r\n", hidden)


INNER = f"GET / HTTP/1.1\r\n{HOST}Content-Length: 7\r\n\r\n"
PREFIX = f"{len(INNER):x}\r\n"
SMUGGLED = [
    ("SMUG-CLTE-SMUGGLED-GET", both()),
    ("SMUG-CLTE-SMUGGLED-GET-CL-NON-NUMERIC", both(lambda number: f"{number}x")),
    ("SMUG-CLTE-SMUGGLED-GET-CL-PLUS", both(lambda number: f"+{number}")),
    ("SMUG-CLTE-SMUGGLED-GET-TE-CASE-MISMATCH", both(line="Transfer-Encoding: Chunked")),
    ("SMUG-CLTE-SMUGGLED-GET-TE-LEADING-COMMA", both(line="Transfer-Encoding: , chunked")),
    ("SMUG-CLTE-SMUGGLED-GET-TE-OBS-FOLD", post(f"Transfer-Encoding:\r\n chunked\r\nContent-Length: {len(HIDDEN)}\r\n", HIDDEN)),
    ("SMUG-CLTE-SMUGGLED-GET-TE-TRAILING-SPACE", both(line="Transfer-Encoding: chunked ")),
    ("SMUG-CLTE-SMUGGLED-HEAD", both(hidden=HIDDEN.replace("GET", "HEAD"))),
    ("SMUG-DUPLICATE-CL-SMUGGLED-GET", post(f"Content-Length: 4\r\nContent-Length: {4 + len(GET)}\r\n", "PING" + GET)),
    ("SMUG-TE-DUPLICATE-HEADERS-SMUGGLED-GET", both(line="Transfer-Encoding: chunked\r\nTransfer-Encoding: identity")),
    ("SMUG-TECL-SMUGGLED-GET", post(f"Transfer-Encoding: chunked\r\nContent-Length: {len(PREFIX)}\r\n", f"{PREFIX}{INNER}\r\n0\r\n\r\n")),
]

# Ambiguous messages after which the connection must end: refused, or answered and closed.
CLOSED = [
    ("SMUG-CLTE-CONN-CLOSE", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "2xx"),
    ("SMUG-TECL-CONN-CLOSE", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), "2xx"),
    ("SMUG-CLTE-DESYNC", post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nX"), "2xx"),
    ("SMUG-TECL-DESYNC", post("Transfer-Encoding: chunked\r\nContent-Length: 30\r\n", "0\r\n\r\nX"), "2xx"),
    ("SMUG-CHUNK-INVALID-SIZE-DESYNC", chunked("+0\r\n\r\nX"), ""),
    ("SMUG-OPTIONS-TE-OBS-FOLD", request("OPTIONS", fields="Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n", body="hello"), "2xx"),
    ("SMUG-TE-OBS-FOLD", coding("Transfer-Encoding:\r\n chunked"), "2xx"),
    ("SMUG-TE-TRAILING-SPACE", coding("Transfer-Encoding: chunked "), "2xx 501"),
]

# A message whose body may be left unread, and the next request, which must get its own response and no other.
CUT = f"GET / HTTP/1.1\r\n{HOST}"
FOLLOWED = [
    ("SMUG-CL0-BODY-POISON", length(0, "X"), GET),
    ("SMUG-EXPECT-100-CL-DESYNC", post("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"), GET),
    ("SMUG-GET-CL-BODY-DESYNC", request(fields="Content-Length: 5\r\n", body="hello"), GET),
    ("SMUG-GET-CL-PREFIX-DESYNC", request(fields=f"Content-Length: {len(CUT)}\r\n", body=CUT), "\r\n" + GET),
    ("SMUG-OPTIONS-CL-BODY-DESYNC", request("OPTIONS", fields="Content-Length: 5\r\n", body="hello"), GET),
]

# Fields that an application must not take for others; the reading that would be one.
NORMALIZED = [
    ("NORM-CASE-TE", "TRANSFER-ENCODING: chunked\r\n", r"(?m)^transfer-encoding:", r"^TRANSFER-ENCODING:"),
    ("NORM-SP-BEFORE-COLON-CL", "Content-Length : 5\r\n", r"(?i)^content-length: 5$", r"(?i)^content-length :"),
    ("NORM-TAB-IN-NAME", "Content\tLength: 99\r\n", r"(?i)^content-length: 99$", r"(?i)^content\tlength:"),
    ("NORM-UNDERSCORE-CL", "Content_Length: 99\r\n", r"(?i)^content-length: 99$", r"(?i)^content_length:"),
    ("NORM-UNDERSCORE-TE", "Transfer_Encoding: chunked\r\n", r"(?i)^transfer-encoding:", r"(?i)^transfer_encoding:"),
]

# Cases that the suite does not score, because its RFC permits either answer.
UNSCORED = set("""
    SMUG-TRANSFER_ENCODING SMUG-CL-COMMA-SAME SMUG-CL-COMMA-TRIPLE SMUG-CHUNKED-WITH-PARAMS SMUG-EXPECT-100-CL SMUG-TRAILER-CL SMUG-TRAILER-TE
    SMUG-TRAILER-HOST SMUG-TRAILER-AUTH SMUG-TRAILER-CONTENT-TYPE SMUG-HEAD-CL-BODY SMUG-OPTIONS-CL-BODY SMUG-TE-TAB-BEFORE-VALUE
    SMUG-ABSOLUTE-URI-HOST-MISMATCH COMP-ABSOLUTE-FORM COMP-METHOD-CASE MAL-RANGE-OVERLAPPING MAL-URL-BACKSLASH NORM-CASE-TE COMP-TRACE-SENSITIVE
    COMP-ACCEPT-NONSENSE COMP-DATE-FORMAT COMP-RANGE-INVALID COMP-POST-UNSUPPORTED-CT SMUG-PIPELINE-SAFE SMUG-CL0-BODY-POISON
    SMUG-GET-CL-BODY-DESYNC SMUG-OPTIONS-CL-BODY-DESYNC SMUG-EXPECT-100-CL-DESYNC SMUG-GET-CL-PREFIX-DESYNC CAP-ETAG-304 CAP-LAST-MODIFIED-304
    CAP-ETAG-IN-304 CAP-INM-PRECEDENCE CAP-INM-WILDCARD CAP-IMS-FUTURE CAP-IMS-INVALID CAP-INM-UNQUOTED CAP-ETAG-WEAK COOK-ECHO COOK-OVERSIZED
    COOK-EMPTY COOK-NUL COOK-CONTROL-CHARS COOK-MANY-PAIRS COOK-MALFORMED COOK-MULTI-HEADER COOK-PARSED-BASIC COOK-PARSED-MULTI
    COOK-PARSED-EMPTY-VAL COOK-PARSED-SPECIAL
""".split())
IMF_FIXDATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT")


class Probe:
    """The server under test, and what each kind of case does to it."""

    def __init__(self, port):
        self.port = port

    def final(self, connection, method="GET"):
        """The final response, and the interim ones before it; the response is `close` or `timeout` when there is none."""
        interim = []
        while True:
            try:
                response = connection.response(LONGEST, method == "HEAD")
            except ValueError as error:
                return str(error), interim
            if response is None:
                return "close" if connection.is_closed else "timeout", interim
            # This is the response when the server has waited long enough.
            if response.status == 408:
                return "timeout", interim
            if response.status >= 200 or response.status == 101:
                return response, interim
            interim.append(response.status)

    def ask(self, data, connection=None):
        """The response to one message on a connection of its own, or on this one."""
        method = data.partition(" ")[0]
        if connection:
            connection.send(data.encode("latin-1"))
            return self.final(connection, method)[0]
        with Connection(self.port) as connection:
            connection.send(data.encode("latin-1"))
            return self.final(connection, method)[0]

    def single(self, name, expected, data):
        got = self.ask(data)
        good, _, fair = expected.partition("~")
        return Case(name, "pass" if accepts(good, got) else "warn" if accepts(fair, got) else "fail", "" if accepts(good, got) else word(got))

    def smuggled(self, name, data):
        with Connection(self.port) as connection:
            connection.send(data.encode("latin-1"))
            first = self.final(connection)[0]
            if accepts("close", first):
                return Case(name, "pass")
            if not connection.closes(2):
                return Case(name, "fail", f"{word(first)}, and the connection stays open")
            if connection.buffer:
                return Case(name, "fail", f"{word(first)}, and another response")
            return Case(name, "pass" if accepts("400 501 2xx", first) else "fail", word(first))

    def closed(self, name, data, answered):
        with Connection(self.port) as connection:
            connection.send(data.encode("latin-1"))
            first = self.final(connection)[0]
            if accepts("close", first):
                return Case(name, "pass")
            if not accepts(f"400 {answered}", first):
                return Case(name, "fail", word(first))
            if not connection.closes(2) or connection.buffer:
                return Case(name, "fail", f"{word(first)}, and the connection stays open")
            return Case(name, "pass")

    def followed(self, name, data, then):
        with Connection(self.port) as connection:
            first = self.ask(data, connection)
            if accepts("400 405 417 close", first) and connection.closes(2):
                return Case(name, "pass")
            second = self.ask(then, connection)
            if accepts("close", second):
                return Case(name, "pass")
            connection.send(b"")
            extra = connection.buffer or connection.fill(0.2)
            if accepts("2xx", second) and not extra:
                return Case(name, "pass")
            return Case(name, "warn", f"{word(first)}, then {word(second)}")

    def normalized(self, name, line, taken, kept):
        got = self.ask(post(f"Content-Length: 11\r\n{line}", "hello world", target="/echo"))
        if accepts("400 close", got):
            return Case(name, "pass")
        if not accepts("2xx", got):
            return Case(name, "fail", word(got))
        lines = got.body.decode("latin-1").splitlines()
        if any(re.search(taken, each) for each in lines):
            return Case(name, "fail", "the application is given the field by its proper name")
        if any(re.search(kept, each) for each in lines):
            return Case(name, "warn", "the application is given the field as it was sent")
        return Case(name, "pass")

    # Cases that look into a response.

    def looks(self):
        """(name, function) of each."""
        yield "COMP-405-ALLOW", lambda: self.field("DELETE", "405", "allow", "a status other than 405")
        yield "COMP-OPTIONS-ALLOW", lambda: self.field("OPTIONS", "2xx", "allow", None)
        yield "COMP-CONTENT-TYPE", lambda: self.field("GET", "2xx", "content-type", None)
        yield "COMP-DATE-HEADER", lambda: self.field("GET", "2xx", "date", None)
        yield "COMP-DATE-FORMAT", self.date_format
        yield "COMP-NO-CL-IN-204", self.no_length_in_204
        yield "COMP-HEAD-NO-BODY", self.head_has_no_body
        yield "COMP-CONNECTION-CLOSE", lambda: self.ends(request(fields="Connection: close\r\n"))
        yield "COMP-HTTP10-DEFAULT-CLOSE", lambda: self.ends(request(version="HTTP/1.0"))
        yield "COMP-NO-1XX-HTTP10", self.no_interim
        yield "COMP-RANGE-POST", lambda: self.status(post("Content-Length: 5\r\nRange: bytes=0-10\r\n", "hello"), (200, 201, 202, 204))
        yield "COMP-TRACE-SENSITIVE", self.trace
        yield "SMUG-PIPELINE-SAFE", self.pipeline
        yield "CAP-ETAG-304", lambda: self.conditional("etag", "If-None-Match: {0}\r\n", 304)
        yield "CAP-ETAG-IN-304", lambda: self.conditional("etag", "If-None-Match: {0}\r\n", 304, "etag")
        yield "CAP-ETAG-WEAK", lambda: self.conditional("etag", "If-None-Match: {1}\r\n", 304)
        yield "CAP-INM-UNQUOTED", lambda: self.conditional("etag", "If-None-Match: {2}\r\n", 200)
        yield "CAP-INM-PRECEDENCE", lambda: self.conditional("etag", "If-None-Match: {0}\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 304)
        yield "CAP-INM-WILDCARD", lambda: self.conditional(None, "If-None-Match: *\r\n", 304)
        yield "CAP-LAST-MODIFIED-304", lambda: self.conditional("last-modified", "If-Modified-Since: {0}\r\n", 304)
        yield "CAP-IMS-FUTURE", lambda: self.conditional(None, "If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT\r\n", 200)
        yield "CAP-IMS-INVALID", lambda: self.conditional(None, "If-Modified-Since: not-a-date\r\n", 200)
        yield "COOK-ECHO", lambda: self.says("/echo", ["Cookie: foo=bar"], ["Cookie: foo=bar"])
        yield "COOK-MULTI-HEADER", lambda: self.says("/echo", ["Cookie: a=1", "Cookie: b=2"], ["a=1", "b=2"])
        yield "COOK-PARSED-BASIC", lambda: self.says("/cookie", ["Cookie: foo=bar"], ["foo=bar"])
        yield "COOK-PARSED-MULTI", lambda: self.says("/cookie", ["Cookie: a=1; b=2; c=3"], ["a=1", "b=2", "c=3"])
        yield "COOK-CONTROL-CHARS", lambda: self.loses("Cookie: foo=\x01\x02\x03", "\x01\x02\x03")
        yield "COOK-NUL", lambda: self.loses("Cookie: foo=\0bar", "\0")

    def field(self, method, expected, name, otherwise):
        got = self.ask(request(method))
        if not accepts(expected, got):
            return ("warn", f"{word(got)}: {otherwise}") if otherwise and accepts("any", got) else ("fail", word(got))
        return ("pass", "") if got.first(name) else ("fail", f"{word(got)} without `{name}`")

    def date_format(self):
        got = self.ask(GET)
        return ("pass", "") if accepts("any", got) and IMF_FIXDATE.fullmatch(got.first("date") or "") else ("warn", "no date of this form")

    def no_length_in_204(self):
        got = self.ask(request("OPTIONS"))
        if not accepts("204", got):
            return "warn", f"{word(got)}: a status other than 204"
        return ("fail", "204 with a length") if got.first("content-length") else ("pass", "")

    def head_has_no_body(self):
        with Connection(self.port) as connection:
            got = self.ask(request("HEAD", fields="Connection: close\r\n"), connection)
            connection.closes(LONGEST)
            return ("pass", "") if accepts("2xx", got) and not connection.buffer else ("fail", word(got))

    def ends(self, data):
        with Connection(self.port) as connection:
            got = self.ask(data, connection)
            return ("pass", "") if accepts("2xx", got) and connection.closes(2) else ("fail", f"{word(got)}, and the connection stays open")

    def no_interim(self):
        with Connection(self.port) as connection:
            connection.send(post("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello", version="HTTP/1.0").encode())
            got, interim = self.final(connection)
            return ("fail", f"{interim[0]} first") if interim else ("pass", "") if accepts("any", got) else ("fail", word(got))

    def status(self, data, statuses):
        got = self.ask(data)
        return ("pass", "") if accepts("any", got) and got.status in statuses else ("fail", word(got))

    def trace(self):
        got = self.ask(request("TRACE", fields="Authorization: Bearer secret-token-123\r\n"))
        return ("warn", "the credentials come back") if accepts("any", got) and b"secret-token-123" in got.body else ("pass", "")

    def pipeline(self):
        with Connection(self.port) as connection:
            first = self.ask(GET, connection)
            if not accepts("2xx", first):
                return "fail", word(first)
            second = self.ask(GET, connection)
            return ("pass", "") if accepts("2xx", second) else ("warn", f"{word(first)}, then {word(second)}")

    def conditional(self, validator, fields, expected, kept=None):
        with Connection(self.port) as connection:
            first = self.ask(request(fields="Connection: keep-alive\r\n"), connection)
            value = first.first(validator) if validator and accepts("2xx", first) else ""
            if value is None:
                return "warn", f"no `{validator}`"
            weak = value if value.startswith("W/") else f"W/{value}"
            second = self.ask(request(fields=fields.format(value, weak, value.removeprefix("W/").strip('"'))), connection)
            if not accepts("2xx 304", second):
                return "fail", word(second)
            if second.status != expected or (kept and not second.first(kept)):
                return "warn", word(second)
            return "pass", ""

    def says(self, target, lines, wanted):
        got = self.ask(request(target=target, fields="".join(f"{line}\r\n" for line in lines)))
        if not accepts("2xx", got):
            return "fail", word(got)
        missing = [each for each in wanted if each.encode() not in got.body]
        return ("fail", f"no {', '.join(missing)}") if missing else ("pass", "")

    def loses(self, line, characters):
        got = self.ask(request(target="/echo", fields=f"{line}\r\n"))
        if accepts("400 close", got):
            return "pass", ""
        return ("fail", word(got)) if not accepts("2xx", got) or characters.encode("latin-1") in got.body else ("pass", "")


def word(got):
    return got if isinstance(got, str) else str(got.status)


def accepts(expected, got):
    """True if this is accepted: a response, `close` or `timeout`."""
    status = word(got)
    for each in expected.split():
        if each == status or (each == "any" and status.isdigit()) or (each == "2xx" and status.isdigit() and status[0] == "2"):
            return True
        if each[0] == "!" and status.isdigit() and status != each[1:]:
            return True
    return False


def configuration(context):
    site = context.folder / "site"
    site.mkdir()
    (site / "index.html").write_text("OK")
    (context.folder / "probe.py").write_text(APPLICATION)

    def configure(port):
        return {
            "listeners": {f"127.0.0.1:{port}": {"pass": "routes"}},
            "routes": [
                {"match": {"uri": ["/echo", "/cookie"]}, "action": {"pass": "applications/probe"}},
                {"match": {"method": "POST"}, "action": {"pass": "applications/probe"}},
                {"action": {"share": f"{site}$uri"}},
            ],
            "applications": {"probe": {"type": "python", "path": str(context.folder), "module": "probe"}},
            "settings": {"http": {"header_read_timeout": PATIENCE, "body_read_timeout": PATIENCE, "idle_timeout": PATIENCE}},
        }
    return configure


def run(context):
    context.module("tutti-python*")
    probe = Probe(context.server(configuration(context)).port)
    jobs = [(probe.single, row) for row in SINGLE] + [(probe.smuggled, row) for row in SMUGGLED] + [(probe.closed, row) for row in CLOSED]
    jobs += [(probe.followed, row) for row in FOLLOWED] + [(probe.normalized, row) for row in NORMALIZED]
    jobs += [(lambda name, look: Case(name, *look()), row) for row in probe.looks()]
    with ThreadPoolExecutor(8) as pool:
        cases = list(pool.map(lambda job: job[0](*job[1]), jobs))
    cases = [replace(case, outcome="note") if case.outcome == "warn" and case.name in UNSCORED else case for case in cases]
    return sorted(cases, key=lambda case: case.name)
