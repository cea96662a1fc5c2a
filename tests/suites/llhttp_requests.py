"""HTTP/1.1: which requests are refused, and how the others are read: the tests of llhttp, the parser of Node.js."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

from base import Case
from base.corpus import HTTP, application, invalid, valid, with_host

# The package llhttp of npm has no tests; the source package of aiohttp has llhttp's.
VERSION = "llhttp 9.3.0, of aiohttp 3.12.15"
# Not quick: pip prepares aiohttp in an environment of its own, which takes a minute where nothing is kept.

TEST = re.compile(r"^#+ (?P<title>[^\n]+)\n(?:(?!^#).)*?<!-- meta=(?P<meta>\{[^\n]*\}) -->\n```http\n(?P<input>.*?)```(?:(?!^#).)*?```log\n(?P<log>.*?)```", re.M | re.S)
# The log of a paused parser ends so, which is no error of the request.
PAUSES = {"21", "22", "23", "31"}


def tests(folder):
    """(name, options, request, log) of each test of requests."""
    for file in sorted(folder.glob("*.md")):
        seen = {}
        for found in TEST.finditer(file.read_text(encoding="utf-8")):
            title = re.sub(r"[^a-z0-9]+", "-", found["title"].lower()).strip("-")
            seen[title] = seen.get(title, 0) + 1
            name = f"{file.stem}/{title}" + (f"-{seen[title]}" if seen[title] > 1 else "")
            yield name, json.loads(found["meta"]), bytes_of(found["input"]), found["log"]


def bytes_of(text):
    """The request, as llhttp's own tests read their files."""
    text = re.sub(r"\n\Z", "", text)
    text = re.sub(r"\\\n", "", text).replace("\n", "\r\n")
    for escape, byte in ((r"\r", "\r"), (r"\n", "\n"), (r"\t", "\t"), (r"\f", "\f")):
        text = text.replace(escape, byte)
    text = re.sub(r"\\x([0-9a-fA-F]+)", lambda found: chr(int(found[1], 16)), text)
    text = re.sub(r"\\([0-7]{1,3})", lambda found: chr(int(found[1], 8)), text)
    return text.encode("utf-8" if any(ord(letter) > 255 for letter in text) else "latin-1")


def expected(log):
    """(requests as the log has them, how many of them are whole, whether the log ends with an error)."""
    requests, whole, is_refused, is_head = [], 0, False, True
    for line in log.splitlines():
        if "message begin" in line:
            requests.append({"method": "", "uri": "", "version": (1, 1), "headers": [], "body": ""})
            is_head = True
        elif found := re.search(r'span\[(\w+)\]="(.*)"$', line):
            kind, text = found.groups()
            text = bytes_of(text).decode("latin-1")
            last = requests[-1]
            if kind in ("method", "body"):
                last[kind] += text
            elif kind == "url":
                last["uri"] += text
            elif kind == "version":
                last["version"] = tuple(int(digit) for digit in text.split("."))
            elif not is_head:
                continue  # a trailer, which no WSGI application is given
            elif kind == "header_field":
                last["headers"].append([text.upper(), ""])
            elif kind == "header_value":
                last["headers"][-1][1] += text
        elif "headers complete" in line:
            is_head = False
        elif "message complete" in line:
            whole += 1
        elif (found := re.search(r"error code=(\d+)", line)) and found[1] not in PAUSES:
            is_refused = True
    return requests, whole, is_refused


def one(port, name, meta, data, log):
    if not re.fullmatch(r"request(-finish)?", meta["type"]):
        return Case(name, "skip", "llhttp takes it by an option against the RFC")
    if "skipBody" in meta:
        return Case(name, "skip", "it is about a body that a parser has to leave out")
    requests, whole, is_refused = expected(log)
    data = with_host(data)
    # An incomplete request is answered when the server has waited long enough.
    if is_refused or whole < len(requests):
        return invalid(name, port, data, whole)
    if not requests:
        return Case(name, "skip", "it is about no request")
    return valid(name, port, data, requests)


def run(context):
    context.module("tutti-python*")
    folder = context.sdist("aiohttp==3.12.15") / "vendor/llhttp/test/request"
    server = context.server(lambda port: {
        "listeners": {f"127.0.0.1:{port}": {"pass": "applications/seen"}},
        "applications": {"seen": application(context.folder)},
        "settings": {"http": HTTP},
    })
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda test: one(server.port, *test), tests(folder)))
