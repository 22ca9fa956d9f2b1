"""Numbers of a view by group: entries, count, sum, minimum, maximum and average."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

import orjson
from pydantic import BaseModel, ConfigDict

from backend.queries.filters.columns import Columns
from backend.queries.filters.names import OF_ENTRIES, ROW
from backend.queries.filters.parameters import FILTERS, with_filters
from backend.queries.filters.selection import split_names
from backend.queries.parameters import Parameters
from backend.queries.scans.reducer import Reducer
from backend.queries.scans.scatter_gather import ScatterGather
from backend.queries.stores import KEYS, refuse_custom
from backend.queries.turns import in_steps
from backend.queries.whole_view.fields import EntryField, Number, NumberField
from backend.queries.whole_view.group_names import name_of
from backend.queries.whole_view.groups import MAX_GROUP_BYTES, MAX_GROUPS, Groups, Totals
from backend.queries.whole_view.numbers import Numbers, number_json
from backend.queries.whole_view.order import (
    ENTRIES,
    ORDERS,
    SUM,
    is_descending,
    number_of,
    rank_of,
)
from backend.queries.whole_view.view_query import QueryResult, Reduction
from backend.wire.scan import Query, ScanResponse
from model.limits import MAX_PATH_BYTES, shown
from model.problems import BadRequest
from model.rows.row_view import Pair
from model.views import View

MAX_FIELDS = 8
"""The maximum number of names in a parameter: each needs memory for each group."""
_ALL = name_of(None)
_NUMBER_OF_FIELD = re.compile(r"(sum|min|max|avg|count)\((.+)\)")


class _Arguments(BaseModel):
    """What `aggregate` reads of entries. `by`: the field to group by (None: one group of all).
    `value`: the field with numbers. `decimals`: whether the field's texts of digits are numbers.

    Instances of earlier releases know `by` and `value` alone, and refuse other arguments. `groups`
    and `numbers` are used instead if there are several, or if a name is more than a path.
    `non_null`: fields whose values are counted.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    by: str | None
    value: str | None
    decimals: bool = False
    groups: str = ""
    numbers: str = ""
    non_null: str = ""

    @staticmethod
    def parse(view: View, parameters: Parameters) -> _Arguments:
        by, value = parameters.text("by"), parameters.text("value")
        non_null = parameters.text("non_null") or ""
        is_old_by, is_old_value = _is_path(by), _is_path(value) and not non_null
        return _Arguments(
            by=by if is_old_by else None,
            value=value if is_old_value else None,
            decimals=value is not None and view.value_codec.quotes_numbers,
            groups="" if is_old_by else by or "",
            numbers="" if is_old_value else value or "",
            non_null=non_null,
        )


class _Fields:
    """The fields that `aggregate` reads of entries. `names`: of the fields with numbers; an empty
    one if values are numbers. Each group has numbers of these, then of those in `non_null`, then,
    if there are neither, a number of entries alone."""

    def __init__(self, view: View, arguments: _Arguments) -> None:
        """Raises BadRequest if the view has no such fields."""
        groups = _names(arguments.groups or arguments.by, "by")
        self.groups = [EntryField(view, name, "by") for name in groups]
        self.names = _names(arguments.numbers or arguments.value, "value")
        if not self.names and view.value_codec.is_number:
            self.names = [""]
        self.numbers = [_number_field(view, name) for name in self.names]
        self.non_null_names = _names(arguments.non_null or None, "non_null")
        self.non_null = [EntryField(view, name, "non_null") for name in self.non_null_names]
        if len(self.names) + len(self.non_null_names) > MAX_FIELDS:
            raise BadRequest(
                "bad-parameter", f"value and non_null have at most {MAX_FIELDS} names together."
            )
        self.count = max(len(self.numbers) + len(self.non_null), 1)

    @property
    def variables(self) -> set[str]:
        """The columns of entries that are needed."""
        variables = {field.variable for field in (*self.groups, *self.non_null)}
        return variables | {ROW} if self.numbers else variables


