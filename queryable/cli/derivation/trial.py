"""Reads the files of `queryable derive`, and compares results."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from model.derive.evaluation.evaluate import Evaluation, as_line, evaluate
from model.derive.evaluation.explain import explain
from model.derive.evaluation.records import START_MS, Record, parse_lines
from model.problems import ConfigurationError
from model.times import parse_instant
from model.views import View
from model.views_file import parse_views
from queryable.client.protocol.errors import BadUse

MAX_BYTES = 1 << 30
"""The greatest size of a file with records, because all of them are in memory."""


def read_view(path: Path, name: str) -> View:
    """The view of a views file. Raises BadUse if it has no table derive."""

    def read_beside(other: str) -> bytes:
        try:
            return (path.parent / other).read_bytes()
        except OSError as error:
            raise ValueError(f"cannot read the file: {error.strerror}") from None

    try:
        views = parse_views(_content(path).decode(), str(path), read_beside).views
    except ConfigurationError as error:
        raise BadUse(f"{str(error).rstrip('.')}.") from None
    derived = [view for view in views if view.derivation is not None]
    for view in derived:
        if view.name == name:
            return view
    known = ", ".join(view.name for view in derived) or "none"
    raise BadUse(f"{path} has no view {name} with a table derive. It has: {known}.")


def explanation(view: View) -> str:
    assert view.derivation is not None
    return explain(view.derivation)


def evaluated(
    view: View, given: Path, whole: bool, tables: Sequence[str], timestamp: str | None
) -> Evaluation:
    """Evaluates the view on files. `tables`: NAME=FILE of each join. Raises BadUse."""
    at = START_MS
    if timestamp is not None:
        try:
            at = parse_instant(timestamp) // 1000
        except ValueError as error:
            raise BadUse(f"--timestamp {timestamp} is {error}.") from None
    joined = {}
    for text in tables:
        name, separator, file = text.partition("=")
        if not separator:
            raise BadUse(f"--table {text}: write --table NAME=FILE.")
        joined[name] = _records(Path(file), True, at)
    try:
        return evaluate(view, _records(given, whole, at), joined)
    except ValueError as error:
        raise BadUse(f"{error}. Name its file: --table NAME=FILE.") from None


def _records(path: Path, whole: bool, timestamp: int) -> list[Record]:
    try:
        return parse_lines(_content(path).splitlines(), whole=whole, timestamp=timestamp)
    except ValueError as error:
        raise BadUse(f"{path}, {error}.") from None


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadUse(f"{path} has more than {MAX_BYTES} bytes: take a part of it.")
        return path.read_bytes()
    except OSError as error:
        raise BadUse(f"Cannot read {path}: {error.strerror}.") from None


def difference(result: Evaluation, expected: Path) -> list[str]:
    """The lines of a diff between the expected entries and the result; none if they are equal.
    Raises BadUse."""
    lines = []
    for number, line in enumerate(_content(expected).splitlines(), 1):
        if line.strip():
            try:
                lines.append(_normal(line.decode()))
            except ValueError as error:
                raise BadUse(f"{expected}, line {number}: not JSON: {error}.") from None
    result_lines = [_normal(line) for line in result.lines()]
    diff = difflib.unified_diff(
        sorted(lines), sorted(result_lines), str(expected), "result", lineterm="", n=0
    )
    return list(diff)


def _normal(line: str) -> str:
    """The line with members in alphabetical order, and numbers without needless digits."""

    def number(text: str) -> Decimal:
        value = Decimal(text)
        return value.normalize() if len(value.as_tuple().digits) < 28 else value

    return as_line(_sorted(json.loads(line, parse_float=number)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(element) for element in value] if isinstance(value, list) else value
