"""Jakarta Servlet 6.1: the TCK's applications in the language host, whose redirects are made absolute, as the TCK takes them"""

from base import Case
from base.tck import Tck

VERSION = "jakarta-servlet-tck-6.1.2"
CERTIFICATE = "it needs a listener with TLS that asks for the TCK's client certificate: not run yet"
LEFT_OUT = {
    "servlet.tck.spec.security.clientcert.ClientCertTests": CERTIFICATE,
    "servlet.tck.spec.security.clientcertanno.ClientCertAnnoTests": CERTIFICATE,
}


def run(context):
    tck = Tck(context, "servlet-tck-6.1.2", "servlet-tck-*.jar")
    classes = [name for name in tck.classes("Test", "Tests") if name not in LEFT_OUT]
    yield from tck.run(classes, {"servlet.tck.support.crossContext": "false", "servlet.tck.support.http2Push": "false"})
    for name, reason in LEFT_OUT.items():
        yield Case(name, "skip", reason)
