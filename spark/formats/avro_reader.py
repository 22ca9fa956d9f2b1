"""Reads and writes Avro of one schema, and reads data of other schemas as this one; uses
fastavro."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fastavro import schemaless_reader, schemaless_writer
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from model.formats.avro.fastavro_form import FIELD, compiled
from model.formats.avro.parsing import Named, parse_all
from model.formats.avro.schema import AvroSchema
from model.formats.schema_registry import RegisteredSchema
from spark.formats.avro_defaults import NO_DEFAULT, default_of

Decode = Callable[[bytes], Any]

_PRIMITIVES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "fixed": BinaryType(),
    "enum": StringType(),
}
_LOGICAL: dict[str, DataType] = {
    "int-date": DateType(),
    "long-timestamp-millis": TimestampType(),
    "long-timestamp-micros": TimestampType(),
    "long-local-timestamp-millis": TimestampNTZType(),
    "long-local-timestamp-micros": TimestampNTZType(),
}
_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_MAX_DIGITS = 38  # of a decimal in Spark


class AvroReader:
    """Reads records as Python values, as Arrow converts them to ``type``.

    Raises ValueError if the schema is malformed or has no Spark type. ``is_partial``: fields that
    have none are left out; ``left_out`` has their paths, with the reasons.
    """

    def __init__(self, schema: str, *, is_partial: bool = False) -> None:
        parsed = _parsed(schema, (), is_reader=True, is_partial=is_partial)
        self._named, self._root, self.left_out = parsed
        self.type = _type(self._root, self._named, "")
        self._compiled = compiled(self._root)
        self._decode = _decoder(self._compiled, None)
        if self.left_out:
            _, root, _ = _parsed(schema, (), is_reader=False)
            self._decode = _decoder(compiled(root), self._compiled)

    @property
    def is_record(self) -> bool:
        """Whether each value is a record, and none is null."""
        return isinstance(self.type, StructType) and not isinstance(self._root, list)

    def decode(self, raw: bytes) -> Any:
        """Decodes a value of this schema. Raises ValueError unless ``raw`` is exactly one value."""
        return self._decode(raw)

    def encode(self, value: Any) -> bytes:
        """The inverse of ``decode``. Raises ValueError if the value does not fit the schema."""
        written = io.BytesIO()
        try:
            schemaless_writer(written, self._compiled, {FIELD: value}, strict_allow_default=True)
        except Exception as e:  # fastavro's own, TypeError, KeyError, …
            raise ValueError(f"does not fit the Avro schema: {type(e).__name__}: {e}") from None
        return written.getvalue()

    def written_with(self, schema: RegisteredSchema) -> Decode:
        """A function that reads values of a writer's schema as values of this schema."""
        if schema.format.name != "avro":
            raise ValueError(f"the schema is {schema.format.name}, not avro")
        references = [text for _, text in schema.references]
        named, root, _ = _parsed(schema.text, references, is_reader=False)
        _check_logical_types(root, named, self._root, self._named, "")
        decode = _decoder(compiled(root), self._compiled)
        if not isinstance(self.type, StructType) or not self.is_record:
            return decode
        names = self.type.names

        def in_order(raw: bytes) -> dict[str, Any]:
            record = decode(raw)
            return {name: record[name] for name in names}

        return in_order


def _decoder(writer: Any, reader: Any) -> Decode:
    def decode(raw: bytes) -> Any:
        read = io.BytesIO(raw)
        try:
            record: Any = schemaless_reader(read, writer, reader)
        except Exception as e:  # fastavro's own, EOFError, OverflowError, UnicodeDecodeError, …
            raise ValueError(f"does not match the Avro schema: {type(e).__name__}: {e}") from None
        if read.tell() != len(raw):
            trailing = len(raw) - read.tell()
            raise ValueError(f"does not match the Avro schema: {trailing} trailing bytes")
        return record[FIELD]

    return decode


@lru_cache(100)
def reader_of(schema: str, is_partial: bool = False) -> AvroReader:
    return AvroReader(schema, is_partial=is_partial)


