"""The declaration of a view's fields (`model.rows.declared_fields`), from a sample of values, and
from a schema if there is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from model.expressions.casts import cast_function
from model.expressions.types import DOUBLE, INT64_MAX, INT64_MIN, STRING, parse_field_type
from model.expressions.values import Read, reader
from model.rows.declared_fields import (
    DERIVE,
    MAX_FIELDS,
    REGISTRY,
    SCHEMA,
    DeclaredField,
    parse_declared_fields,
)
from model.toml_lines import table_name, toml_key
from queryable.cli.description.fields import (
    NULL,
    OBJECT,
    SampledField,
    sampled_fields,
    short_text,
)

_MAX_SAMPLED_FIELDS = 1000
_MAX_NAME_IN_COMMENT = 60
_READERS: dict[str, Read] = {
    "boolean": reader(parse_field_type("boolean")),
    # a sample does not show the greatest numbers, and some grow, such as seconds since 1970
    "int": reader(parse_field_type("int -1000000000..1000000000")),
    "long": reader(parse_field_type("long")),
    "double": reader(parse_field_type("double")),
    "time": reader(parse_field_type("time")),
    "string": reader(parse_field_type("string")),
    "strings": reader(parse_field_type("strings")),
    "longs": reader(parse_field_type("longs")),
}
"""The types that are inferred, and what reads their values. The first that reads all is chosen."""
_read_any = reader(parse_field_type("any"))
_read_map = reader(parse_field_type("map"))
_MIN_NAMES_OF_MAP = 20
_BY = {DERIVE: " by derive", SCHEMA: " by the schema", REGISTRY: " by the newest schema"}
_number_of_text = cast_function("try_cast double", STRING, DOUBLE)


@dataclass(frozen=True, slots=True)
class FieldDeclaration:
    """A field that the sample has, or that the view declares.

    `type`: as in views.toml; None if the field cannot be declared. `note`: why not; else what to
    know about it; may be empty. `values`: the number of values that have it, not null. `example`:
    one of them, as a short text. `declared`: the type that the view declares; None if none.
    `difference`: how the sample differs from that; empty if it does not. `declared_by`: as in
    `DeclaredField`.
    """

    path: tuple[str, ...]
    type: str | None
    note: str
    values: int
    example: str
    declared: str | None = None
    difference: str = ""
    declared_by: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the view declares it without a table."""
        return self.declared_by in (DERIVE, SCHEMA)

    @property
    def name(self) -> str:
        """As in conditions: a member whose name has a dot is in quotes."""
        return ".".join(toml_key(name) if "." in name or not name else name for name in self.path)

    def row(self) -> dict[str, Any]:
        """The row of the JSON output."""
        more = {
            "note": self.note,
            "declared": self.declared,
            "declared_by": self.declared_by,
            "difference": self.difference,
        }
        return {
            "name": self.name,
            "type": self.type,
            "values": self.values,
            "example": self.example,
            **{name: text for name, text in more.items() if text},
        }


@dataclass(frozen=True, slots=True)
class Declaration:
    """`total`: the number of sampled values. `others`: how many of them are not objects.
    `has_more`: whether the values have more fields than `fields`, which are bounded."""

    fields: list[FieldDeclaration]
    total: int
    others: int
    has_more: bool

    @property
    def differences(self) -> list[str]:
        """One text for each field whose values are not as declared."""
        return [
            f"{_shown(field)}: {field.difference}"
            for field in self.fields
            if field.difference and field.declared_by != REGISTRY
        ]

    @property
    def is_empty(self) -> bool:
        """Whether no field can be declared."""
        return not any(field.type for field in self.fields)

    def toml(self, view: str, schema: str = "") -> str:
        """The table for views.toml; only comments if no field can be declared there. `view`: its
        name in the file. `schema`: the name of a schema from which types are."""
        others = f", {self.others:,} of which are not objects" if self.others else ""
        values = "1 value" if self.total == 1 else f"{self.total:,} values"
        types = f"; types from {schema}" if schema else ""
        lines = [f"# a sample of {values}{others}{types}"]
        if any(field.type and not field.is_own for field in self.fields):
            lines.append(table_name("views", view, "fields"))
        lines += map(self._line, self.fields)
        if self.has_more:
            lines.append("# the values have more fields")
        return "\n".join(lines) + "\n"

    def _line(self, field: FieldDeclaration) -> str:
        notes = [field.difference, field.note]
        if field.is_own:
            text = field.difference or f'"{field.declared}"{_BY[field.declared_by]}'
            return f"# {_shown(field)}: {text}"
        if field.type is None:
            return f"# {_shown(field)}: {'; '.join(filter(None, notes))}"
        if not field.values and self.total:
            notes.append("in no value of the sample")
        elif field.declared_by == REGISTRY:
            pass  # its type says whether it may be missing
        elif field.values < self.total and not field.difference and field.type != field.declared:
            notes.append(f"in {field.values:,} of {self.total:,} values")
        comment = "; ".join(filter(None, notes))
        line = f'{toml_key(".".join(field.path))} = "{field.type}"'
        return f"{line}  # {comment}" if comment else line