class _Aggregator:
    """The groups of one partition."""

    def __init__(self, view: View, arguments: _Arguments) -> None:
        self._columns = Columns(view)
        self._fields = _Fields(view, arguments)
        self._groups = Groups(self._fields.count)
        self._of_text: dict[object, Totals] = {}  # most groups are texts

    def add(self, pairs: list[Pair]) -> None:
        fields = self._fields
        columns = {name: self._columns.read(name, pairs) for name in fields.variables}
        all_totals = self._totals(pairs, columns)
        if all_totals is None:
            return
        for place, number_field in enumerate(fields.numbers):
            numbers = number_field.values(columns[ROW])
            for totals, number in zip(all_totals, numbers, strict=True):
                if number is not None:
                    totals[place].add(number)
        for place, field in enumerate(fields.non_null, len(fields.numbers)):
            for totals, value in zip(
                all_totals, field.values(columns[field.variable]), strict=True
            ):
                if value is not None:
                    totals[place].count += 1

    def _totals(
        self, pairs: list[Pair], columns: Mapping[str, list[object]]
    ) -> list[Totals] | None:
        """The totals of each entry's group, in which the entry is counted. None if there are too
        many groups."""
        if not pairs:
            return []  # there is no group without entries
        if not self._fields.groups:
            totals = self._groups.totals(_ALL)
            assert totals is not None
            totals[0].entries += len(pairs)
            return [totals] * len(pairs)
        groups = [field.values(columns[field.variable]) for field in self._fields.groups]
        all_totals = []
        for group in groups[0] if len(groups) == 1 else map(list, zip(*groups, strict=True)):
            known = self._of_text.get(group) if type(group) is str else None
            if (totals := known or self._new(group)) is None:
                return None
            totals[0].entries += 1
            all_totals.append(totals)
        return all_totals

    def _new(self, group: object) -> Totals | None:
        totals = self._groups.totals(name_of(group))
        if totals is not None and type(group) is str:
            self._of_text[group] = totals
        return totals

    async def fill(self, response: ScanResponse) -> None:
        """One row for each group: its name, and its totals."""
        for place, field in enumerate(self._fields.numbers):
            if field.text is not None:
                for totals in self._groups.by_name.values():
                    totals[place].text = field.text if not totals[place].count else None
        await self._groups.fill(response)


class _AggregateMerger:
    def __init__(self, fields: _Fields) -> None:
        self._fields = fields
        self._groups = Groups(fields.count)

    async def add(self, response: ScanResponse) -> None:
        async for piece in in_steps(response.rows):
            for row in piece:
                self._groups.merge(row)
        if not (response.complete and self._groups.is_complete):
            raise BadRequest(
                "too-many-entries",
                f"by= has more than {MAX_GROUPS} different values, or more than "
                f"{MAX_GROUP_BYTES >> 20} MiB of them. Group by a field with fewer values.",
            )

    def check_numbers(self) -> None:
        """Raise BadRequest if a field has texts instead of numbers."""
        for place, field in enumerate(self._fields.numbers):
            if (text := self._groups.text(place)) is not None:
                raise field.refusal("value", text)

    async def items(self, order: _Order | None) -> list[bytes]:
        """The items in this order; without one, in the order of their groups."""
        by_name = self._groups.by_name
        names = await self._groups.names(len(self._fields.groups) > 1)
        if order is not None:
            names = await order.first(names, by_name)
        items: list[bytes] = []
        async for piece in in_steps(names):
            items += [_item(name, by_name[name], self._fields) for name in piece]
        return items


@dataclass(frozen=True)
class _Order:
    """The order of groups by one of their numbers, and how many of them are wanted. `place`: of
    the field with the numbers."""

    PARAMETERS: ClassVar = ("order_by", "order", "limit")

    order_by: str
    place: int
    descending: bool
    limit: int | None

    @staticmethod
    def parse(parameters: Parameters, names: Sequence[str]) -> _Order | None:
        """`names`: of the fields with numbers. None if the request has no such parameters. Raises
        BadRequest."""
        if not any(parameters.raw(name) is not None for name in _Order.PARAMETERS):
            return None
        default = SUM if len(names) == 1 else ENTRIES
        order_by, place = parameters.text("order_by") or default, 0
        if (match := _NUMBER_OF_FIELD.fullmatch(order_by)) is not None and match[2] in names:
            order_by, place = match[1], names.index(match[2])
        elif order_by not in ORDERS:
            raise BadRequest(
                "bad-parameter",
                f"order_by={shown(order_by)}: it is one of {', '.join(ORDERS)}; or of a field "
                "in value, such as avg(delay).",
            )
        elif order_by != ENTRIES and not names:
            raise BadRequest(
                "bad-parameter",
                f"order_by={order_by} needs numbers: name their field with value, or use "
                f"order_by={ENTRIES}.",
            )
        elif order_by != ENTRIES and len(names) > 1:
            raise BadRequest(
                "bad-parameter",
                f"order_by={order_by}: value has several names, so name one of them: "
                f"order_by={order_by}({names[0]}).",
            )
        limit = None if parameters.raw("limit") is None else parameters.limit()
        return _Order(order_by, place, is_descending(parameters), limit)

    async def first(self, names: list[bytes], groups: Mapping[bytes, Totals]) -> list[bytes]:
        """The first groups. Those without a number are last; equal ones stay in their order."""
        ranked: list[tuple[Number, bytes]] = []
        others: list[bytes] = []
        async for piece in in_steps(names):
            for name in piece:
                numbers = groups[name][self.place]
                rank = rank_of(number_of(numbers, self.order_by), self.descending)
                if rank is None:
                    others.append(name)
                else:
                    ranked.append((rank, name))
        ranked.sort(key=itemgetter(0))
        return [*(name for _, name in ranked), *others][: self.limit]


