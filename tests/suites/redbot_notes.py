"""REDbot's notes on files, folders, fixed answers and cached pages: fields, ETags, ranges, gzip, conditional requests."""

import gzip
import sys
from configparser import ConfigParser

from base import Case

PACKAGES = ("redbot==2.7.1", "httplint==2026.10.4", "thor==0.17.0", "http-sf==1.5.0")
VERSION = "{0}, {1}".format(*PACKAGES)
SECONDS = 30
MOST_WARNINGS = 1
FRESH = {"Cache-Control": "max-age=600"}

TEXT = "".join(f"{number} is a number, and {number * number} is its square.\n" for number in range(2000))
FILES = {
    "page.html": f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>Numbers</title><pre>{TEXT}</pre></html>\n".encode(),
    "style.css": b"body { margin: 0 }\n" * 40,
    "script.js": b"'use strict';\nconsole.log('numbers');\n" * 40,
    "data.json": b'{"numbers": [' + b"1, " * 100 + b"1]}\n",
    "text.txt": TEXT.encode(),
    "picture.svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1">' + b'<rect width="1" height="1"/>' * 10 + b"</svg>\n",
    "picture.png": bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082") + bytes(200),
    "empty.txt": b"",
    "large.bin": bytes(range(256)) * 8192,
}
VALIDATED = ("inm_support", "ims_support")
RANGED = (*VALIDATED, "partial_support")
# Names what a resource offers, by REDbot's attribute.
OFFERED = {
    "partial_support": "parts of it",
    "inm_support": "`If-None-Match`",
    "ims_support": "`If-Modified-Since`",
    "gzip_support": "gzip",
}

APPLICATION = '''
"""Pages with the fields that a cache needs, and no conditional requests: those are the cache's."""

TEXT = "A page of an application.\\n" * 500
KINDS = {
    "/validated": [("ETag", '"one"'), ("Last-Modified", "Sun, 01 Nov 2026 10:00:00 GMT"), ("Cache-Control", "max-age=600")],
    "/weak": [("ETag", 'W/"one"'), ("Cache-Control", "public, max-age=600")],
    "/modified": [("Last-Modified", "Sun, 01 Nov 2026 10:00:00 GMT"), ("Cache-Control", "s-maxage=600, max-age=0")],
    "/varied": [("ETag", '"one"'), ("Vary", "Accept-Language"), ("Cache-Control", "max-age=600")],
    "/private": [("Cache-Control", "private, max-age=600")],
    "/unstored": [("Cache-Control", "no-store")],
}


def application(environ, start_response):
    page = "/" + environ["PATH_INFO"].rpartition("/")[2]
    kind = "text/plain; charset=utf-8"
    if page == "/missing":
        start_response("404 Not Found", [("Content-Type", kind), ("Cache-Control", "max-age=5")])
        return [b"There is no such page.\\n"]
    if page == "/streamed":
        start_response("200 OK", [("Content-Type", kind), ("Cache-Control", "no-cache")])
        return (line.encode() for line in TEXT.splitlines(True))
    body = TEXT.encode()
    start_response("200 OK", [("Content-Type", kind), ("Content-Length", str(len(body))), *KINDS[page]])
    return [body]
'''


def resources():
    """(name, path, offers): `gzip` is compressed while it is sent, `beside` has a compressed file beside it."""
    for name, data in FILES.items():
        ranged = RANGED if data else VALIDATED
        yield f"file/{name}", f"/plain/{name}", ranged
        is_text = not name.endswith((".png", ".bin"))
        yield f"gzip/{name}", f"/gzip/{name}", (*VALIDATED, "gzip_support") if is_text and data else ranged
    yield "beside/page.html", "/beside/page.html", (*VALIDATED, "gzip_support")
    yield "file/lasting", "/lasting/page.html", RANGED
    yield "folder/index", "/plain/folder/", RANGED
    yield "folder/redirect", "/plain/folder", ()
    yield "folder/listing", "/listing/", ()
    yield "answer/body", "/answer/body", ()
    yield "answer/json", "/answer/json", ()
    yield "answer/redirect", "/answer/redirect", ()
    yield "answer/empty", "/answer/empty", ()
    yield "error/missing", "/plain/missing", ()
    yield "error/forbidden", "/answer/forbidden", ()
    for way in ("application", "gzip-application", "proxy"):
        compressed = ("gzip_support",) if way.startswith("gzip") else ()
        for page in ("private", "unstored", "streamed", "missing"):
            yield f"{way}/{page}", f"/{way}/{page}", () if page == "missing" else compressed
    for way in ("cached", "cached-proxy", "gzip-cached"):
        compressed = ("gzip_support",) if way.startswith("gzip") else ()
        for page, offers in {"validated": VALIDATED, "weak": ("inm_support",), "modified": ("ims_support",), "varied": ("inm_support",)}.items():
            # The first answer comes from the application, the second one from the cache.
            yield f"{way}/{page}/stored", f"/{way}/{page}", None
            yield f"{way}/{page}", f"/{way}/{page}", (*offers, *compressed)


