"""The application of seen.py that also writes a line for each request, for a server that runs it: `SEEN_LOG` names the file."""

import os

from seen import wsgi

LOG = open(os.environ["SEEN_LOG"], "ab", buffering=0)


def application(environ, start_response):
    told = wsgi(environ, start_response)
    LOG.write(b"".join(told))
    return told
