# SPDX-License-Identifier: Apache-2.0
"""Protocol Buffers' wire format, written field by field: files for tests of readers."""
import struct


def varint(v):
    v &= (1 << 64) - 1
    out = b""
    while True:
        out += bytes([(v & 0x7F) | (0x80 if v > 0x7F else 0)])
        v >>= 7
        if not v:
            return out


def field(number, value):
    """One field: an integer, a float (32 bits), a string, or bytes, which may be a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data
