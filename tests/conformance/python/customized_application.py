"""Answers with the process that ran `sitecustomize`, as the module saw it when it was imported, and the process that serves."""

import builtins
import os

customized = getattr(builtins, "customized", None)


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"here" if customized == os.getpid() else b"%a" % customized]
