"""The names that conditions use, and where their values are.

`key` is the key of the entry, `start` and `end` are the times of a window or session, and
`record_timestamp` is the timestamp of the record. All other names are fields of the value. After
`value.` every name is a field: `value.key`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from model.expressions.evaluator import Place
from model.expressions.tree import Expression, Field
from model.expressions.types import JSON, TIMESTAMP, Kind, Type, integer
from model.formats.registry import FORMATS
from model.rows.declared_fields import MAX_DEPTH
from model.views import View

ROW, KEY, START, END, TIME_OF_RECORD = "row", "key", "start", "end", "time"
"""The variables of a compiled condition."""

TIMESTAMP_NAME = "record_timestamp"
OF_ENTRIES = frozenset({KEY, START, END, TIMESTAMP_NAME})
"""The names that mean no field of the value, or not in each view."""

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PART = r'(?:"(?:[^"]|"")+"|[^."]+)'
_PARTS = re.compile(_PART)
_PATH = re.compile(rf"{_PART}(?:\.{_PART})*")
_TYPES = {
    Kind.STRING: Type(Kind.STRING, optional=True),
    Kind.INTEGER: integer(optional=True),
    Kind.DOUBLE: Type(Kind.DOUBLE, optional=True),
}


def path_of(name: str) -> tuple[str, ...]:
    """The names of the members in `a.b` or `a."odd name"`. Raises ValueError."""
    parts = _PARTS.findall(name) if _PATH.fullmatch(name) else []
    path = tuple(part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts)
    if not 1 <= len(path) <= MAX_DEPTH:
        raise ValueError(
            f"{name[:60]} is not a name, or names with dots, of up to {MAX_DEPTH} levels"
        )
    return path


def text_of(path: Iterable[str]) -> str:
    """The name of a path, as `path_of` reads it."""
    return ".".join(map(_quoted_if_odd, path))


def path_of_value(name: str) -> tuple[str, ...]:
    """The path to a field of values; `value.delay` is `delay`. Raises ValueError."""
    first, *rest = path_of(name)
    return tuple(rest) if first == "value" and rest else (first, *rest)


def place_in(view: View, name: str) -> tuple[str, tuple[str, ...]]:
    """The variable that has what a name means, and the path in it. Raises ValueError."""
    return _place_of(view, path_of(name))


def _place_of(view: View, path: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    first, *rest = path
    if first == KEY:
        return KEY, tuple(rest)
    if path == (TIMESTAMP_NAME,):
        return TIME_OF_RECORD, ()
    if first in times_of(view) and not rest:
        return first, ()
    return ROW, tuple(rest) if first == "value" else path


def times_of(view: View) -> tuple[str, ...]:
    """The names of the times of a window or session; none for other entries."""
    return (START, END) if view.kind.resource in ("windows", "sessions") else ()


def name_of(variable: str, path: tuple[str, ...]) -> str:
    """The name of a field in the tree of a condition."""
    return "/".join((variable, *map(_escaped, path)))


class Names(Mapping[str, Expression]):
    """The names that a condition on a view may use, for the parser. `places`: where the values of
    the names are that the parser has looked up."""

    def __init__(self, view: View) -> None:
        self.places: dict[str, Place] = {}
        self._view = view
        self._quotes_numbers = {
            ROW: view.value_codec.quotes_numbers,
            KEY: view.key_codec.quotes_numbers,
        }
        self._types = {field.path: field.type.or_null() for field in view.fields}
        self._times = times_of(view)

    def __getitem__(self, name: str) -> Expression:
        path = path_of(name)
        place, type_ = self._place(path)
        place = place._replace(quotes_numbers=self._quotes_numbers.get(place.variable, False))
        # a field has one name, however it is written; one with a dot differs from a path
        name = name_of(place.variable, place.path)
        self.places[name] = place
        return Field(name, type_)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            path = path_of(name)
        except ValueError:
            return False
        # "ATL" may be meant as a string, so a field without a type needs a name before it
        is_quoted_alone = name.startswith('"') and len(path) == 1
        return not is_quoted_alone or path in self._types or path[0] in self._times

    def __iter__(self) -> Iterator[str]:
        yield KEY
        yield from self._times
        yield from (field.name for field in self._view.fields)

    def __len__(self) -> int:
        return 1 + len(self._times) + len(self._view.fields)

    def _place(self, path: tuple[str, ...]) -> tuple[Place, Type]:
        variable, path = _place_of(self._view, path)
        if variable == KEY:
            type_ = JSON if path else _type_of(self._view.key)
        elif variable == ROW:
            type_ = self._types.get(path, JSON) if path else _type_of(self._view.value)
        else:
            type_ = TIMESTAMP.or_null()
        return Place(variable, path), type_


def _quoted_if_odd(name: str) -> str:
    if _IDENTIFIER.fullmatch(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _type_of(format_name: str) -> Type:
    """The type of keys or values in a format with a single type; JSON for others."""
    format_ = FORMATS.get(format_name)
    kinds = [kind for kind in _TYPES if format_ is not None and kind in format_.derived]
    return _TYPES[kinds[0]] if len(kinds) == 1 else JSON
