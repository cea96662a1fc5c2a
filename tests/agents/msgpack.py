"""Reads MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md), which Datadog's tracers send."""

import struct

_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_LENGTHS = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}


def read(data, at=0):
    """(value, place behind it)."""
    kind, at = data[at], at + 1
    if kind < 0x80:
        return kind, at
    if kind >= 0xE0:
        return kind - 256, at
    if kind in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[kind], at
    if kind in _NUMBERS:
        return struct.unpack_from(_NUMBERS[kind], data, at)[0], at + struct.calcsize(_NUMBERS[kind])
    if kind in _LENGTHS:
        length, at = struct.unpack_from(_LENGTHS[kind], data, at)[0], at + struct.calcsize(_LENGTHS[kind])
    elif kind < 0xC0:
        length = kind & (0x1F if kind >= 0xA0 else 0x0F)
    else:
        raise ValueError(f"type {kind:#x}")
    if kind in (0xC4, 0xC5, 0xC6):
        return data[at:at + length], at + length
    if 0xA0 <= kind < 0xC0 or kind in (0xD9, 0xDA, 0xDB):
        return data[at:at + length].decode(errors="replace"), at + length
    if 0x90 <= kind < 0xA0 or kind in (0xDC, 0xDD):
        values = []
        for _ in range(length):
            value, at = read(data, at)
            values.append(value)
        return values, at
    found = {}
    for _ in range(length):
        key, at = read(data, at)
        found[key], at = read(data, at)
    return found, at
