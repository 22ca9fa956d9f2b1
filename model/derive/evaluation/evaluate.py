"""Evaluates a derived view on records in memory."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from model.derive.derivation import Derivation
from model.derive.evaluation.aggregation import value_of
from model.derive.evaluation.records import Record
from model.derive.evaluation.rows import (
    DELETED,
    DeadLetter,
    Row,
    Rows,
    RowSource,
    joined_rows,
)
from model.formats.registry import FORMATS
from model.kinds.calendar_windows import CalendarWindows

if TYPE_CHECKING:
    from model.views import View

Key = str | int
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """``entries``: those of the view's topic, in order of key and time, as JSON: ``key`` and
    ``value``, with ``start`` of a window, and ``end`` of a session, in ms since 1970.
    ``dead_letters``: the records that do not count, in their order."""

    entries: list[Entry]
    dead_letters: list[DeadLetter]

    @property
    def values(self) -> dict[Key, Any]:
        """Key ► value, of a view without windows and sessions."""
        return {entry["key"]: entry["value"] for entry in self.entries}

    def lines(self) -> Iterator[str]:
        """The entries as lines of JSON. Decimals are numbers with all their digits."""
        return map(as_line, self.entries)


def evaluate(
    view: View, records: Iterable[Record], tables: Mapping[str, Iterable[Record]] | None = None
) -> Evaluation:
    """The entries of a view after its job has read these records. ``tables``: the records of the
    topic of each join, by the name of the table.

    The result is that of the Spark job, with one exception: ``distinct`` is exact here. Raises
    ValueError if the view has no table ``derive``, records for a join are missing, or the view
    joins two streams.
    """
    derivation = view.derivation
    if derivation is None:
        raise ValueError(f"view {view.name} has no table derive")
    given = tables or {}
    names = {join.name for join in derivation.joins}
    for name in names ^ given.keys():
        what = "needs the records of" if name in names else "has no"
        raise ValueError(f"view {view.name} {what} table {name}")
    if derivation.pairs is not None:
        raise ValueError(f"view {view.name} joins two streams, which is not evaluated on files yet")
    rows: list[Row] = []
    dead_letters: list[DeadLetter] = []
    joined: dict[str, Rows] = {}
    for join in derivation.joins:
        joined[join.name], letters = joined_rows(join, given[join.name])
        dead_letters += letters
    source = RowSource(derivation, joined)
    for row in source.rows(records):
        if isinstance(row, DeadLetter):
            dead_letters.append(row)
        else:
            rows.append(row)
    is_object = FORMATS[view.value].has_objects
    entries = [
        {**place, "value": value_of(derivation, group, source.compiled, is_object)}
        for place, group in _groups(derivation, source, rows)
    ]
    return Evaluation(entries, dead_letters)


def _groups(
    derivation: Derivation, source: RowSource, rows: Iterable[Row]
) -> Iterator[tuple[Entry, list[Row]]]:
    """The key and the times of each entry, with its rows, in order of key and time."""
    by_key: dict[Key, list[Row]] = defaultdict(list)
    for row in _newest(derivation, source, rows):
        by_key[source.key(row)].append(row)
    if derivation.is_rekeyed:
        for group in by_key.values():  # the last row counts
            group.sort(key=lambda row: (row["record_timestamp"], row["record_key"]))
    for key in sorted(by_key, key=lambda key: (isinstance(key, str), key)):
        if derivation.shape == "keys" or derivation.time is None:
            yield {"key": key}, by_key[key]
            continue
        time = derivation.time.expression
        timed = [(source.compiled.value(time, row) // 1000, row) for row in by_key[key]]
        if derivation.session is not None:
            yield from _sessions(key, timed, derivation.session)
            continue
        windows: dict[int, list[Row]] = defaultdict(list)
        for at, row in timed:
            for start in _starts(derivation, at):
                windows[start].append(row)
        for start in sorted(windows):
            yield {"key": key, "start": start}, windows[start]


def _newest(derivation: Derivation, source: RowSource, rows: Iterable[Row]) -> Iterator[Row]:
    """For a table, the last row of each record key; for a map, the last row of each entry. They are
    joined with the tables that change, and left out unless ``where`` is true then. For other views,
    all rows."""
    if not derivation.is_map and not derivation.is_table:
        yield from rows
        return
    newest: dict[tuple[Any, ...], Row] = {}
    time = derivation.time if derivation.points else None
    for row in rows:
        place = row["record_key"] if derivation.is_table else source.key(row)
        at = None if time is None else source.compiled.value(time.expression, row) // 1000
        newest[place, at] = row
    for row in newest.values():
        if DELETED not in row:
            with_tables = source.joined(row, derivation.changing)
            if source.compiled.is_true(derivation.where, with_tables):
                yield with_tables


def _starts(derivation: Derivation, at: int) -> Iterator[int]:
    """The starts (ms) of the windows that contain the time ``at``; for points, the time itself."""
    window = derivation.window
    if window is None:
        yield at
        return
    if isinstance(window, CalendarWindows):
        yield window.window(at)[0]
        return
    start = at - at % window.advance
    while start > at - window.size:
        yield start
        start -= window.advance


def _sessions(
    key: Key, timed: list[tuple[int, Row]], gap: int
) -> Iterator[tuple[Entry, list[Row]]]:
    """The sessions of a key, with their rows. A session ends before a gap of more than ``gap``
    ms."""
    timed.sort(key=lambda pair: pair[0])
    session: list[tuple[int, Row]] = []
    for at, row in timed:
        if session and at - session[-1][0] > gap:
            yield _session(key, session)
            session = []
        session.append((at, row))
    if session:
        yield _session(key, session)


def _session(key: Key, session: list[tuple[int, Row]]) -> tuple[Entry, list[Row]]:
    place = {"key": key, "start": session[0][0], "end": session[-1][0]}
    return place, [row for _, row in session]


def as_line(document: Any) -> str:
    """A document as a line of JSON. Decimals are numbers with all their digits."""
    if isinstance(document, Decimal):
        return format(document, "f")
    if isinstance(document, Mapping):
        members = (f"{as_line(name)}:{as_line(member)}" for name, member in document.items())
        return f"{{{','.join(members)}}}"
    if isinstance(document, list):
        return f"[{','.join(map(as_line, document))}]"
    return json.dumps(document, ensure_ascii=False)
