"""Jakarta WebSocket 2.2: the TCK's endpoints in the language host, and Jetty's client"""

from base import Case
from base.tck import Tck

VERSION = "jakarta-websocket-tck-2.2.0"
LEFT_OUT = {
    "com.sun.ts.tests.websocket.ee.jakarta.websocket.remoteendpoint.async.WSClientIT.sendTimeoutOnClientTest":
        "Jetty's client has 5 ms for a message, and closes the connection after that: the load of the machine decides",
    "com.sun.ts.tests.websocket.ee.jakarta.websocket.websocketmessage.WSClientIT.maxLengthFailsTest":
        "the test asks for the code of the close as soon as the text before it is there: the load of the machine decides",
}


def run(context):
    tck = Tck(context, "websocket-tck-2.2.0", "*.jar")
    # The tests are programs that use a client, too: that of the host's own Jetty.
    modules = context.dist / "modules/java"
    client = [jar for folder in ("ee11", "core") for jar in sorted((modules / folder).glob("*.jar")) if not jar.name.startswith("tutti-java")]
    cases = tck.run(tck.classes("IT"), {
        # Seconds that a test waits for a message.
        "ws_wait": 5,
        "lib.name": "websockettck",
        "porting.ts.url.class.1": "com.sun.ts.tests.websocket.lib.implementation.sun.common.SunRIURL",
    }, client)
    for case in cases:
        yield Case(case.name, "skip", LEFT_OUT[case.name]) if case.name in LEFT_OUT else case
