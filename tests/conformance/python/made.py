"""Applications by factories."""


def create_app():
    def application(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"made: " + environ["SCRIPT_NAME"].encode() + b" " + environ["PATH_INFO"].encode()]
    return application


class Nested:
    app = staticmethod(create_app())


number = 7
