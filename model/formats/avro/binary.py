"""Encodes JSON, in the form of `schema.AvroSchema`, as Avro binary: for keys in a URL.

A key is looked up by its bytes, so an ambiguous encoding is an error: a value that matches more
than one branch of a union. Arrays and maps are one block, as common writers encode them.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from model.formats.avro.texts import PREFIX, TO_NUMBER, from_base64, to_float, to_unscaled

Named = Mapping[str, Any]

_BITS = {"int": 31, "long": 63}


def to_binary(node: Any, named: Named, value: Any) -> bytes:
    """The encoding of `value`; `node` is a schema from `schema.AvroSchema`. Raises ValueError."""
    if isinstance(node, list):
        return _union(node, named, value)
    if isinstance(node, str):
        node = named.get(node) or {"type": node}
    return _WRITERS[node["type"]](node, named, value)


def _union(branches: list[Any], named: Named, value: Any) -> bytes:
    fitting = []
    reason = ""
    for index, branch in enumerate(branches):
        try:
            fitting.append(_long(index) + to_binary(branch, named, value))
        except ValueError as e:
            reason = str(e)
    if not fitting:
        raise ValueError(f"matches no branch of the union (the last branch: {reason})")
    if len(fitting) > 1:
        raise ValueError(
            "matches more than one branch of a union: send its bytes, with encoding=base64url"
        )
    return fitting[0]


def _null(node: Any, named: Named, value: Any) -> bytes:
    if value is not None:
        raise ValueError("not null")
    return b""


def _boolean(node: Any, named: Named, value: Any) -> bytes:
    if not isinstance(value, bool):
        raise ValueError("not true or false")
    return b"\1" if value else b"\0"


def _integer(node: Any, named: Named, value: Any) -> bytes:
    kind = node["type"]
    logical = node.get("logicalType", "").removeprefix(PREFIX)
    if logical:
        value = TO_NUMBER[f"{kind}-{logical}"](_text(value))
    elif isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("not a whole number")
    if not -(1 << _BITS[kind]) <= value < 1 << _BITS[kind]:
        raise ValueError(f"out of the range of {kind}")
    return _long(value)


def _float(node: Any, named: Named, value: Any) -> bytes:
    try:
        return struct.pack("<f" if node["type"] == "float" else "<d", to_float(value))
    except OverflowError:
        raise ValueError(f"out of the range of {node['type']}") from None


def _bytes(node: Any, named: Named, value: Any) -> bytes:
    if node["logicalType"] == f"{PREFIX}decimal":
        unscaled = to_unscaled(_text(value), node["scale"])
        size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
        raw = unscaled.to_bytes(size, "big", signed=True)
    else:
        raw = from_base64(_text(value))
    return _long(len(raw)) + raw


def _fixed(node: Any, named: Named, value: Any) -> bytes:
    text, size = _text(value), node["size"]
    if node["logicalType"] == f"{PREFIX}decimal":
        try:
            return to_unscaled(text, node["scale"]).to_bytes(size, "big", signed=True)
        except OverflowError:
            raise ValueError(f"a decimal that needs more than {size} bytes") from None
    raw = uuid.UUID(text).bytes if node["logicalType"] == f"{PREFIX}uuid" else from_base64(text)
    if len(raw) != size:
        raise ValueError(f"{len(raw)} bytes, not {size}")
    return raw


def _string(node: Any, named: Named, value: Any) -> bytes:
    raw = _text(value).encode()
    return _long(len(raw)) + raw


def _enum(node: Any, named: Named, value: Any) -> bytes:
    if value not in node["symbols"]:
        raise ValueError(f"not a symbol of the enum: {', '.join(node['symbols'])}")
    if node["symbols"].count(value) > 1:
        raise ValueError(
            "a symbol that the enum has twice: send its bytes, with encoding=base64url"
        )
    return _long(node["symbols"].index(value))


def _record(node: Any, named: Named, value: Any) -> bytes:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    names = [field["name"] for field in node["fields"]]
    if value.keys() != set(names):
        raise ValueError(f"not an object with exactly the fields {', '.join(names)}")
    parts = []
    for field in node["fields"]:
        try:
            parts.append(to_binary(field["type"], named, value[field["name"]]))
        except ValueError as e:
            raise ValueError(f"{field['name']}: {e}") from None
    return b"".join(parts)


def _array(node: Any, named: Named, value: Any) -> bytes:
    if not isinstance(value, list):
        raise ValueError("not an array")
    return _block([to_binary(node["items"], named, item) for item in value])


def _map(node: Any, named: Named, value: Any) -> bytes:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return _block(
        [
            _string(None, named, name) + to_binary(node["values"], named, item)
            for name, item in value.items()
        ]
    )


def _block(items: list[bytes]) -> bytes:
    return b"".join((_long(len(items)), *items, b"\0")) if items else b"\0"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not text")
    return value


def _long(number: int) -> bytes:
    """Zigzag encoding, seven bits per byte, least significant first."""
    remaining = (number << 1) ^ (number >> 63)
    written = bytearray()
    while remaining > 0x7F:
        written.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    written.append(remaining)
    return bytes(written)


_WRITERS: dict[str, Callable[[Any, Named, Any], bytes]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _float,
    "double": _float,
    "bytes": _bytes,
    "fixed": _fixed,
    "string": _string,
    "enum": _enum,
    "record": _record,
    "error": _record,
    "array": _array,
    "map": _map,
}