def configuration(folder, port, behind):
    compression = {"http": {"compression": {"compressors": {"encoding": "gzip"}}}}
    pages = {"pass": "applications/pages"}

    def at(prefix, action):
        return {"match": {"uri": f"/{prefix}/*"}, "action": action}

    def files(prefix, **more):
        return at(prefix, {"share": f"{folder}/{prefix}$uri", **more})

    return {
        "listeners": {f"127.0.0.1:{port}": {"pass": "routes"}, f"127.0.0.1:{behind}": {"pass": "applications/pages"}},
        "routes": [
            files("plain"),
            files("gzip", response_headers=FRESH, **compression),
            files("beside", response_headers=FRESH, precompressed=["gzip"]),
            files("lasting", response_headers={"Cache-Control": "public, max-age=31536000, immutable"}),
            files("listing", listing="auto"),
            {"match": {"uri": "/answer/body"}, "action": {"return": 200, "body": "As it is in the configuration.\n"}},
            {"match": {"uri": "/answer/json"}, "action": {"return": 200, "json": {"path": "$uri"}}},
            {"match": {"uri": "/answer/redirect"}, "action": {"return": 301, "location": "/plain/page.html"}},
            {"match": {"uri": "/answer/empty"}, "action": {"return": 204}},
            {"match": {"uri": "/answer/forbidden"}, "action": {"return": 403}},
            at("application", pages),
            at("gzip-application", {**pages, **compression}),
            at("proxy", {"proxy": f"http://127.0.0.1:{behind}"}),
            at("cached", {**pages, "cache": "pages"}),
            at("gzip-cached", {**pages, "cache": "pages", **compression}),
            at("cached-proxy", {"proxy": f"http://127.0.0.1:{behind}", "cache": "pages"}),
        ],
        "applications": {"pages": {"type": "python", "path": str(folder), "module": "pages", "processes": 1}},
        "settings": {"cache": {"pages": {}}},
    }


def write_files(folder):
    for prefix in ("plain", "gzip", "beside", "lasting", "listing"):
        below = folder / prefix / prefix
        (below / "folder").mkdir(parents=True)
        for name, data in FILES.items():
            (below / name).write_bytes(data)
        (below / "folder/index.html").write_bytes(FILES["page.html"])
    (folder / "beside/beside/page.html.gz").write_bytes(gzip.compress(FILES["page.html"]))
    (folder / "pages.py").write_text(APPLICATION)


def checked(port, paths):
    """The resources at these paths after REDbot's checks, one after another."""
    import thor
    from redbot.resource import HttpResource

    config = ConfigParser()
    config.read_dict({"redbot": {"enable_local_access": "True"}})
    found = []

    def check():
        if len(found) == len(paths):
            thor.stop()
            return
        resource = HttpResource(config["redbot"])
        resource.set_request(f"http://127.0.0.1:{port}{paths[len(found)]}")
        late = thor.schedule(SECONDS, resource.stop)

        def done():
            late.delete()
            found.append(resource)
            thor.schedule(0, check)

        resource.once("check_done", done)
        resource.check()

    thor.schedule(0, check)
    thor.run()
    return found


def own_notes(resource, sub):
    """The notes of a check that the resource itself does not have."""
    own = {type(note) for note in resource.response.notes if type(note).__module__.startswith("httplint")}
    of_check = [note for note in resource.response.notes if type(note).__module__ == type(sub).__module__]
    return [note for note in sub.response.notes if type(note) not in own] + of_check


def outcome(notes):
    """(outcome, detail) of notes: `bad` is not met, and a `warning` is one."""
    from httplint.note import levels

    for level, word in ((levels.BAD, "fail"), (levels.WARN, "warn")):
        if names := sorted({type(note).__name__ for note in notes if note.level == level}):
            return word, ", ".join(names)
    return "pass", ""


def run(context):
    context.module("tutti-python*")
    sys.path.insert(0, str(context.pip(*PACKAGES)))
    folder = context.folder / "site"
    folder.mkdir()
    write_files(folder)
    context.open_to_all(folder)
    behind = context.free_port()
    server = context.server(lambda port: configuration(folder, port, behind))
    listed = list(resources())
    for (name, _, offers), resource in zip(listed, checked(server.port, [path for _, path, _ in listed]), strict=True):
        if offers is None:
            continue
        if not resource.check_done or not resource.response.complete:
            yield Case(name, "fail", f"REDbot gets no answer: {getattr(resource.fetch_error, 'desc', 'too late')}")
            continue
        yield Case(name, *outcome(note for note in resource.response.notes if "active_check" not in type(note).__module__))
        for check, sub in sorted(resource.subreqs.items()):
            if sub.response.complete:
                yield Case(f"{name}/{check}", *outcome(own_notes(resource, sub)))
        for attribute in offers:
            has = bool(getattr(resource, attribute))
            yield Case(f"{name}/offers-{attribute.partition('_')[0]}", "pass" if has else "fail", "" if has else f"it does not offer {OFFERED[attribute]}")
