import os


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"wsgi {os.getuid()} {os.environ['PROMETHEUS_METRICS_EXPORT_PORT']}".encode()]