def declaration_of(
    values: Sequence[Any], declared: Sequence[DeclaredField] = (), quotes_numbers: bool = False
) -> Declaration:
    """The declaration that fits the sampled values. What the view declares stays as it is written,
    if it fits, and what a schema has stays as it is. `quotes_numbers`: some numbers are texts of
    digits."""
    sample = sampled_fields(values, _MAX_SAMPLED_FIELDS)
    outer = {path for field in sample for path in _outer(field.path)}
    by_path = {
        field.path: _inferred(field, values, field.path in outer)
        for field in sample
        if field.path and not (field.path in outer and field.types.keys() <= {NULL, OBJECT})
    }
    by_path |= _maps(sample, values, declared)
    by_path |= {
        field.path: _compared(field, values, by_path.get(field.path), quotes_numbers)
        for field in declared
    }
    maps = {path for path, field in by_path.items() if field.type in ("map", "map?")}
    fields = [
        field
        for path, field in by_path.items()
        if field.declared is not None or maps.isdisjoint(_outer(path))
    ]
    others = sum(not isinstance(value, dict) for value in values)
    has_more = len(sample) == _MAX_SAMPLED_FIELDS
    in_table = sum(not field.declared_by for field in declared)
    return Declaration(_bounded(fields, in_table), len(values), others, has_more)


def _bounded(fields: Sequence[FieldDeclaration], declared: int) -> list[FieldDeclaration]:
    """The fields, without types for those that are too many for one table. `declared`: the number
    of those that the view declares, which all have their place."""
    free = MAX_FIELDS - declared
    bounded = []
    for field in fields:
        if field.declared is None and field.type is not None:
            if free == 0:
                field = replace(field, type=None, note=f"a table has up to {MAX_FIELDS} fields")
            else:
                free -= 1
                notes = ("not declared" if declared else "", field.note)
                field = replace(field, note="; ".join(filter(None, notes)))
        bounded.append(field)
    return bounded


def _inferred(field: SampledField, values: Sequence[Any], has_members: bool) -> FieldDeclaration:
    """`has_members`: whether it is an object with members in some values."""
    objects = 0
    if has_members or OBJECT in field.types:
        objects = sum(isinstance(_member(value, field.path), dict) for value in values)
    type_, note = None, _obstacle(field.path)
    if not note:
        type_ = None if has_members else _type_of(field.values)
        note = _reason(field, len(values), objects) if type_ is None else _hint(type_, field.values)
    count = len(field.values)
    if type_ is not None and count < len(values):
        type_ = f"{type_}?"
    return FieldDeclaration(field.path, type_, note, count, field.example)


def _maps(
    sample: Sequence[SampledField], values: Sequence[Any], declared: Sequence[DeclaredField]
) -> dict[tuple[str, ...], FieldDeclaration]:
    """Objects that are maps: each value has other names than most, and scalars under them."""
    numbers = Counter(field.path[:-1] for field in sample if len(field.path) > 1)
    with_declared = {path for field in declared for path in _outer(field.path)}
    maps = {}
    for path, names in numbers.items():
        if names < _MIN_NAMES_OF_MAP or path in with_declared or _obstacle(path):
            continue
        members = [member for value in values if (member := _member(value, path)) is not None]
        if any(_read_map(member) is None for member in members):
            continue
        if names * len(members) > 2 * sum(map(len, members)):
            type_ = "map" if len(members) == len(values) else "map?"
            note, example = f"{names:,} names of members", short_text(members[0])
            maps[path] = FieldDeclaration(path, type_, note, len(members), example)
    return maps


