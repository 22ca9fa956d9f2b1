"""``try_cast(a as int)``: a value as another type, or null if it has no value of that type."""

from __future__ import annotations

from model.expressions.types import BOOLEAN, DOUBLE, STRING, Kind, Type, integer

_CASTS: dict[str, Type] = {
    "int": integer(-(2**31), 2**31 - 1),
    "long": integer(),
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "string": STRING,
}
_SAME = {"integer": "int", "bigint": "long", "float": "double", "varchar": "string"}
_FROM = (Kind.STRING, Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, Kind.BOOLEAN)
_TEXTUAL = (Kind.STRING, Kind.INTEGER, Kind.BOOLEAN)
CAST_TYPES = f"try_cast(a as …) has {', '.join(_CASTS)}"


def cast_name(type_name: str) -> str | None:
    """The name of the function that casts to this type; None if there is none."""
    name = type_name.lower()
    name = _SAME.get(name, name)
    return f"try_cast {name}" if name in _CASTS else None


def cast_type(name: str, of: Type) -> Type:
    """The type of the result of a cast; ValueError."""
    kind = name.removeprefix("try_cast ")
    to = _CASTS[kind]
    if of.kind not in _FROM:
        raise ValueError(f"try_cast is not for a {of.kind}")
    if kind == "boolean" and of.kind not in (Kind.STRING, Kind.BOOLEAN):
        raise ValueError(f"try_cast as boolean is for text, not for a {of.kind}; write a <> 0")
    if kind == "string" and of.kind not in _TEXTUAL:
        raise ValueError(f"try_cast as string is for whole numbers, not for a {of.kind}")
    if kind == "string":
        return to.or_null(of.optional)  # every value of these types has a text
    return to.or_null()


CASTS = tuple(f"try_cast {name}" for name in _CASTS)
