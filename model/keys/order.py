"""The values of a key as bytes that sort as the values do: null, then whole numbers, then text by
its UTF-8 bytes."""

from __future__ import annotations

import re

from model.keys.texts import Value

_NULL, _NUMBER, _TEXT = b"\x01", b"\x02", b"\x03"
_END = b"\0\x01"  # the end of a text, in which each 00 is written as 00 FF

# 127 bytes of a number have more digits
_WHOLE = re.compile(r"-?[1-9][0-9]{0,299}|0", re.ASCII)


def stored(values: tuple[Value, ...]) -> bytes:
    """Bytes that sort as the values do. The bytes of the leading values are a prefix."""
    return b"".join(map(_stored_value, values))


def values_in(stored_bytes: bytes) -> tuple[Value, ...]:
    """The inverse of `stored`."""
    values: list[Value] = []
    position = 0
    while position < len(stored_bytes):
        value, position = _value_in(stored_bytes, position)
        values.append(value)
    return tuple(values)


def _stored_value(value: Value) -> bytes:
    if value is None:
        return _NULL
    if _WHOLE.fullmatch(value):
        return _NUMBER + _stored_number(int(value))
    return _TEXT + value.encode().replace(b"\0", b"\0\xff") + _END


def _stored_number(number: int) -> bytes:
    """The length of the number with its sign, then its bytes: inverted for a negative number."""
    size = (abs(number).bit_length() + 7) // 8
    if number >= 0:
        return bytes((0x80 + size,)) + number.to_bytes(size, "big")
    return bytes((0x80 - size,)) + (number + (1 << 8 * size) - 1).to_bytes(size, "big")


def _value_in(raw: bytes, position: int) -> tuple[Value, int]:
    tag, position = raw[position : position + 1], position + 1
    if tag == _NULL:
        return None, position
    if tag == _NUMBER:
        size, position = raw[position] - 0x80, position + 1
        number = int.from_bytes(raw[position : position + abs(size)], "big")
        if size < 0:
            number -= (1 << 8 * -size) - 1
        return str(number), position + abs(size)
    end = raw.index(_END, position)
    return raw[position:end].replace(b"\0\xff", b"\0").decode(), end + len(_END)