def _outer(path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The paths of the objects in which it is."""
    return [path[:depth] for depth in range(len(path))]


def _type_of(values: Sequence[Any]) -> str | None:
    if all(value == [] for value in values):
        return None
    for name, read in _READERS.items():
        if all(read(value) is not None for value in values):
            return name
    return None


def _reason(field: SampledField, total: int, objects: int) -> str:
    """Why the field has no type. `objects`: the number of values in which it is an object."""
    types = {name: number for name, number in field.types.items() if name not in (NULL, OBJECT)}
    if objects:
        types[OBJECT] = objects
    if not types:
        return "null in all values" if field.types[NULL] == total else "null in all that have it"
    if len(types) == 1:
        [name] = types
        if name in ("number", "integer"):
            return f"{name}, beyond the range of a double"
        is_empty = not any(field.values)
        return f"{name}, {'empty in all values' if is_empty else 'which has no type here'}"
    reason = f"several types: {', '.join(f'{number:,} {name}' for name, number in types.items())}"
    if objects or any(_read_any(value) is None for value in field.values):
        return reason
    return f'{reason}; "any{"?" if len(field.values) < total else ""}" reads them as text'


def _hint(type_: str, values: Sequence[Any]) -> str:
    if type_ == "string" and all(_number_of_text(value) is not None for value in values):
        return "numbers as text: try_cast(… as double)"
    is_long = any(type(value) is int and not INT64_MIN <= value <= INT64_MAX for value in values)
    return "whole numbers beyond 64 bits are rounded" if is_long else ""


def _obstacle(path: tuple[str, ...]) -> str:
    """Why a field with this path cannot be declared; empty if it can."""
    if any("." in name for name in path):
        return "a name with a dot cannot be declared"
    if not all(path):
        return "an empty name cannot be declared"
    name = ".".join(path)
    try:
        name.encode()
        parse_declared_fields({name: "string"})
    except UnicodeEncodeError:
        return "a name that is not UTF-8 text cannot be declared"
    except ValueError as error:
        return str(error)
    return ""


def _compared(
    field: DeclaredField,
    values: Sequence[Any],
    inferred: FieldDeclaration | None,
    quotes_numbers: bool,
) -> FieldDeclaration:
    """A declared field; with the type of the sample, if that differs from what a table has."""
    members = [member for value in values if (member := _member(value, field.path)) is not None]
    read = reader(field.type, quotes_numbers)
    wrong = [member for member in members if read(member) is None]
    missing = len(values) - len(members)
    example = short_text(members[0]) if members else ""
    type_: str | None = field.text
    note, differences = "", []
    if wrong:
        differences.append(
            f"{len(wrong):,} of {len(values):,} values are not, such as {short_text(wrong[0])}"
        )
        type_ = None if inferred is None else inferred.type
        note = "object, which has no type here" if inferred is None else inferred.note
    if missing and not field.type.optional:
        differences.append(f"{missing:,} of {len(values):,} values are missing or null")
        if not wrong:
            kind, *more = field.text.split(" ")
            type_ = " ".join([f"{kind}?", *more])
    by = _BY.get(field.declared_by, "")
    difference = f'declared as "{field.text}"{by}, but {", and ".join(differences)}'
    return FieldDeclaration(
        field.path,
        field.text if field.declared_by else type_,
        "" if field.declared_by else note,
        len(members),
        example,
        None if field.declared_by == REGISTRY else field.text,
        difference if differences else "",
        field.declared_by,
    )


def _member(value: Any, path: tuple[str, ...]) -> Any:
    """None if the value does not have it."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shown(field: FieldDeclaration) -> str:
    """The name in a comment or message: without control characters, and short."""
    text = ".".join(toml_key(name) for name in field.path)
    return text if len(text) <= _MAX_NAME_IN_COMMENT else f"{text[:_MAX_NAME_IN_COMMENT]}…"
