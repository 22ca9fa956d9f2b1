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
    """The key and the times of a row, which identify it in its view."""
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
    first_rows = ((order(row), row) for row in first)
    second_rows = ((order(row), row) for row in second)
    first_row, second_row = next(first_rows, None), next(second_rows, None)
    while first_row is not None or second_row is not None:
        if second_row is None or (first_row is not None and first_row[0] < second_row[0]):
            assert first_row is not None
            yield first_row[1], None
            first_row = next(first_rows, None)
        elif first_row is None or second_row[0] < first_row[0]:
            yield None, second_row[1]
            second_row = next(second_rows, None)
        else:
            yield first_row[1], second_row[1]
            first_row, second_row = next(first_rows, None), next(second_rows, None)


def _match_unordered(first: Iterable[Row], second: Iterable[Row]) -> Iterator[Pair]:
    """Reads rows of both sources alternately. When a row has a match, all rows before either of the
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
            for other_identity in list(other_rows):
                match = other_rows.pop(other_identity)
                if other_identity == identity:
                    break
                before[other_identity] = match
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
    """The difference of two rows; None if they are equal, or if both are None."""
    first, second = pair
    if first is None:
        return None if second is None else Difference(ONLY_SECOND, second, None, second.value)
    if second is None:
        return Difference(ONLY_FIRST, first, first.value, None)
    if canonical_text(first.value) == canonical_text(second.value):
        return None
    return Difference(DIFFERENT, first, first.value, second.value)
