"""A component in Python, of the world `wasi:http/proxy`, made by componentize-py."""

from componentize_py_types import Ok
from wit_world import exports
from wit_world.imports.types import (
    Fields,
    IncomingRequest,
    OutgoingBody,
    OutgoingResponse,
    ResponseOutparam,
)
from wit_world.imports.streams import StreamError_Closed
from componentize_py_types import Err


class IncomingHandler(exports.IncomingHandler):
    def handle(self, request: IncomingRequest, response_out: ResponseOutparam) -> None:
        path = request.path_with_query() or "/"
        if path == "/raise":
            raise ValueError("told to fail")
        received = read(request)
        text = f"Python: {path}, {len(received)} bytes\n".encode()
        response = OutgoingResponse(Fields.from_list([("content-type", b"text/plain")]))
        body = response.body()
        ResponseOutparam.set(response_out, Ok(response))
        with body.write() as stream:
            stream.blocking_write_and_flush(text)
        OutgoingBody.finish(body, None)


def read(request: IncomingRequest) -> bytes:
    received = b""
    body = request.consume()
    with body.stream() as stream:
        while True:
            try:
                received += stream.blocking_read(65536)
            except Err as error:
                if isinstance(error.value, StreamError_Closed):
                    return received
                raise