def _parsed(
    schema: str, references: Sequence[str], *, is_reader: bool, is_partial: bool = False
) -> tuple[Named, Any, Mapping[str, str]]:
    """The definitions of named types, the schema, self-contained, and the fields that are left out
    with the reasons. Logical types without a Spark type are removed. ``is_reader``: whether columns
    are made of it. Raises ValueError."""
    # refuses what could be nested without limit, or large without bytes
    AvroSchema(schema, references)
    parsed, root = parse_all(schema, references)
    walk = _Walk(parsed, is_reader, is_partial)
    return walk.named, walk.node(root, ""), walk.left_out


class _Walk:
    """Rewrites a parsed schema; see ``_parsed``."""

    def __init__(self, parsed: Named, is_reader: bool, is_partial: bool) -> None:
        self._parsed = parsed
        self._is_reader = is_reader
        self._is_partial = is_partial
        self._open: set[str] = set()
        self.named: Named = {}
        self.left_out: dict[str, str] = {}

    def node(self, node: Any, path: str) -> Any:
        if isinstance(node, list):
            if any(isinstance(branch, list) for branch in node):
                raise ValueError(f"{path or 'the schema'}: a union in a union")
            return [self.node(branch, path) for branch in node]
        if isinstance(node, str):
            return node if node in _PRIMITIVES or node == "null" else self._reference(node, path)
        kind = node["type"]
        if kind == "array":
            return {"type": kind, "items": self.node(node["items"], f"{path}[]")}
        if kind == "map":
            return {"type": kind, "values": self.node(node["values"], f"{path}[]")}
        return {"type": kind, **_logical(node)}

    def _reference(self, name: str, path: str) -> Any:
        """The definition of a named type at its first use, and the name at later uses."""
        if name in self._open and not self._is_reader:
            return name
        if name in self._open:
            raise ValueError(f"{path or name}: the type {name} contains itself")
        if name in self.named:
            return name
        node = self._parsed[name]
        kept = {"name", "aliases", "symbols", "size", "default"}
        written: dict[str, Any] = {attribute: node[attribute] for attribute in kept & node.keys()}
        written |= {"type": node["type"], **_logical(node)}
        self._open.add(name)
        if "fields" in node:
            written["fields"] = list(self._fields(node["fields"], path))
        self._open.discard(name)
        self.named[name] = written
        return written

    def _fields(self, fields: Iterable[dict[str, Any]], path: str) -> Iterator[dict[str, Any]]:
        for field in fields:
            known = set(self.named)
            try:
                written = self._field(field, path)
                if self._is_partial:
                    _type(written["type"], self.named, path)
            except ValueError as error:
                if not self._is_partial:
                    raise
                self.left_out[f"{path}.{field['name']}".lstrip(".")] = str(error)
                for name in self.named.keys() - known:
                    del self.named[name]  # a later field may define them
            else:
                yield written

    def _field(self, field: dict[str, Any], path: str) -> dict[str, Any]:
        path = f"{path}.{field['name']}".lstrip(".")
        written = {"name": field["name"], "type": self.node(field["type"], path)}
        if "aliases" in field:
            written["aliases"] = field["aliases"]
        if self._is_reader and "default" in field:
            default = default_of(written["type"], self.named, field["default"])
            # Java, too, ignores a default that does not fit its type, unless a record needs it
            if default is not NO_DEFAULT:
                if default is not None and self._is_converted(written["type"]):
                    raise ValueError(f"{path}: a default value of this type is not supported")
                written["default"] = default
        return written

    def _is_converted(self, node: Any) -> bool:
        """Whether values differ from their JSON form: fastavro returns defaults in that form."""
        if isinstance(node, str):
            node = self.named.get(node, {"type": node})
        if isinstance(node, list):
            return any(map(self._is_converted, node))
        parts = [field["type"] for field in node.get("fields", ())]
        parts += [node[name] for name in ("items", "values") if name in node]
        return (
            "logicalType" in node
            or node["type"] in ("bytes", "fixed")
            or any(map(self._is_converted, parts))
        )


def _logical(node: dict[str, Any]) -> dict[str, Any]:
    """The fields of a logical type that has a Spark type."""
    name, kind = node.get("logicalType"), node["type"]
    if name == "decimal":
        return {"logicalType": name, "precision": node["precision"], "scale": node["scale"]}
    return {"logicalType": name} if f"{kind}-{name}" in _LOGICAL else {}


