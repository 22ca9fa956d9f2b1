"""Parses Avro schemas as leniently as registries and other libraries do.

A reader of records needs names, types, sizes and symbols only. What it does not need cannot make a
schema unreadable: a logical type that is not valid is ignored, as the specification demands, and so
are defaults and aliases that are not valid, and documentation.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

Named = dict[str, dict[str, Any]]
"""The definitions of named types, by full name."""

MAX_DEPTH = 100  # levels of a schema, and of a value; orjson's limit is 254

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_RECORDS = ("record", "error")
_MAX_INT = 2**31 - 1  # Java's precision and scale are ints
_MAX_SCALE = 4000  # a few bytes of a schema must not become megabytes in each value
_INSTANTS = [
    f"long-{local}timestamp-{unit}"
    for local in ("", "local-")
    for unit in ("millis", "micros", "nanos")
]
_LOGICAL_TYPES = {"int-date", "int-time-millis", "long-time-micros", "string-uuid", *_INSTANTS}
# a string, which may contain what looks like a comment; or a comment, perhaps without an end
_TEXT_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)


def schema_json(text: str | bytes) -> Any:
    """The JSON document of a schema, which orjson can write. Raises ValueError.

    Comments and a byte order mark are removed: Avro's Java library accepts comments, and Windows
    editors write the mark. Text that is not Unicode and numbers beyond 64 bits can only be in parts
    that no reader needs.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    if isinstance(text, bytes):
        text = text.decode()
    document = json.loads(
        _TEXT_OR_COMMENT.sub(lambda match: match[1] or " ", text.removeprefix("\ufeff")),
        parse_int=lambda digits: int(digits) if len(digits) < 19 else None,
        parse_float=lambda digits: number if math.isfinite(number := float(digits)) else None,
    )
    return orjson.loads(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))


def parse(schema: Any, named: Named) -> Any:
    """The schema with full names. Adds the named types to `named`; others refer to their names.

    `named`: types that the schema may use. Raises ValueError, KeyError or TypeError if the schema
    is malformed.
    """
    return _Parser(schema, named).node(schema, "", 0)


def parse_all(text: str | bytes, references: Sequence[str]) -> tuple[Named, Any]:
    """The named types and the schema. `references`: the schemas that it uses, in dependency order.

    Raises the same errors as `parse`.
    """
    named: Named = {}
    for reference in references:
        parse(schema_json(reference), named)
    return named, parse(schema_json(text), named)


class _Parser:
    def __init__(self, schema: Any, named: Named) -> None:
        self._named = named
        # a name may be used before its definition
        self._names = set(named).union(_names(schema, "", 0))

    def node(self, node: Any, namespace: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} levels")
        if isinstance(node, list):
            return [self.node(branch, namespace, depth + 1) for branch in node]
        if isinstance(node, str):
            return node if node in PRIMITIVES else self._full_name(node, namespace)
        if not isinstance(node, dict):
            raise ValueError(f"{node} is not a type")
        kind = node["type"]
        if not isinstance(kind, str):
            return self.node(kind, namespace, depth + 1)
        if kind == "array":
            return {"type": kind, "items": self.node(node["items"], namespace, depth + 1)}
        if kind == "map":
            return {"type": kind, "values": self.node(node["values"], namespace, depth + 1)}
        if kind in PRIMITIVES:
            logical = _logical_type(node, kind, 0)
            return {"type": kind, **logical} if logical else kind
        if kind not in (*_RECORDS, "enum", "fixed"):
            return self._full_name(kind, namespace)
        return self._define(node, kind, namespace, depth)

    def _full_name(self, name: str, namespace: str) -> str:
        qualified = f"{namespace}.{name}"
        if "." not in name and namespace and qualified in self._names:
            return qualified
        if name not in self._names:
            raise ValueError(f"the type {name} is not defined")
        return name

    def _define(self, node: dict[str, Any], kind: str, namespace: str, depth: int) -> str:
        name, namespace = names_of(node, namespace)
        definition: dict[str, Any] = {"type": kind, "name": name}
        if kind == "enum":
            definition["symbols"] = _strings(node["symbols"], "symbols")
            if node.get("default") in definition["symbols"]:
                definition["default"] = node["default"]
        elif kind == "fixed":
            size = node["size"]
            if type(size) is not int or size < 0:
                raise ValueError(f"{name}: the size is not a whole number")
            definition |= {"size": size, **_logical_type(node, kind, size)}
        else:
            definition["fields"] = [
                self._field(field, namespace, depth) for field in node.get("fields", ())
            ]
        _keep_aliases(node, definition)
        existing = self._named.setdefault(name, definition)
        if existing != definition:
            raise ValueError(f"the type {name} is defined twice, and differently")
        return name

    def _field(self, field: Any, namespace: str, depth: int) -> dict[str, Any]:
        name = field["name"]
        if not isinstance(name, str):
            raise ValueError(f"a field's name is not text: {name}")
        kept = {"name": name, "type": self.node(field["type"], namespace, depth + 1)}
        if "default" in field:
            kept["default"] = field["default"]
        _keep_aliases(field, kept)
        return kept


def named_types(document: Any) -> Iterator[str]:
    """The full names of the types that a schema, as JSON, defines. Raises ValueError."""
    return _names(document, "", 0)


def _names(node: Any, namespace: str, depth: int) -> Iterator[str]:
    """As `named_types`, within a namespace."""
    if depth > MAX_DEPTH:
        raise ValueError(f"more than {MAX_DEPTH} levels")
    if isinstance(node, list):
        inner = node
    elif isinstance(node, dict):
        kind = node.get("type")
        if kind in ("enum", "fixed", *_RECORDS):
            name, namespace = names_of(node, namespace)
            yield name
        inner = [node.get("items"), node.get("values")]
        inner += [
            field.get("type") for field in node.get("fields") or () if isinstance(field, dict)
        ]
        inner += [] if isinstance(kind, str) else [kind]
    else:
        return
    for part in inner:
        yield from _names(part, namespace, depth + 1)


def names_of(node: dict[str, Any], namespace: str) -> tuple[str, str]:
    """The full name of a type, and the namespace of names within it."""
    name = node.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError(f"a type {node['type']} has no name")
    if "." in name:
        return name, name.rpartition(".")[0]
    own = node.get("namespace")
    if isinstance(own, str):
        namespace = own
    return f"{namespace}.{name}" if namespace else name, namespace


def _strings(value: Any, field: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{field} is not a list of strings")
    return value


def _keep_aliases(node: dict[str, Any], kept: dict[str, Any]) -> None:
    aliases = node.get("aliases")
    if isinstance(aliases, list) and all(isinstance(alias, str) for alias in aliases):
        kept["aliases"] = aliases


def _logical_type(node: dict[str, Any], kind: str, size: int) -> dict[str, Any]:
    """The fields of the logical type; empty if it is not valid."""
    name = node.get("logicalType")
    if name == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = node.get("precision"), node.get("scale", 0)
        is_valid = (
            type(precision) is int
            and type(scale) is int
            and 0 < precision <= _MAX_INT
            and 0 <= scale <= min(precision, _MAX_SCALE)
            and (kind == "bytes" or precision <= _digits(size))
        )
        return {"logicalType": name, "precision": precision, "scale": scale} if is_valid else {}
    is_known = kind == "fixed" and name == "uuid" and size == 16
    return {"logicalType": name} if is_known or f"{kind}-{name}" in _LOGICAL_TYPES else {}


def _digits(size: int) -> int:
    """The number of decimal digits that always fit in `size` bytes."""
    return math.floor((8 * size - 1) * math.log10(2)) if size else 0