class Aggregate:
    """`by`: the fields to group by. `value`: the fields with numbers. `non_null`: fields whose
    values are counted. `order_by`, `order` and `limit`: the first groups by one of their
    numbers."""

    name = "aggregate"
    parameters = ("by", "value", "non_null", "from", "to", *_Order.PARAMETERS, "stale", *FILTERS)

    def asked(self, view: View, parameters: Parameters) -> Query:
        refuse_custom(view)
        first, last = parameters.time("from"), parameters.time("to")
        if view.kind.resource == KEYS and (first is not None or last is not None):
            raise BadRequest(
                "bad-parameter", f"from and to are for windows and sessions, not for {view.name}."
            )
        query = Query(first=first, last=last, stale=parameters.stale())
        return with_filters(view, parameters, query)

    async def answer(
        self, scatter_gather: ScatterGather, view: View, parameters: Parameters, query: Query
    ) -> QueryResult:
        """Raises BadRequest if the view has no such fields, or too many groups."""
        arguments = _Arguments.parse(view, parameters)
        fields = _Fields(view, arguments)
        order = _Order.parse(parameters, fields.names)
        reduction = Reduction(
            self,
            query,
            partial(_AggregateMerger, fields),
            MAX_GROUPS,
            arguments.model_dump(exclude_defaults=True),
            needs_values=ROW in fields.variables,
        )
        merged, freshness = await reduction.run(scatter_gather, view)
        merged.check_numbers()
        items = b",".join(await merged.items(order))
        return QueryResult(b'{"items":[%b]}' % items, freshness)

    def reducer(self, view: View, arguments: Mapping[str, Any]) -> Reducer:
        refuse_custom(view)
        return _Aggregator(view, _Arguments.model_validate(arguments))


AGGREGATE = Aggregate()


def _names(text: str | None, parameter: str) -> list[str]:
    """The names in a parameter, separated by commas. Raises BadRequest."""
    if text is None:
        return []
    if len(text.encode()) > MAX_PATH_BYTES:
        raise BadRequest("bad-parameter", f"{parameter} has more than {MAX_PATH_BYTES} bytes.")
    names = split_names(text)
    if len(names) > MAX_FIELDS or len(set(names)) < len(names):
        raise BadRequest(
            "bad-parameter", f"{parameter} has at most {MAX_FIELDS} names, each of them once."
        )
    return names


def _is_path(text: str | None) -> bool:
    """Whether earlier releases understand the parameter as this one does."""
    if text is None:
        return True
    first, _, rest = text.partition(".")
    is_one_path = '"' not in text and "," not in text
    return is_one_path and first not in OF_ENTRIES and not (first == "value" and rest)


def _number_field(view: View, name: str) -> NumberField:
    if not name:
        return NumberField(view, None, "value")
    field = EntryField(view, name, "value")
    if field.variable != ROW:
        raise BadRequest("bad-parameter", f"value: {name} is not a field of the value.")
    return NumberField(view, field.path or None, "value")


def _item(name: bytes, totals: Totals, fields: _Fields) -> bytes:
    members = [b'"group":%b,"entries":%d' % (name, totals[0].entries)]
    if len(fields.numbers) == 1:
        members.append(_members(totals[0]))
    elif fields.numbers:
        of_fields = zip(fields.names, totals, strict=False)
        members.append(b'"values":{%b}' % b",".join([_named(*each) for each in of_fields]))
    if fields.non_null:
        counts = totals[len(fields.numbers) :]
        of_fields = zip(fields.non_null_names, counts, strict=True)
        pairs = [b"%b:%d" % (orjson.dumps(each), numbers.count) for each, numbers in of_fields]
        members.append(b'"non_null":{%b}' % b",".join(pairs))
    return b"{%b}" % b",".join(members)


def _named(name: str, numbers: Numbers) -> bytes:
    return b"%b:{%b}" % (orjson.dumps(name), _members(numbers))


def _members(numbers: Numbers) -> bytes:
    return b'"count":%d,"sum":%b,"min":%b,"max":%b,"avg":%b' % (
        numbers.count,
        number_json(numbers.sum),
        number_json(numbers.least),
        number_json(numbers.greatest),
        number_json(numbers.average),
    )
