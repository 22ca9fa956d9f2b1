"""The fields of a JSON Schema that a derived view can use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from model.expressions.types import (
    BOOLEAN,
    DOUBLE,
    INT64_MAX,
    INT64_MIN,
    STRING,
    TIME,
    Type,
    integer,
)
from model.formats.format import ENVELOPE, MAX_FIELD_LEVELS, NO_ROW_FIELDS, DeclaredField

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MAX_REFERENCES = 16
_UNIONS = ("oneOf", "anyOf")


def declared_fields(content: bytes, *, unwrap: bool = False) -> Iterator[DeclaredField]:
    """``unwrap``: the fields of the row in a change. Raises ValueError if it is not the schema of
    an object. Left out are arrays, values of several types, and names that are not those of fields.
    A property that is not required may be missing."""
    try:
        schema = json.loads(content)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"not JSON: {e}") from None
    node, _ = _resolved(schema, schema)
    if not isinstance(node.get("properties"), dict):
        raise ValueError("it is not the schema of an object with properties")
    if unwrap and node["properties"].keys() >= ENVELOPE:
        node, _ = _resolved(node["properties"]["after"], schema)
        if not isinstance(node.get("properties"), dict):
            raise ValueError(NO_ROW_FIELDS)
    yield from _properties(node, schema, (), (), False)


def _properties(
    node: Mapping[str, Any],
    root: Any,
    prefix: tuple[str, ...],
    within: tuple[int, ...],
    is_optional: bool,
) -> Iterator[DeclaredField]:
    """``within``: the ids of the objects that contain this one."""
    if len(prefix) >= MAX_FIELD_LEVELS or id(node) in within:
        return
    required = node.get("required")
    required = required if isinstance(required, list) else []
    for name, declared in node["properties"].items():
        if not _NAME.fullmatch(name):
            continue
        path = (*prefix, name)
        inner, may_be_null = _resolved(declared, root)
        may_be_null = may_be_null or is_optional or name not in required
        if isinstance(inner.get("properties"), dict):
            yield from _properties(inner, root, path, (*within, id(node)), may_be_null)
        elif (type_ := _type_of(inner)) is not None:
            yield path, type_.or_null(may_be_null)


def _resolved(node: Any, root: Any) -> tuple[Mapping[str, Any], bool]:
    """The schema without references and without null, and whether a value may be null. Empty if it
    allows several types."""
    may_be_null = False
    for _ in range(_MAX_REFERENCES):
        if not isinstance(node, dict):
            return {}, may_be_null
        union = next((key for key in _UNIONS if isinstance(node.get(key), list)), None)
        if "$ref" in node:
            node = _referenced(node["$ref"], root)
        elif union is not None:
            branches = [branch for branch in node[union] if branch != {"type": "null"}]
            may_be_null = may_be_null or len(branches) < len(node[union])
            node = branches[0] if len(branches) == 1 else None
        elif isinstance(node.get("type"), list):
            types = [type_ for type_ in node["type"] if type_ != "null"]
            may_be_null = may_be_null or len(types) < len(node["type"])
            return ({**node, "type": types[0]} if len(types) == 1 else {}), may_be_null
        else:
            return node, may_be_null
    return {}, may_be_null


def _referenced(reference: Any, root: Any) -> Any:
    """The part of the same file that ``#/…`` names; None if there is none."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    node = root
    for name in reference[2:].split("/"):
        if not isinstance(node, dict):
            return None
        node = node.get(name.replace("~1", "/").replace("~0", "~"))
    return node


def _type_of(node: Mapping[str, Any]) -> Type | None:
    match node.get("type"):
        case "string":
            return TIME if node.get("format") == "date-time" else STRING
        case "integer":
            low, high = node.get("minimum"), node.get("maximum")
            low = low if type(low) is int and low >= INT64_MIN else INT64_MIN
            high = high if type(high) is int and high <= INT64_MAX else INT64_MAX
            return integer(low, high) if low <= high else None
        case "number":
            return DOUBLE
        case "boolean":
            return BOOLEAN
    return None
