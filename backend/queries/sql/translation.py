"""A statement as a request for a page or for groups of its view, and the rows of the answer.

Rows are JSON objects. The bytes of values stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

import orjson

from backend.queries.filters.names import (
    END,
    KEY,
    OF_ENTRIES,
    START,
    TIMESTAMP_NAME,
    path_of,
    text_of,
)
from backend.queries.history import MAX_LIMIT
from backend.queries.sql.statement import FUNCTIONS, Column, Order, Statement, StatementError
from backend.queries.turns import in_steps
from backend.queries.whole_view.group_names import place
from model.formats.json_decoder import decode_json
from model.formats.json_encoder import encode_json
from model.rows.json_members import members

_NULL = b"null"
_TIMESTAMP = "timestamp"  # the member of items with the time of the record
_OF_NUMBERS = frozenset(FUNCTIONS) - {"count"}


_Cells = list[tuple[str, bytes]]
"""A row: the names of its columns, and their JSON values."""


class EntryRows:
    """The rows of a statement without groups: one for each entry. `resource`: the last segment of
    the path that answers it, with these `parameters`."""

    resource = "query"

    def __init__(self, statement: Statement) -> None:
        """Raises StatementError."""
        self._columns = [_EntryColumn(column) for column in statement.columns]
        self.wants_any = statement.limit != 0
        self.parameters: dict[str, str | int] = {}
        if statement.where is not None:
            self.parameters["where"] = statement.where
        fields = {column.select: None for column in self._columns if column.select is not None}
        if fields and not any(column.needs_value for column in self._columns):
            self.parameters["select"] = ",".join(fields)
        if any(column.head == _TIMESTAMP for column in self._columns):
            self.parameters["timestamps"] = "true"
        self._add_order(statement)

    def _add_order(self, statement: Statement) -> None:
        if not statement.order_by:
            return
        names = {column.name: column.field or "" for column in statement.columns}
        order, *others = statement.order_by
        field = names.get(order.column, order.column)
        if others and not (len(others) == 1 and _is_key_after(others[0], order, names)):
            raise StatementError("order by has one field; key may come after it, in the same order")
        if order.nulls_first is not None and order.nulls_first == order.descending:
            place_of_nulls = "last" if order.descending else "first"
            raise StatementError(
                f"nulls come {place_of_nulls} in this order: null is less than all values"
            )
        path = _path(field)
        if path[0] in OF_ENTRIES and path != (KEY,):
            raise StatementError(f"order by {field}: rows are ordered by key, or by an index")
        if path != (KEY,):
            self.parameters["order_by"] = field
        self.parameters["order"] = "desc" if order.descending else "asc"

    def row(self, item: bytes) -> bytes:
        parts = members(item)
        if not self._columns:
            return _all(parts)
        value: dict[str, bytes] | None = None
        pairs = []
        for column in self._columns:
            if column.select is not None and "select" in self.parameters:
                if value is None:
                    value = members(parts.get("value", _NULL))
                cell = value.get(column.selected, _NULL)
            elif column.may_be_time and column.head in parts:
                cell = parts[column.head]
            else:
                head = "value" if column.may_be_time else column.head
                cell = _member(parts.get(head, _NULL), column.path)
            pairs.append((column.json_name, cell))
        return _object(pairs, parts)


class _EntryColumn:
    """`head`: the member of the item. `path`: within it. `select`: the name in the parameter
    `select` of a field of the value, and `selected` its name in the answer. `needs_value`: whether
    the cell may be in the whole value, which `select` would leave out."""

    def __init__(self, column: Column) -> None:
        path = _path(column.field or "")
        self.json_name = orjson.dumps(column.name)
        self.select: str | None = None
        # a time in windows and sessions, and a field of the value in other views
        self.may_be_time = path in ((START,), (END,))
        self.needs_value = self.may_be_time or path == ("value",)
        if self.may_be_time:
            self.head, self.path = path[0], path
            return
        if path[0] == KEY or path == (TIMESTAMP_NAME,):
            self.head, self.path = path[0], path[1:]
            if path == (TIMESTAMP_NAME,):
                self.head = _TIMESTAMP
            return
        self.head = "value"
        self.path = path[1:] if path[0] == "value" else path
        if self.path:
            self.selected = ".".join(self.path)
            self.select = text_of(self.path)


class GroupRows:
    """The rows of a statement with groups. `resource`, `parameters`: as of EntryRows."""

    resource = "aggregate"

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        columns = statement.columns
        numbers = _distinct(c.field for c in columns if c.function in _OF_NUMBERS)
        counted = _distinct(c.field for c in columns if c.function == "count")
        self._has_groups = bool(statement.group_by)
        self._numbers = numbers
        self.parameters: dict[str, str | int] = {}
        for name, names in (("by", statement.group_by), ("value", numbers), ("non_null", counted)):
            if names:
                self.parameters[name] = ",".join(names)
        if statement.where is not None:
            self.parameters["where"] = statement.where

    def _cells(self, item: bytes) -> _Cells:
        parts = members(item)
        groups = self._groups(parts.get("group", _NULL))
        by_field = {
            name: members(part) for name, part in members(parts.get("values", b"{}")).items()
        }
        if len(self._numbers) == 1:
            by_field[self._numbers[0]] = parts
        counts = members(parts.get("non_null", b"{}"))
        cells = []
        for column in self._statement.columns:
            field = column.field or ""
            if column.function is None:
                cell = groups[self._statement.group_by.index(field)]
            elif column.function != "count":
                cell = by_field[field][column.function]
            else:
                cell = parts["entries"] if column.field is None else counts[field]
            cells.append((column.name, cell))
        return cells

    def _groups(self, group: bytes) -> list[bytes]:
        if len(self._statement.group_by) < 2:
            return [group]
        return [encode_json(part, sorted_=True) for part in decode_json(group)]

    async def _in_order(self, rows: list[_Cells], order: Order) -> list[_Cells]:
        names = [column.name for column in self._statement.columns]
        index = names.index(order.column)
        is_number = self._statement.columns[index].function is not None
        key_of = _SortKey(index, order, is_number)
        keys: list[tuple[bool, int, Any]] = []
        async for piece in in_steps(rows):
            keys += map(key_of, piece)
        places = sorted(range(len(keys)), key=keys.__getitem__, reverse=order.descending)
        return [rows[place] for place in places]

    async def rows(self, items: Iterable[bytes]) -> list[bytes]:
        """All rows, in the order of the statement, and as many as it wants."""
        all_cells: list[_Cells] = []
        async for piece in in_steps(items):
            all_cells += map(self._cells, piece)
        if not all_cells and not self._has_groups:
            all_cells = [[(c.name, b"0" if c.function == "count" else _NULL)
                          for c in self._statement.columns]]  # fmt: skip
        for order in reversed(self._statement.order_by):
            all_cells = await self._in_order(all_cells, order)
        rows = all_cells[: self._statement.limit]
        return [_object([(orjson.dumps(name), cell) for name, cell in row], {}) for row in rows]


@dataclass(frozen=True)
class _SortKey:
    """The value to sort by: null is less than all others, unless the statement says otherwise.
    `is_number`: whether the column is a number, also where JSON has a text, as for infinity."""

    index: int
    order: Order
    is_number: bool

    def __call__(self, cells: _Cells) -> tuple[bool, int, Any]:
        cell = cells[self.index][1]
        rank, value = _number(cell) if self.is_number else place(cell)
        is_null = rank == 0
        first = self.order.nulls_first
        are_least = (first is None) or (first != self.order.descending)
        return is_null != are_least, rank, value


def _number(cell: bytes) -> tuple[int, Decimal]:
    """The rank of a number, and what to sort numbers of this rank by; NaN is the greatest."""
    if cell == _NULL:
        return 0, Decimal()
    number = Decimal(cell.decode().strip('"'))
    return (2, Decimal()) if number.is_nan() else (1, number)


def rows_of(statement: Statement) -> EntryRows | GroupRows:
    """Raises StatementError."""
    return GroupRows(statement) if statement.is_grouped else EntryRows(statement)


def page_size(left: int | None) -> int:
    """The number of rows to ask for. `left`: those that the statement still wants."""
    return MAX_LIMIT if left is None else max(min(left, MAX_LIMIT), 1)


def _object(pairs: Sequence[tuple[bytes, bytes]], item: Mapping[str, bytes]) -> bytes:
    """A JSON object; with the member `unreadable` of the item, if it has one."""
    written = [b"%b:%b" % pair for pair in pairs]
    if (report := item.get("unreadable")) is not None:
        written.append(b'"unreadable":%b' % report)
    return b"{%b}" % b",".join(written)


def _all(item: Mapping[str, bytes]) -> bytes:
    """The row of `select *`: the key, the times, and the members of a value that is an object."""
    head = [(name, part) for name, part in item.items() if name not in ("value", "unreadable")]
    value = item.get("value", _NULL)
    fields: Iterable[tuple[str, bytes]] = ()
    if value[:1] == b"{":
        taken = {"unreadable", *(name for name, _ in head)}
        fields = [
            (f"value.{name}" if name in taken else name, part)
            for name, part in members(value).items()
        ]
    elif "unreadable" not in item:
        fields = [("value", value)]
    return _object([(orjson.dumps(name), part) for name, part in chain(head, fields)], item)


def _member(document: bytes, path: Sequence[str]) -> bytes:
    for name in path:
        document = members(document).get(name, _NULL)
    return document


def _is_key_after(second: Order, first: Order, names: Mapping[str, str]) -> bool:
    is_key = names.get(second.column, second.column) == KEY
    return is_key and second.descending == first.descending and second.nulls_first is None


def _path(field: str) -> tuple[str, ...]:
    try:
        return path_of(field)
    except ValueError as e:
        raise StatementError(str(e)) from None


def _distinct(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name is not None))
