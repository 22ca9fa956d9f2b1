"""The bytes of index keys.

    0x03 · id of the index (2 B) · fields · stored key without its first byte  ►  size of the fields

The size (2 B) is where the stored key begins. A field:

    null, or a value of another type   00
    whole number, time (in µs)         01 · 8 B, with the sign bit flipped
    decimal                            01 · 8 B: units of its last digit, the sign bit flipped
    double                             01 · 8 B, ordered as keys of the format `float64`; -0.0 = 0.0
    boolean                            01 · 00 or 01
    string                             01 · up to 1,024 B of UTF-8, 00 as 00 FF · 00 00
    list, in a key for each element    the bytes of the element
    list that is null or empty         00
    list with too many elements        03

So the order of bytes is that of values, nulls first. Strings with the same first 1,024 bytes have
the same bytes. The fields of an entry whose value cannot be read are 02 alone: it may have any
values, so every look-up reads it. A look-up of an element also reads the lists with too many.

Source of the escaped strings: FoundationDB's tuple layer, as in `model.kinds.layout`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from model.expressions.types import (
    INT64_MAX,
    INT64_MIN,
    LISTS,
    Kind,
    Type,
    element_type,
    unscaled,
)
from model.expressions.values import Value
from model.kinds.layout import after
from model.records import ENTRY, INDEX

ENCODING = 1
"""The version of the bytes of index keys. If you change them, increase it: stores then build their
indexes again, also after a downgrade, and instances of both versions give no rows in one order."""
NULL, VALUE, UNREADABLE, MANY = b"\x00", b"\x01", b"\x02", b"\x03"
MAX_STRING = 1024
"""The bytes of a string that an index has."""
MAX_ELEMENTS = 100
"""Different elements of a list that has a key for each. More are `MANY`."""
SIZE = struct.Struct(">H")
_SIGN = 1 << 63
_ID = struct.Struct(">H")
MAX_ID = 0xFFFF
_HEAD = len(INDEX) + _ID.size
_DOUBLE = struct.Struct(">d")
_END = b"\x00\x00"
_TRUE, _FALSE = VALUE + b"\x01", VALUE + b"\x00"

Encode = Callable[[Value], bytes]
EncodeList = Callable[[Value], tuple[bytes, ...]]


def encoder(type_: Type) -> Encode:
    """A function from a value of this type, or None, to the bytes of a field."""
    if type_.kind is Kind.STRING:
        return _string
    if type_.kind is Kind.DOUBLE:
        return _double
    if type_.kind is Kind.BOOLEAN:
        return _boolean
    if type_.kind is Kind.DECIMAL:
        return partial(_decimal, type_.scale)
    return _whole_number


def list_encoder(type_: Type) -> EncodeList:
    """A function from a list of this type, or None, to the bytes of the field in each key."""
    encode = encoder(element_type(type_))

    def encode_list(value: Any) -> tuple[bytes, ...]:
        if not value:
            return (NULL,)
        elements = set(value)
        return (MANY,) if len(elements) > MAX_ELEMENTS else tuple(set(map(encode, elements)))

    return encode_list


def whole_number(number: int) -> bytes:
    """The bytes of a number of 64 bits."""
    return b"\x01%b" % (number + _SIGN).to_bytes(8, "big")


def _whole_number(value: Any) -> bytes:
    return NULL if value is None else whole_number(value)


def _decimal(scale: int, value: Any) -> bytes:
    return NULL if value is None else whole_number(unscaled(value, scale))


def _boolean(value: Any) -> bytes:
    return NULL if value is None else _TRUE if value else _FALSE


def _double(value: Any) -> bytes:
    if value is None or value != value:
        return NULL
    bits = int.from_bytes(_DOUBLE.pack(value or 0.0), "big")
    return VALUE + (bits ^ (_SIGN if bits < _SIGN else 2 * _SIGN - 1)).to_bytes(8, "big")


def _string(value: Any) -> bytes:
    if value is None:
        return NULL
    raw = value.encode("utf-8", "surrogatepass")
    if len(raw) > MAX_STRING or 0 in raw:
        raw = _escaped(raw)
    return b"\x01%b\x00\x00" % raw


def _escaped(raw: bytes) -> bytes:
    return raw[:MAX_STRING].replace(b"\x00", b"\x00\xff")


# Bounds of values. Each entry is compared with the whole condition, so a bound may be too wide, but
# never too narrow.


class Bounds(NamedTuple):
    """Bytes of fields from `low` (inclusive) to `high` (exclusive)."""

    low: bytes
    high: bytes


NOT_NULL = Bounds(VALUE, UNREADABLE)
UNREADABLE_FIELDS = Bounds(UNREADABLE, after(UNREADABLE))
"""The fields of entries whose values cannot be read: every look-up reads them."""


def equal(type_: Type, value: Value) -> bytes | None:
    """The bytes of all values that are equal to this one; None if these are not the bytes of one
    value, or not known. Of a list: those of its elements that are equal to this value."""
    low, high = _nearest(element_type(type_) if type_.kind in LISTS else type_, value)
    return low if low == high else None


def at_least(type_: Type, value: Value) -> bytes | None:
    """The least bytes of values that are not less than this one; None if they are not known."""
    return _nearest(type_, value)[0]


def at_most(type_: Type, value: Value) -> bytes | None:
    """The bytes after those of all values that are not greater than this one."""
    high = _nearest(type_, value)[1]
    return None if high is None else _after(type_, high)


def starts_with(prefix: str) -> Bounds:
    """The strings that start with this one."""
    escaped = VALUE + _escaped(prefix.encode("utf-8", "surrogatepass"))
    return Bounds(escaped, after(escaped))


def _nearest(type_: Type, value: Value) -> tuple[bytes | None, bytes | None]:
    """The bytes of the greatest value that is not greater than this one, or a lower one, and those
    of the least value that is not less, or a higher one. They are the same if it is a value of the
    type. None if it is not known."""
    kind = type_.kind
    if kind is Kind.STRING:
        both = _string(value) if type(value) is str else None
        return both, both
    if kind is Kind.BOOLEAN:
        both = _boolean(value) if type(value) is bool else None
        return both, both
    number: Any = value
    if type(number) not in (int, float, Decimal) or number - number != 0:  # not infinite
        return None, None
    if kind is Kind.DOUBLE:
        try:
            nearest = float(number)
        except OverflowError:
            return None, None
        if nearest == number or isinstance(number, Decimal):
            return _double(nearest), _double(nearest)
        low, high = math.nextafter(nearest, -math.inf), math.nextafter(nearest, math.inf)
        return _double(low), _double(high)
    if kind is Kind.DECIMAL:
        if isinstance(number, float):
            return None, None
        number = Fraction(number) * 10**type_.scale
    if kind is Kind.TIME and type(number) is not int:
        return None, None
    return whole_number(_within(math.floor(number))), whole_number(_within(math.ceil(number)))


def _within(number: int) -> int:
    return min(max(number, INT64_MIN), INT64_MAX)


def _after(type_: Type, field: bytes) -> bytes:
    """The least bytes that are greater than all fields with these bytes."""
    # longer strings with the same first bytes have the bytes of this one
    return after(field[:-2]) if type_.kind is Kind.STRING else after(field)


# Keys


def key_head(index_id: int) -> bytes:
    """The first bytes of all keys of an index."""
    return INDEX + _ID.pack(index_id)


def stored_key_of(index_key: bytes, size: bytes) -> bytes:
    """The stored key of the entry; `size`: the value of the index key."""
    return ENTRY + index_key[_HEAD + SIZE.unpack(size)[0] :]


def fields_of_key(index_key: bytes, size: bytes) -> bytes:
    """The bytes of the fields."""
    return index_key[_HEAD : _HEAD + SIZE.unpack(size)[0]]
