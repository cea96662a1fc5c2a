"""As much of Protocol Buffers as a collector of OTLP needs: messages without their schema."""

import struct


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """{number: [values]} of a message; a value of length is bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        elif kind == 5:
            value, at = struct.unpack_from("<I", data, at)[0], at + 4
        elif kind == 2:
            length, at = _varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            raise ValueError(f"wire type {kind}")
        found.setdefault(key >> 3, []).append(value)
    return found


def _value(data):
    """An `AnyValue` of OTLP."""
    any_value = fields(data)
    for number, read in ((1, bytes.decode), (2, bool), (3, int)):
        if number in any_value:
            return read(any_value[number][0])
    return None


def _attributes(entries):
    found = {}
    for entry in entries:
        pair = fields(entry)
        found[pair[1][0].decode()] = _value(pair[2][0]) if 2 in pair else None
    return found


def spans(data):
    """The spans of an `ExportTraceServiceRequest` (opentelemetry/proto/trace/v1/trace.proto)."""
    for resource_spans in fields(data).get(1, []):
        message = fields(resource_spans)
        resource = _attributes(fields(message[1][0]).get(1, [])) if 1 in message else {}
        for scope_spans in message.get(2, []):
            for span in fields(scope_spans).get(2, []):
                span = fields(span)
                yield {"trace": span[1][0].hex(), "id": span[2][0].hex(), "parent": span.get(4, [b""])[0].hex(), "name": span[5][0].decode(),
                       "kind": span.get(6, [0])[0], "service": resource.get("service.name"), **_attributes(span.get(9, []))}
