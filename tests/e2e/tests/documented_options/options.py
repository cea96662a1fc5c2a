"""Tells what the configuration made of this process; `/hold` answers when there is a file `go`."""

import json
import os
import sys
import time


def seen(path):
    work = os.environ["WORK"]
    if path == "/hold":
        open(f"{work}/at-{os.getpid()}", "w").close()
        while not os.path.exists(f"{work}/go"):
            time.sleep(0.01)
    print("to stdout", flush=True)
    print("to stderr", file=sys.stderr, flush=True)
    told = {"pid": os.getpid(), "uid": os.geteuid(), "gid": os.getegid(), "folder": os.getcwd(), "colour": os.environ.get("COLOUR"), "home": os.environ.get("HOME"),
            "root": os.listdir("/")}
    return json.dumps(told).encode()


def application(environ, start_response):
    if environ["PATH_INFO"] == "/where":
        body = f"{environ['SCRIPT_NAME']} {environ['PATH_INFO']}".encode()
    else:
        body = seen(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def either(*arguments):
    """An application of the one interface or of the other: only the configuration can tell."""
    if len(arguments) == 2:
        arguments[1]("200 OK", [("Content-Type", "text/plain")])
        return [b"wsgi"]
    return asynchronous(*arguments)


async def asynchronous(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"asgi"})


def main():
    """As a program that serves HTTP."""
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = seen(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()


if __name__ == "__main__":
    main()
