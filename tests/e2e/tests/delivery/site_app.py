"""Leads to files, fails where the path says so, and returns what it was asked."""


def application(environ, start_response):
    path = environ["PATH_INFO"]
    fields = [("Content-Type", "text/plain")]
    status = "200 OK"
    body = f"{environ['REQUEST_METHOD']} {path}".encode()
    if path.startswith("/report/"):
        fields = [
            ("Content-Type", "application/pdf"),
            ("Set-Cookie", "seen=1"),
            ("X-Accel-Redirect", "/protected/" + path.removeprefix("/report/")),
        ]
        body = b"not this" * (300_000 if "long" in path else 1)
    elif path.startswith("/app/status/"):
        status = path.rsplit("/", 1)[1] + " Told"
        fields.append(("Retry-After", "9"))
    start_response(status, fields)
    return [body]
