"""The thirty capabilities, what cannot be combined, and the part of the configuration that each adds.

A capability that is on changes the one configuration of [configure], or adds an event of combination.py; requests.py has the responses.
"""

from covering import Rules

PROTOCOLS = ("HTTP/1", "HTTP/2", "HTTP/3")
# Each is done while requests are under way, in this order.
EVENTS = ("maintenance", "restart", "fleet roll-out", "upgrade", "router death")
NAMES = (
    *PROTOCOLS,
    "guards", "forward-auth", "limits", "cache", "rewrite", "error pages", "X-Accel", "mirror", "early hints", "compression", "ranges",
    "slow clients", "WebSocket", "early data", "forwarded", "PROXY protocol", "spooler", "schedules", "mules", "slow log", "missing module",
    "isolation", *EVENTS,
)

RULES = Rules(
    impossible=[
        (("missing module", "maintenance"),
         "a change is refused as long as a part of the configuration is not valid, and maintenance is a change (docs/operate/processes.md)"),
    ],
    needs=[
        (("early data", "HTTP/3"), "TLS over TCP never accepts early data (docs/http/http2-and-http3.md)"),
    ],
    # Without a client there is no request.
    one_of=[PROTOCOLS],
    free=PROTOCOLS,
)

USERS = {"anna": "anna's password", "ben": "ben's password"}
# bcrypt with the least cost that there is: the password is known, so the test needs no strength.
HASHES = {"anna": "$2b$04$RYOjBoiyuwOdCOd1TNLyW.8seg.ckncG3R4e95A2TFxPEOVNkI2ua", "ben": "$2b$04$RYOjBoiyuwOdCOd1TNLyW.um7o4iT4.A.c75jVC.yjtM4aRtlO.OK"}
# Requests to this host get the pages of a server behind the server, all others those of an application of it.
UPSTREAM_HOST = "up.localhost"
PROXY_ADDRESS, FORWARDER_ADDRESS = "127.0.0.2", "127.0.0.3"
LOG_FORMAT = {
    "id": "$header_x_test_id", "status": {"number": "$status"}, "bytes": {"number": "$body_bytes_sent"}, "address": "$remote_addr",
    "protocol": "$protocol", "uri": "$request_uri", "user": "$remote_user",
}


def application(on, place):
    """The application of the site."""
    made = {
        "type": "python", "path": str(place.folder / "application"), "module": "site_app", "callable": "application", "processes": 2,
        "environment": {"SERVED": str(place.served)},
    }
    if "isolation" in on:
        made["isolation"] = {
            "namespaces": dict.fromkeys(("mount", "pid", "ipc", "uname", "network", "cgroup"), True), "new_privs": False}
    if "mules" in on:
        made["mules"] = {"queue": {"command": ["/bin/sh", "-c", f"echo started >>{place.mule}; exec sleep 1000"], "stop_timeout": 5}}
    return made


def content(on, behind):
    """The action of the site's pages: everything that applies to a response meets here."""
    made = {"pass": behind, "response_headers": {"X-Site": "pairs"}}
    if "cache" in on:
        made["cache"] = {"store": "pages", "valid": {"200": 600, "404": 600}}
    if "mirror" in on:
        made["mirror"] = {"to": "upstreams/copies"}
    if "early hints" in on:
        made["early_hints"] = "</site.css>; rel=preload; as=style"
    if "X-Accel" in on:
        made["internal"] = {"/protected/": "routes/protected"}
    return made


