"""Python's grpcio against gRPC's own test service: client.py ADDRESS up | down.

Messages are written by hand, so that nothing has to be generated: `grpc.testing.SimpleRequest` and kin of gRPC's test.proto.
"""

import sys
import threading

import grpc


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(message):
    """The fields of a message, the last of each number."""
    found, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        value = number()
        if key & 7 == 2:
            value, at = message[at : at + value], at + value
        found[key >> 3] = value
    return found


def payload(count):
    return field(2, bytes(count))


SERVICE = "/grpc.testing.TestService/"
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
channel = grpc.insecure_channel(sys.argv[1], options=OPTIONS)


def fails(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code(), error.details()
    raise AssertionError("no error")


def down():
    code, details = fails(lambda: channel.unary_unary(SERVICE + "EmptyCall")(b"", timeout=60))
    assert (code, details) == (grpc.StatusCode.UNAVAILABLE, "502 Bad Gateway"), (code, details)


def up():
    empty = channel.unary_unary(SERVICE + "EmptyCall")
    unary = channel.unary_unary(SERVICE + "UnaryCall")
    both = channel.stream_stream(SERVICE + "FullDuplexCall")
    assert empty(b"", timeout=60) == b""

    # Large messages both ways: `response_size` and `payload` of SimpleRequest.
    answer = unary(field(2, 5_000_000) + field(3, payload(3_000_000)), timeout=60)
    assert len(fields(fields(answer)[1])[2]) == 5_000_000

    # A server's stream, and a client's: StreamingOutputCallRequest, StreamingInputCallRequest.
    sizes = [31415, 9, 2653, 58979, 400_000]
    wish = b"".join(field(2, field(1, size)) for size in sizes)
    answers = channel.unary_stream(SERVICE + "StreamingOutputCall")(wish, timeout=60)
    assert [len(fields(fields(one)[1])[2]) for one in answers] == sizes
    sent = (field(1, payload(size)) for size in sizes)
    answer = channel.stream_unary(SERVICE + "StreamingInputCall")(sent, timeout=60)
    assert fields(answer)[1] == sum(sizes)

    # Both ways, each message after the answer to the one before.
    may_go = threading.Semaphore(1)

    def messages():
        for size in sizes:
            may_go.acquire()
            yield field(2, field(1, size)) + field(3, payload(10))

    received = []
    for answer in both(messages(), timeout=60):
        received.append(len(fields(fields(answer)[1])[2]))
        may_go.release()
    assert received == sizes, received

    # Errors, in the trailers: `response_status` of SimpleRequest.
    status = field(7, field(1, 9) + field(2, "na so was \u2603".encode()))
    code, details = fails(lambda: unary(status, timeout=60))
    assert (code, details) == (grpc.StatusCode.FAILED_PRECONDITION, "na so was \u2603"), (code, details)
    code, _ = fails(lambda: channel.unary_unary(SERVICE + "Missing")(b"", timeout=60))
    assert code == grpc.StatusCode.UNIMPLEMENTED, code

    # Metadata, before and behind.
    wishes = [("x-grpc-test-echo-initial", "first"), ("x-grpc-test-echo-trailing-bin", b"\xab\x00")]
    _, call = unary.with_call(field(2, 1), metadata=wishes, timeout=60)
    assert ("x-grpc-test-echo-initial", "first") in call.initial_metadata()
    assert ("x-grpc-test-echo-trailing-bin", b"\xab\x00") in call.trailing_metadata()

    # A deadline that passes, and a call that is taken back.
    slow = field(2, field(1, 1) + field(2, 30_000_000))
    code, _ = fails(lambda: list(both(iter([slow]), timeout=0.3)))
    assert code == grpc.StatusCode.DEADLINE_EXCEEDED, code
    call = both(iter([field(2, field(1, 1)), slow]), timeout=60)
    next(call)
    call.cancel()
    code, _ = fails(lambda: next(call))
    assert code == grpc.StatusCode.CANCELLED, code

    # Many at once.
    calls = [unary.future(field(2, 1000 + number), timeout=60) for number in range(300)]
    assert [len(fields(fields(call.result())[1])[2]) for call in calls] == list(range(1000, 1300))


{"up": up, "down": down}[sys.argv[2]]()
print("ok")
