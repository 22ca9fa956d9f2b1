"""The fields that a view declares itself: by its table ``derive``, or by the schema of its values.

An entry of ``[views.NAME.fields]`` for such a field must have a type that reads its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from model.derive.reading import TableError
from model.derive.value_fields import value_fields
from model.expressions.types import AnyScalar, Kind, NumberTime, Type, parse_field_type
from model.expressions.types import text_of_field_type as text_of
from model.formats import format as formats
from model.formats.registry import format_of
from model.rows.debezium import AFTER, is_envelope
from model.rows.declared_fields import DERIVE, SCHEMA, DeclaredField, is_declarable

if TYPE_CHECKING:
    from model.views import View

MAX_OWN_FIELDS = 1000
"""Those after them are not declared."""
_BY = {DERIVE: "derive", SCHEMA: "the schema of the values"}
_NUMBERS = (Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL)
_TEXTS = (Kind.STRING, Kind.TIME)


def own_fields(view: View) -> tuple[DeclaredField, ...]:
    """The fields of a view without ``[views.NAME.fields]``, in the order of its values."""
    if view.derivation is not None and view.unwrap is None:
        has_objects = format_of(view.value).has_objects
        return declared(value_fields(view.derivation), DERIVE) if has_objects else ()
    if view.value_schema is None:
        return ()
    fields = format_of(view.value).json_fields(view.value_schema)
    return declared(row_fields(fields, view.unwrap), SCHEMA)


def row_fields(
    fields: Iterator[formats.DeclaredField], unwrap: str | None
) -> Iterator[formats.DeclaredField]:
    """The fields of rows, from those of the schema of values. ``unwrap``: see `RowRule`."""
    bounded = list(islice(fields, MAX_OWN_FIELDS))
    if unwrap is None or not is_envelope({path[0] for path, _ in bounded}):
        return iter(bounded)
    return ((path[1:], type_) for path, type_ in bounded if path[0] == AFTER and path[1:])


def declared(
    fields: Iterator[formats.DeclaredField], declared_by: str
) -> tuple[DeclaredField, ...]:
    """The fields that can be declared."""
    texts = (
        (path, text_of(type_))
        for path, type_ in islice(fields, MAX_OWN_FIELDS)
        if is_declarable(path)
    )
    return tuple(
        DeclaredField(path, text, parse_field_type(text), declared_by)
        for path, text in texts
        if text is not None
    )


def all_fields(view: View, table: Sequence[DeclaredField]) -> tuple[DeclaredField, ...]:
    """The fields of a view: those of its table, and its own. ``table``: the fields of
    ``[views.NAME.fields]``. Raises TableError if one has a type that does not fit."""
    own = own_fields(view)
    if not own or not table:
        return own or tuple(table)
    by_path = {field.path: field for field in own}
    objects = {path[:depth]: field for field in own for path in [field.path]
               for depth in range(1, len(path))}  # fmt: skip
    quotes_numbers = view.value_codec.quotes_numbers
    for field in table:
        known = by_path.get(field.path)
        outer = next(filter(None, map(by_path.get, _outer(field.path))), None)
        if known is not None and not _fits(field.type, known.type, quotes_numbers):
            raise TableError(
                (field.name,),
                f'"{field.text}" does not fit the type that {_BY[known.declared_by]} declares, '
                f'"{known.text}": omit the line, or write a type of the same values, or of some '
                f"of them{_example(known)}",
            )
        if known is None and outer is not None and outer.type.kind is not Kind.MAP:
            by = _BY[outer.declared_by]
            raise TableError(
                (field.name,), f'{by} declares {outer.name} as "{outer.text}", without fields'
            )
        if known is None and field.path in objects and field.type.kind is not Kind.MAP:
            inner = objects[field.path]
            raise TableError(
                (field.name,),
                f"it is an object: {_BY[inner.declared_by]} declares its field {inner.name}",
            )
    by_path |= {field.path: field for field in table}
    return tuple(by_path.values())


def _outer(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return (path[:depth] for depth in range(1, len(path)))


def _fits(type_: Type, own: Type, quotes_numbers: bool) -> bool:
    """Whether a type has some of the values of the field, as they are in JSON. ``quotes_numbers``:
    whether a text of digits is a number there."""
    if isinstance(type_, NumberTime):
        is_digits = own.kind is Kind.STRING and quotes_numbers
        return is_digits or own.kind in (Kind.INTEGER, Kind.DOUBLE)
    if own.kind is Kind.STRING:
        is_number = type_.kind in _NUMBERS and quotes_numbers
        return type_.kind in _TEXTS or is_number
    if own.kind is Kind.DOUBLE:
        return type_.kind in (Kind.DOUBLE, Kind.DECIMAL)
    if own.kind is Kind.TIME and isinstance(type_, AnyScalar):
        return False
    return type_.kind is own.kind and type_.scale == own.scale


def _example(own: DeclaredField) -> str:
    if own.type.kind is Kind.INTEGER:
        return f': "{own.text} 0..100"'
    return ': "time"' if own.type.kind is Kind.STRING else ""
