"""In what two views differ: rows of the one and of the other, brought together. Without I/O.

Rows of both sides come in the same order, that of the keys' stored bytes (docs/queries/scans.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from queryable import Session, View, Window
from queryable.console.values import plain

Row = Any
"""An Entry, a Window or a Session."""

Pair = tuple[Row | None, Row | None]

ONLY_FIRST, ONLY_SECOND, DIFFERENT = "only-in-first", "only-in-second", "different"

# whose order is seen in Python's values: of documents every byte counts, of UUIDs the case
_ORDERED = ("string", "bytes", "int32", "int64", "float64")
_MOST_WAITING = 100_000


class Uncommon(Exception):
    """So many rows of either side have no counterpart that they cannot be brought together."""


class Difference(NamedTuple):
    kind: str
    row: Row
    first: Any
    second: Any

    def as_row(self) -> dict[str, Any]:
        """What is told of it; without the value where there is none."""
        shown = {"difference": self.kind, **place_of(self.row)}
        if self.kind != ONLY_SECOND:
            shown["first"] = self.first
        if self.kind != ONLY_FIRST:
            shown["second"] = self.second
        return shown


def is_ordered(view: View) -> bool:
    return view.key.name in _ORDERED


def place_of(row: Row) -> dict[str, Any]:
    """What tells a row from the others of its view, and when its window ends."""
    return {name: cell for name, cell in row._asdict().items() if name != "value"}


def text_of(value: Any) -> str:
    """Equal for equal values only: 1, 1.0 and true are three."""
    return json.dumps(plain(value), sort_keys=True)


def identity_of(row: Row) -> tuple[Any, ...]:
    return (text_of(row.key), *_times(row))


def _times(row: Row) -> tuple[int, ...]:
    if isinstance(row, Window):
        return row.start, row.sequence
    return (row.end, row.start) if isinstance(row, Session) else ()


def pairs(view: View, first: Iterable[Row], second: Iterable[Row]) -> Iterator[Pair]:
    """Each row with its counterpart, or None. Memory: two rows, or, where the order of keys is not
    seen in them, as many as have no counterpart in between; Uncommon."""
    if not is_ordered(view):
        return _aligned(first, second)
    to_bytes, codec = view.key.record_bytes, view.key.codec
    assert codec is not None

    def order(row: Row) -> tuple[Any, ...]:
        return (codec.to_store(to_bytes(row.key) or b""), *_times(row))

    return _merged(first, second, order)


def _merged(
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


def _aligned(first: Iterable[Row], second: Iterable[Row]) -> Iterator[Pair]:
    """By turns one row of each: when a row meets its counterpart, all that still waits before
    either has none, as both sides have one order."""
    sides = (iter(first), iter(second))
    waiting: tuple[dict[Any, Row], dict[Any, Row]] = ({}, {})
    is_over = [False, False]
    turn = 0
    while not all(is_over):
        turn = 1 - turn if not is_over[1 - turn] else turn
        row = next(sides[turn], None)
        if row is None:
            is_over[turn] = True
            continue
        mine, theirs = waiting[turn], waiting[1 - turn]
        identity = identity_of(row)
        if identity in theirs:
            yield from _alone(mine, turn)
            before = {}
            for name in list(theirs):
                met = theirs.pop(name)
                if name == identity:
                    break
                before[name] = met
            yield from _alone(before, 1 - turn)
            yield (row, met) if turn == 0 else (met, row)
        elif is_over[1 - turn] and not theirs:
            yield from _alone({**mine, identity: row}, turn)
            mine.clear()
        else:
            mine[identity] = row
            if len(mine) > _MOST_WAITING:
                raise Uncommon
    yield from _alone(waiting[0], 0)
    yield from _alone(waiting[1], 1)


def _alone(rows: dict[Any, Row], side: int) -> Iterator[Pair]:
    for row in rows.values():
        yield (row, None) if side == 0 else (None, row)
    rows.clear()


def difference(pair: Pair) -> Difference | None:
    """None where both are there and equal, or neither is."""
    one, other = pair
    if one is None:
        return None if other is None else Difference(ONLY_SECOND, other, None, other.value)
    if other is None:
        return Difference(ONLY_FIRST, one, one.value, None)
    if text_of(one.value) == text_of(other.value):
        return None
    return Difference(DIFFERENT, one, one.value, other.value)
