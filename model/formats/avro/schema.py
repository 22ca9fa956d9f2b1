"""An Avro schema: from record bytes to JSON, by fastavro, and from a key's JSON to record bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import orjson
from fastavro import _read_py as plain_reader
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import fingerprint, to_parsing_canonical_form

from model.formats.avro.binary import to_binary
from model.formats.avro.texts import PREFIX, TO_NUMBER

_MAX_DEPTH = 100  # of a schema, and of a value; orjson writes 254
_NAMED = ("record", "error", "enum", "fixed")
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_AS_TEXT = {"float": "number", "double": "number", "bytes": "base64"}


class AvroSchema:
    """A schema in JSON; `references`: those whose named types it uses, each before who uses it.

    ValueError if it is none, or cannot be served.
    """

    def __init__(self, text: str | bytes, references: Sequence[str] = ()) -> None:
        named: dict[str, Any] = {}
        try:
            for reference in references:
                parse_schema(orjson.loads(reference), named_schemas=named)
            parsed = parse_schema(orjson.loads(text), named_schemas=named)
            walked = _Walk(named)
            root = walked.node(parsed, 0)
            # of what the schema says of itself, the part that says how its bytes are read
            self.fingerprint: str = fingerprint(to_parsing_canonical_form(root), "CRC-64-AVRO")
            # one field has the very bytes of the record around it, and any schema can be a field
            self._reader = parse_schema(
                {"type": "record", "name": "_", "fields": [{"name": "v", "type": root}]}
            )
        except Exception as e:  # fastavro's own, KeyError, TypeError, …: whatever a file may hold
            raise ValueError(f"not an Avro schema that can be served: {e}") from None
        self._root = root
        self._named = walked.defined
        self._recursive = walked.recursive
        self.definition: Any = orjson.loads(text)

    def decode(self, raw: bytes) -> Any:
        """The value in its JSON form; ValueError unless `raw` is just one value."""
        read = io.BytesIO(raw)
        # the compiled reader ends the process where a value is nested too deep
        reader = plain_reader.schemaless_reader if self._recursive else schemaless_reader
        try:
            found: Any = reader(read, self._reader, None)
        except Exception as e:
            raise ValueError(f"not Avro of the schema: {type(e).__name__}: {e}") from None
        if read.tell() != len(raw):
            raise ValueError(
                f"not Avro of the schema: {len(raw) - read.tell()} bytes are left over"
            )
        return found["v"]

    def check(self, raw: bytes) -> None:
        """ValueError unless `to_json` will do."""
        value = self.decode(raw)
        if self._recursive and _is_deep(value, _MAX_DEPTH):
            raise ValueError(f"more than {_MAX_DEPTH} levels")

    def to_json(self, raw: bytes) -> bytes:
        return orjson.dumps(self.decode(raw))

    def from_json(self, document: bytes) -> bytes:
        """Avro's bytes of a JSON document as `to_json` writes it; ValueError."""
        try:
            value = orjson.loads(document)
        except orjson.JSONDecodeError as e:
            raise ValueError(f"not JSON: {e}") from None
        try:
            return to_binary(self._root, self._named, value)
        except RecursionError:
            raise ValueError("nested too deep") from None


def _is_deep(value: Any, levels: int) -> bool:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return not levels or any(_is_deep(each, levels - 1) for each in inner)
    return False


class _Walk:
    """Writes a parsed schema again: all it needs within it, and each type that JSON has no form for
    marked with the reader that writes its text."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._open: set[str] = set()
        self.defined: dict[str, Any] = {}
        self.recursive = False

    def node(self, node: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError(f"more than {_MAX_DEPTH} levels")
        if isinstance(node, list):
            return [self.node(branch, depth + 1) for branch in node]
        if isinstance(node, str):
            return self._reference(node, depth) if node not in _PRIMITIVES else _plain(node)
        kind = node["type"]
        if isinstance(kind, dict | list):
            return self.node(kind, depth + 1)
        if kind == "array":
            items = self.node(node["items"], depth + 1)
            if self._is_empty(items):
                raise ValueError("an array whose items have no bytes could be of any length")
            return {"type": "array", "items": items}
        if kind == "map":
            return {"type": "map", "values": self.node(node["values"], depth + 1)}
        if kind in _NAMED:
            return self._definition(node, depth)
        if kind not in _PRIMITIVES:
            return self._reference(kind, depth)
        return _logical(node)

    def _reference(self, name: str, depth: int) -> Any:
        if name in self.defined:
            self.recursive = self.recursive or name in self._open
            return name
        return self._definition(self._named[name], depth)

    def _definition(self, node: dict[str, Any], depth: int) -> Any:
        name, kind = node["name"], node["type"]
        if name in self.defined:
            return self._reference(name, depth)
        written: dict[str, Any] = {"type": kind, "name": name}
        self.defined[name] = written
        if kind == "enum":
            written["symbols"] = node["symbols"]
        elif kind == "fixed":
            written["size"] = node["size"]
            written |= _logical(node)
        else:
            self._open.add(name)
            written["fields"] = [
                {"name": field["name"], "type": self.node(field["type"], depth + 1)}
                for field in node["fields"]
            ]
            self._open.discard(name)
        return written

    def _is_empty(self, node: Any) -> bool:
        """Whether a value may have no bytes at all."""
        if isinstance(node, list):
            return False
        if isinstance(node, str):
            return node == "null" or (node in self.defined and self._is_empty(self.defined[node]))
        if node["type"] == "fixed":
            return bool(node["size"] == 0)
        if node["type"] in ("record", "error"):
            # one that is being written yet holds itself, in the array that is asked about
            return "fields" in node and all(self._is_empty(each["type"]) for each in node["fields"])
        return bool(node["type"] == "null")


def _plain(kind: str) -> Any:
    return {"type": kind, "logicalType": PREFIX + _AS_TEXT[kind]} if kind in _AS_TEXT else kind


def _logical(node: dict[str, Any]) -> dict[str, Any]:
    """A primitive or fixed type with the reader of its text, if it has one."""
    kind, name = node["type"], node.get("logicalType")
    if name == "decimal" and kind in ("bytes", "fixed"):
        return {"type": kind, "logicalType": f"{PREFIX}decimal", "scale": node.get("scale", 0)}
    if kind == "fixed":
        uuid = name == "uuid" and node["size"] == 16
        return {"type": kind, "logicalType": PREFIX + ("uuid" if uuid else "base64")}
    if f"{kind}-{name}" in TO_NUMBER:
        return {"type": kind, "logicalType": f"{PREFIX}{name}"}
    plain = _plain(kind)
    return plain if isinstance(plain, dict) else {"type": kind}
