"""Merges the responses of several partitions to one scan.

Each partition's response is a *run*: rows in the order of stored keys, complete up to the key that
it has `reached`. The merged rows are complete up to the least of these keys: the *frontier*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from backend.wire.scan import Row
from model.records import decode_entry

_AnyRow = TypeVar("_AnyRow", bound=tuple[bytes, ...])


def cut(rows: Sequence[tuple[Any, ...]], frontier: bytes | None, backwards: bool) -> int:
    """How many of the sorted rows are certain: those up to and with the frontier."""
    if frontier is None:
        return len(rows)
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        key = rows[middle][0]
        if key >= frontier if backwards else key <= frontier:
            low = middle + 1
        else:
            high = middle
    return low


def distinct(rows: list[_AnyRow], head: Callable[[_AnyRow], bytes]) -> list[_AnyRow]:
    """The sorted rows; of rows with the same key, the one with the latest timestamp and offset.

    If both are equal, in two partitions, the greatest row: the order of the rows does not decide.
    """
    newest = {row[0]: row for row in rows}
    if len(newest) == len(rows):
        return rows
    for row in rows:
        known = newest[row[0]]
        if (_age(head(row)), row) > (_age(head(known)), known):
            newest[row[0]] = row
    return list(newest.values())


def _age(head: bytes) -> tuple[int, int]:
    timestamp, offset, _ = decode_entry(head)
    return timestamp, offset


def slices(rows: Sequence[Row], size: int = 1 << 18) -> Iterator[Sequence[Row]]:
    """The rows in slices; a slice ends with the row that fills `size` bytes."""
    start = sum_of_sizes = 0
    for end, row in enumerate(rows, 1):
        sum_of_sizes += len(row[2])
        if sum_of_sizes >= size or end == len(rows):
            yield rows[start:end]
            start, sum_of_sizes = end, 0


def first_of(keys: Sequence[bytes], backwards: bool) -> bytes:
    """The frontier of runs that have reached these keys."""
    return max(keys) if backwards else min(keys)
