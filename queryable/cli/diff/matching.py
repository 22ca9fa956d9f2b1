"""Matches the rows of two sources and finds their differences. No I/O.

Both sources return rows in the same order: that of the keys' stored bytes (docs/queries/scans.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from queryable import Session, View, Window
from queryable.cli.values import json_value

Row = Any
"""An Entry, a Window or a Session."""

Pair = tuple[Row | None, Row | None]

ONLY_FIRST, ONLY_SECOND, DIFFERENT = "only-in-first", "only-in-second", "different"

_MAX_UNMATCHED = 100_000


class TooFewMatches(Exception):
    """Too many rows of one source wait for a match: memory is bounded."""


class Difference(NamedTuple):
    kind: str
    row: Row
    first: Any
    second: Any

    def as_row(self) -> dict[str, Any]:
        """The row to print. A source that does not have the row has no column."""
        shown = {"difference": self.kind, **_identifying_fields(self.row)}
        if self.kind != ONLY_SECOND:
            shown["first"] = self.first
        if self.kind != ONLY_FIRST:
            shown["second"] = self.second
        return shown


def is_ordered(view: View) -> bool:
    """Whether the order of the view's keys follows from their Python values."""
    return view.key.python.is_ordered


def _identifying_fields(row: Row) -> dict[str, Any]:
    """All fields but the value."""
    return {name: cell for name, cell in row._asdict().items() if name != "value"}


def canonical_text(value: Any) -> str:
    """Texts are equal if and only if the values are: 1, 1.0 and true are different."""
    return json.dumps(json_value(value), sort_keys=True)


def identity_of(row: Row) -> tuple[Any, ...]:
    """What identifies a row in its view: key and times."""
    return (canonical_text(row.key), *_times(row))


def _times(row: Row) -> tuple[int, ...]:
    if isinstance(row, Window):
        return row.start, row.sequence
    return (row.end, row.start) if isinstance(row, Session) else ()


def match_rows(view: View, first: Iterable[Row], second: Iterable[Row]) -> Iterator[Pair]:
    """Each row with its match in the other source, or None.

    Keeps one row per source in memory. For formats that cannot be ordered here, it keeps all rows
    that wait for a match, up to a limit: then it raises TooFewMatches.
    """
    if not is_ordered(view):
        return _match_unordered(first, second)
    to_bytes, codec = view.key.record_bytes, view.key.codec
    assert codec is not None

    def order(row: Row) -> tuple[Any, ...]:
        return (codec.to_store(to_bytes(row.key) or b""), *_times(row))

    return _match_ordered(first, second, order)


def _match_ordered(
    first: Iterable[Row], second: Iterable[Row], order: Callable[[Row], tuple[Any, ...]]
) -> Iterator[Pair]:
    ones = ((order(row), row) for row in first)
    others = ((order(row), row) for row in second)
    one, other = next(ones, None), next(others, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one[0] < other[0]):
            assert one is not None
            yield one[1], None
            one = next(ones, None)
        elif one is None or other[0] < one[0]:
            yield None, other[1]
            other = next(others, None)
        else:
            yield one[1], other[1]
            one, other = next(ones, None), next(others, None)


def _match_unordered(first: Iterable[Row], second: Iterable[Row]) -> Iterator[Pair]:
    """Reads one row of each source in turn. When a row has a match, all rows before either of the
    two have none, because both sources have the same order."""
    sources = (iter(first), iter(second))
    unmatched: tuple[dict[Any, Row], dict[Any, Row]] = ({}, {})
    is_exhausted = [False, False]
    turn = 0
    while not all(is_exhausted):
        turn = 1 - turn if not is_exhausted[1 - turn] else turn
        row = next(sources[turn], None)
        if row is None:
            is_exhausted[turn] = True
            continue
        own_rows, other_rows = unmatched[turn], unmatched[1 - turn]
        identity = identity_of(row)
        if identity in other_rows:
            yield from _unpaired(own_rows, turn)
            before = {}
            for other in list(other_rows):
                match = other_rows.pop(other)
                if other == identity:
                    break
                before[other] = match
            yield from _unpaired(before, 1 - turn)
            yield (row, match) if turn == 0 else (match, row)
        elif is_exhausted[1 - turn] and not other_rows:
            yield from _unpaired({**own_rows, identity: row}, turn)
            own_rows.clear()
        else:
            own_rows[identity] = row
            if len(own_rows) > _MAX_UNMATCHED:
                raise TooFewMatches
    yield from _unpaired(unmatched[0], 0)
    yield from _unpaired(unmatched[1], 1)


def _unpaired(rows: dict[Any, Row], source: int) -> Iterator[Pair]:
    for row in rows.values():
        yield (row, None) if source == 0 else (None, row)
    rows.clear()


def difference(pair: Pair) -> Difference | None:
    """None if the rows are equal, or both are None."""
    one, other = pair
    if one is None:
        return None if other is None else Difference(ONLY_SECOND, other, None, other.value)
    if other is None:
        return Difference(ONLY_FIRST, one, one.value, None)
    if canonical_text(one.value) == canonical_text(other.value):
        return None
    return Difference(DIFFERENT, one, one.value, other.value)
