"""A field of a view in views.toml: its values as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

BOOLEAN = ("false", "true")


@dataclass(frozen=True)
class Field:
    """`default`: None if the field is required. `allowed`: None if any text is allowed."""

    default: str | None
    allowed: tuple[str, ...] | None
    meaning: str


def as_text(field: str, value: Any, spec: Field) -> Any:
    """The value as text; a number or a boolean as it is written in the file. For a value of a wrong
    type, the result is not a string."""
    if field == "partitions" and type(value) is int:
        return str(value)
    if spec.allowed is BOOLEAN:
        return str(value).lower() if type(value) is bool else (value,)
    return value


def not_a_string(field: str, value: Any, spec: Field) -> str:
    """The error of a value that `as_text` has not made a string."""
    if spec.allowed is BOOLEAN:
        return f"{value[0]!r} is not true or false: {spec.meaning}"
    written = str(value).lower() if isinstance(value, bool) else repr(value)
    if spec.allowed is None:
        return f"{written} is not a string: {spec.meaning}"
    return f"{written} is not a string; write {field} = {join_quoted(filter(None, spec.allowed))}"


def join_quoted(words: Iterable[str]) -> str:
    return " or ".join(f'"{word}"' for word in words)