def _type(node: Any, named: Named, path: str) -> DataType:
    """The Spark type. Raises ValueError if there is none."""
    _, node = _nullable(node, named)
    if node is None:
        raise ValueError(f"{path or 'the schema'}: a union of several types")
    kind = node["type"]
    if kind == "null":
        raise ValueError(f"{path or 'the schema'}: always null")
    if kind in ("record", "error"):
        fields = []
        for field in node["fields"]:
            inner = f"{path}.{field['name']}".lstrip(".")
            is_nullable, _ = _nullable(field["type"], named)
            spark_type = _type(field["type"], named, inner)
            fields.append(StructField(field["name"], spark_type, is_nullable))
        return StructType(fields)
    if kind == "array":
        contains_null, _ = _nullable(node["items"], named)
        return ArrayType(_type(node["items"], named, f"{path}[]"), contains_null)
    if kind == "map":
        contains_null, _ = _nullable(node["values"], named)
        values = _type(node["values"], named, f"{path}[]")
        return MapType(StringType(), values, contains_null)
    if "precision" in node:
        if node["precision"] > _MAX_DIGITS:
            raise ValueError(f"{path or 'the schema'}: a decimal of more than {_MAX_DIGITS} digits")
        return DecimalType(node["precision"], node["scale"])
    return _LOGICAL.get(f"{kind}-{node.get('logicalType')}", _PRIMITIVES[kind])


def _nullable(node: Any, named: Named) -> tuple[bool, dict[str, Any] | None]:
    """Whether null is allowed, and the only other type, or None if there are several."""
    branches = _branches(node, named)
    others = [branch for branch in branches if branch["type"] != "null"]
    has_null = len(others) < len(branches)
    if not others:
        return True, {"type": "null"}
    return has_null, others[0] if len(others) == 1 else None


def _branches(node: Any, named: Named) -> list[dict[str, Any]]:
    """The types of a union, or the only type, with the definitions of named types."""
    return [
        named.get(branch, {"type": branch}) if isinstance(branch, str) else branch
        for branch in (node if isinstance(node, list) else [node])
    ]


def _check_logical_types(
    writer: Any, writer_named: Named, reader: Any, reader_named: Named, path: str
) -> None:
    """Raises ValueError if the types mean different things: Avro itself would convert the number of
    a timestamp to a plain number, and the other way round."""
    _, reads = _nullable(reader, reader_named)
    if reads is None:
        return
    for wrote in _branches(writer, writer_named):
        # A record with another branch is malformed.
        if not _is_readable(wrote, reads):
            continue
        for name in ("items", "values"):
            if name in reads:
                nodes = wrote[name], writer_named, reads[name], reader_named
                _check_logical_types(*nodes, f"{path}[]")
        # as fastavro finds the fields
        by_name = {alias: field for field in reads.get("fields", ()) for alias in _aliases(field)}
        by_name |= {field["name"]: field for field in reads.get("fields", ())}
        for field in wrote.get("fields", ()):
            if (target := by_name.get(field["name"])) is not None:
                nodes = field["type"], writer_named, target["type"], reader_named
                _check_logical_types(*nodes, f"{path}.{target['name']}".lstrip("."))
        before, now = _meaning(wrote), _meaning(reads)
        if before != now:
            raise ValueError(f"{path or 'the schema'}: {before}, but the view reads {now}")


def _is_readable(wrote: dict[str, Any], reads: dict[str, Any]) -> bool:
    """Whether Avro converts values of one type to the other one."""
    if "name" in wrote and "name" in reads:
        names = {wrote["name"], wrote["name"].rpartition(".")[2]}
        return not names.isdisjoint({reads["name"].rpartition(".")[2], *_aliases(reads)})
    return reads["type"] in (wrote["type"], *_PROMOTIONS.get(wrote["type"], ()))


def _aliases(node: dict[str, Any]) -> Sequence[str]:
    aliases: Sequence[str] = node.get("aliases", ())
    return aliases


def _meaning(node: dict[str, Any]) -> str:
    if "precision" in node:
        return "decimal"
    spark_type = _LOGICAL.get(f"{node['type']}-{node.get('logicalType')}")
    return "no time or decimal" if spark_type is None else spark_type.simpleString()