def routes(on, place):
    """front → guarded → asked → content: each part that applies before the action is a step on the way."""
    front, guarded, asked = {"pass": "routes/guarded"}, {"pass": "routes/asked"}, {"pass": "routes/content"}
    if "limits" in on:
        front["limit"] = [{"key": "$header_x_limit", "rate": "1r/h", "burst": 1}, {"key": "$header_x_slot", "concurrent": 1}]
    if "guards" in on:
        guarded["authenticate"] = {"basic": {"users": HASHES, "field": "Remote-User"}}
    if "forward-auth" in on:
        asked["authenticate"] = {"forward": {"pass": "applications/site", "uri": "/auth", "copy": ["Remote-User"]}}
    made = {
        "front": [{"action": front}],
        "guarded": [{"action": guarded}],
        "asked": [{"action": asked}],
        "content": [
            {"match": {"uri": "/files/*"}, "action": {"share": f"{place.folder}$uri"}},
            {"match": {"uri": "/nowhere"}, "action": {"return": 404}},
            {"match": {"host": UPSTREAM_HOST}, "action": content(on, "upstreams/site")},
            {"action": content(on, "applications/site")},
        ],
    }
    if "rewrite" in on:
        made["front"].insert(0, {"match": {"uri": "~^/old/(?<rest>.*)$"}, "action": front | {"rewrite": "/page/$match_rest"}})
    if "spooler" in on:
        made["content"].insert(0, {"match": {"uri": "/jobs/*"}, "action": {"pass": "spoolers/jobs"}})
    if "missing module" in on:
        made["content"].insert(0, {"match": {"uri": "/other"}, "action": {"pass": "applications/other"}})
    if "X-Accel" in on:
        made["protected"] = [{"action": {"share": f"{place.folder}$uri", "chroot": f"{place.folder}/protected/"}}]
    return made


def listeners(on, place):
    """One without TLS, and one with it and HTTP/3."""
    common = {"pass": "routes/front"}
    if "error pages" in on:
        common["error_pages"] = {
            "401": {"share": f"{place.folder}/errors/401.html"}, "404": {"share": f"{place.folder}/errors/404.html"},
            "429": {"share": f"{place.folder}/errors/429.html"}, "5xx": {"pass": "applications/site", "rewrite": "/sorry"}}
        common["intercept_errors"] = True
    if "forwarded" in on:
        common["forwarded"] = {"source": [FORWARDER_ADDRESS], "client_ip": "X-Forwarded-For", "protocol": "X-Forwarded-Proto"}
    plain, secure = dict(common), common | {"tls": {"certificate": {"file": str(place.certificate)}}}
    if "PROXY protocol" in on:
        plain["proxy_protocol"] = {"source": [PROXY_ADDRESS]}
    if "HTTP/3" in on:
        secure["http3"] = {"early_data": True} if "early data" in on else True
    if "HTTP/2" not in on:
        plain["http2"] = secure["http2"] = False
    return {f"127.0.0.1:{place.plain}": plain, f"127.0.0.1:{place.secure}": secure}


def configure(on, place, generation):
    """The whole configuration; the generations differ in the field `Server` of responses."""
    # Slow clients read nothing while all events happen.
    http = {"early_hints": "always", "server_version": generation % 2 == 1, "send_timeout": 300}
    made = {
        "listeners": listeners(on, place), "routes": routes(on, place), "applications": {"site": application(on, place)},
        "settings": {"http": http}, "access_log": {"path": str(place.access_log), "format": LOG_FORMAT},
    }
    server = {"servers": {f"127.0.0.1:{place.origin}": {}}, "forwarded_headers": "x-forwarded"}
    made["upstreams"] = {"site": server}
    if "compression" in on:
        http["compression"] = {"compressors": [{"encoding": "gzip", "min_length": 500}]}
    if "cache" in on:
        made["settings"]["cache"] = {"pages": {}}
    if "mirror" in on:
        made["upstreams"]["copies"] = {"servers": {f"127.0.0.1:{place.copies}": {}}}
    if "spooler" in on:
        made["spoolers"] = {"jobs": {"pass": "applications/site", "backoff": 0.1}}
    if "schedules" in on:
        made["schedules"] = {"tick": {"every": 1, "pass": "applications/site", "uri": "/tick"}}
    if "slow log" in on:
        made["slow_log"] = {"path": str(place.slow_log), "threshold": 0.1, "format": "json"}
    if "missing module" in on:
        made["applications"]["other"] = {"type": "cgi", "root": str(place.folder / "cgi"), "script": "other"}
    return made
