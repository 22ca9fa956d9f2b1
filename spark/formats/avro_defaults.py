"""Default values of fields in Avro schemas."""

from __future__ import annotations

from typing import Any

from model.formats.avro.parsing import Named

NO_DEFAULT = object()
_BITS = {"int": 31, "long": 63}


def default_of(node: Any, named: Named, value: Any) -> Any:
    """The default value in the form that decoded records have; NO_DEFAULT if it does not fit the
    type."""
    try:
        return _default(node, named, value)
    except ValueError:
        return NO_DEFAULT


def _default(node: Any, named: Named, value: Any) -> Any:
    """As ``default_of``, but raises ValueError if the value does not fit the type."""
    if isinstance(node, list):
        return _union_default(node, named, value)
    if isinstance(node, str):
        node = named.get(node) or {"type": node}
    kind = node["type"]
    if kind == "null" and value is None:
        return None
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind in _BITS and type(value) is int and -(1 << _BITS[kind]) <= value < 1 << _BITS[kind]:
        return value
    if kind in ("float", "double") and type(value) in (int, float):
        return float(value)
    if kind in ("string", "bytes", "fixed") and isinstance(value, str):
        return value
    if kind == "enum" and value in node["symbols"]:
        return value
    if kind == "array" and isinstance(value, list):
        return [_default(node["items"], named, item) for item in value]
    if kind == "map" and isinstance(value, dict):
        return {name: _default(node["values"], named, item) for name, item in value.items()}
    if "fields" in node and isinstance(value, dict):
        return _record_default(node["fields"], named, value)
    raise ValueError(f"{value} is not of the type {kind}")


def _union_default(branches: list[Any], named: Named, value: Any) -> Any:
    for branch in branches:
        try:
            return _default(branch, named, value)
        except ValueError:
            continue
    raise ValueError(f"{value} is of no type of the union")


def _record_default(fields: list[dict[str, Any]], named: Named, value: dict[str, Any]) -> Any:
    record = {}
    for field in fields:
        name = field["name"]
        if name in value:
            record[name] = _default(field["type"], named, value[name])
        elif "default" in field:
            record[name] = field["default"]
        else:
            raise ValueError(f"{value} has no {name}")
    return record
