"""An Avro schema: decodes record bytes to JSON (by fastavro), encodes a key's JSON."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import orjson
from fastavro import _read_py as plain_reader
from fastavro import schemaless_reader
from fastavro.schema import fingerprint

from model.formats.avro.binary import to_binary
from model.formats.avro.fastavro_form import FIELD, canonical, compiled
from model.formats.avro.parsing import MAX_DEPTH, PRIMITIVES, Named, parse_all, schema_json
from model.formats.avro.texts import PREFIX, TO_NUMBER

_AS_TEXT = {"float": "number", "double": "number", "bytes": "base64"}

# Each number with more bytes than it needs, or with more than 32 bits, has such bytes. Other
# numbers may have them, too.
_ODD_NUMBER = re.compile(rb"[\x80-\xff](?:\0|[\x80-\xff]{3})")


class AvroSchema:
    """A parsed schema. `references`: the schemas whose named types it uses, in dependency order.

    Raises ValueError if it is malformed or not supported.
    """

    format: ClassVar[str] = "avro"

    def __init__(self, text: str | bytes, references: Sequence[str] = ()) -> None:
        try:
            named, parsed = parse_all(text, references)
            walked = _Walk(named)
            root = walked.node(parsed, 0)
            # from the canonical form, which only has what affects decoding
            self.fingerprint: str = fingerprint(canonical(root), "CRC-64-AVRO")
            self._reader = compiled(root)
        except Exception as e:  # KeyError, TypeError, RecursionError, …: a file may have anything
            raise ValueError(f"not a supported Avro schema: {_reason(e)}") from None
        # whether numbers are the only parts that can be encoded in several ways
        self._only_numbers = walked.kinds <= {"int", "long", "string", "record"}
        self._root = root
        self._named = walked.defined
        self._recursive = walked.recursive
        self.definition: Any = schema_json(text)

    def decode(self, raw: bytes) -> Any:
        """The value in its JSON form. Raises ValueError unless `raw` is exactly one value."""
        stream = io.BytesIO(raw)
        # the compiled reader crashes the process if a value is nested too deeply
        reader = plain_reader.schemaless_reader if self._recursive else schemaless_reader
        try:
            record: Any = reader(stream, self._reader, None)
        except Exception as e:
            raise ValueError(f"does not match the Avro schema: {type(e).__name__}: {e}") from None
        if stream.tell() != len(raw):
            raise ValueError(
                f"does not match the Avro schema: {len(raw) - stream.tell()} trailing bytes"
            )
        return record[FIELD]

    def check(self, raw: bytes) -> None:
        """Raises ValueError if `to_json` would fail."""
        value = self.decode(raw)
        if self._recursive and _is_deep(value, MAX_DEPTH):
            raise ValueError(f"more than {MAX_DEPTH} levels")

    def to_json(self, raw: bytes) -> bytes:
        return orjson.dumps(self.decode(raw))

    def value_of(self, raw: bytes) -> bytes:
        return raw

    def is_encoding_of(self, raw: bytes, document: bytes) -> bool:
        """Whether `raw`, whose JSON is `document`, is what `from_json` makes of it."""
        if self._only_numbers and not _ODD_NUMBER.search(raw):
            return True
        try:
            return self.from_json(document) == raw
        except ValueError:  # more than one branch of a union
            return False

    def from_json(self, document: bytes) -> bytes:
        """The Avro encoding of a JSON document in the form of `to_json`. Raises ValueError."""
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
        return not levels or any(_is_deep(item, levels - 1) for item in inner)
    return False


def _reason(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


class _Walk:
    """Rewrites a parsed schema: self-contained, and with a text reader for each type that JSON
    cannot express."""

    def __init__(self, named: Named) -> None:
        self._named = named
        self._open: set[str] = set()
        self.defined: dict[str, Any] = {}
        self.recursive = False
        self.kinds: set[str] = set()
        """The types of values; logical types with their names."""

    def node(self, node: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} levels")
        self.kinds.add(_kind_of(node))
        if isinstance(node, list):
            return [self.node(branch, depth + 1) for branch in node]
        if isinstance(node, str):
            return self._reference(node, depth) if node not in PRIMITIVES else _plain(node)
        kind = node["type"]
        if kind == "array":
            items = self.node(node["items"], depth + 1)
            if self._is_empty(items):
                raise ValueError("an array of items without bytes could have any length")
            return {"type": "array", "items": items}
        if kind == "map":
            return {"type": "map", "values": self.node(node["values"], depth + 1)}
        return _logical(node)

    def _reference(self, name: str, depth: int) -> Any:
        """The definition where a name is used first, and the name elsewhere."""
        if name in self.defined:
            self.recursive = self.recursive or name in self._open
            return name
        node = self._named[name]
        kind = node["type"]
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
        """Whether the encoding of a value may be empty."""
        if isinstance(node, list):
            return False
        if isinstance(node, str):
            return node == "null" or (node in self.defined and self._is_empty(self.defined[node]))
        if node["type"] == "fixed":
            return bool(node["size"] == 0)
        if node["type"] in ("record", "error"):
            # a record without fields yet is being written: it contains itself, in an array
            return "fields" in node and all(
                self._is_empty(field["type"]) for field in node["fields"]
            )
        return bool(node["type"] == "null")


def _kind_of(node: Any) -> str:
    """The type of a node, with its logical type, if it has one."""
    if isinstance(node, list):
        return "union"
    if isinstance(node, str):
        return node
    kind, logical = node["type"], node.get("logicalType")
    if not isinstance(kind, str):
        return "nested"
    return kind if logical is None else f"{kind}-{logical}"


def _plain(kind: str) -> Any:
    return {"type": kind, "logicalType": PREFIX + _AS_TEXT[kind]} if kind in _AS_TEXT else kind


def _logical(node: dict[str, Any]) -> dict[str, Any]:
    """A primitive or fixed type with its text reader, if it has one."""
    kind, name = node["type"], node.get("logicalType")
    if name == "decimal":
        return {"type": kind, "logicalType": f"{PREFIX}decimal", "scale": node["scale"]}
    if kind == "fixed":
        return {"type": kind, "logicalType": PREFIX + ("uuid" if name == "uuid" else "base64")}
    if f"{kind}-{name}" in TO_NUMBER:
        return {"type": kind, "logicalType": f"{PREFIX}{name}"}
    plain = _plain(kind)
    return plain if isinstance(plain, dict) else {"type": kind}
