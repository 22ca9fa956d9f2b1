"""Reads typed values of a TOML table. Errors have the path of the key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from model.derive.hints import unknown_key
from model.expressions.parser import parse
from model.expressions.tree import Expression
from model.expressions.types import Kind
from model.times import DAY, parse_duration

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
MAX_DURATION = 3650 * DAY


class TableError(ValueError):
    """A key of a table is wrong or missing. ``path``: the names from the table to the key."""

    def __init__(self, path: Iterable[str], text: str) -> None:
        super().__init__(text)
        self.path = tuple(path)


def check_keys(
    table: Mapping[str, Any], allowed: Iterable[str], path: tuple[str, ...] = ()
) -> None:
    names = tuple(allowed)
    for key in table:
        if key not in names:
            close = difflib.get_close_matches(key, names, 1)
            hint = unknown_key(key)
            suggestion = f"{hint}; " if hint else f"did you mean {close[0]}? " if close else ""
            raise TableError(
                (*path, key), f"unknown key; {suggestion}known keys: {', '.join(names)}"
            )


def read_text(value: Any, path: tuple[str, ...], meaning: str) -> str:
    if not isinstance(value, str) or not value:
        raise TableError(path, f"{value!r} is not text: {meaning}")
    return value


def read_number(value: Any, path: tuple[str, ...], low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise TableError(path, f"{value!r} is not a whole number from {low} to {high}")
    return value


def read_duration(value: Any, path: tuple[str, ...], least: int = 1) -> int:
    """A duration in ms."""
    text = read_text(value, path, 'a duration such as "30m"')
    try:
        duration = parse_duration(text)
    except ValueError as e:
        raise TableError(path, str(e)) from None
    if not least <= duration <= MAX_DURATION:
        raise TableError(path, f'"{text}" is not between {least} ms and {MAX_DURATION // DAY} days')
    return duration


def read_table(value: Any, path: tuple[str, ...], max_names: int, meaning: str) -> dict[str, Any]:
    """A table of names that may be used in expressions and as JSON fields."""
    if not isinstance(value, dict) or not value:
        raise TableError(path, f"must be a table: {meaning}")
    if len(value) > max_names:
        raise TableError(path, f"has {len(value)} names; at most {max_names} are allowed")
    names_by_lower_case: dict[str, str] = {}
    for name in value:
        check_name(name, (*path, name))
        # Spark ignores the case of names
        if names_by_lower_case.setdefault(name.lower(), name) != name:
            raise TableError(
                (*path, name), f"differs from {names_by_lower_case[name.lower()]} only in case"
            )
    return value


def check_new(name: str, names: Iterable[str], path: tuple[str, ...]) -> None:
    """Raise TableError if a field already has the name."""
    check_name(name, path)
    if name.lower() in {existing.lower() for existing in names}:
        raise TableError(path, "is already the name of a field")


def check_name(name: str, path: tuple[str, ...]) -> None:
    if not _NAME.fullmatch(name):
        raise TableError(
            path, f'"{name[:70]}" is not a name: letters, digits and _, at most 64 characters'
        )


def read_expression(
    value: Any, path: tuple[str, ...], names: Mapping[str, Expression], *kinds: Kind
) -> Expression:
    """Parse an expression. ``kinds``: the types that are allowed; without any, all are allowed."""
    text = read_text(value, path, 'an expression such as "lower(name)"')
    try:
        expression = parse(text, names)
    except ValueError as e:
        raise TableError(path, str(e)) from None
    if kinds and expression.type.kind not in kinds:
        allowed = " or ".join(f"a {kind}" for kind in kinds)
        raise TableError(path, f'"{text[:60]}" is a {expression.type.kind}; it must be {allowed}')
    return expression
