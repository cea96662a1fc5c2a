import os
import sys


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"netbox {sys.prefix} {os.getuid()}:{os.getgid()}".encode()]
