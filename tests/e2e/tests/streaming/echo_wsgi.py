"""Echoes the body while it comes, by lines or by pieces, with WSGI."""


def application(environ, start_response):
    body = environ["wsgi.input"]
    read = body.readline if environ["PATH_INFO"] == "/lines" else body.read

    def pieces():
        try:
            while piece := read(8192):
                yield piece
        # The client may also be seen to have gone between two reads.
        except (OSError, GeneratorExit) as error:
            print("cut short:", error, file=environ["wsgi.errors"])
            raise

    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return pieces()
