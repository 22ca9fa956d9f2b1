"""Numbers of a view by group: entries, count, sum, minimum, maximum and average."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from backend.queries.filters.parameters import FILTERS, with_filters
from backend.queries.parameters import Parameters
from backend.queries.scans.reducer import Reducer
from backend.queries.scans.scatter_gather import ScatterGather
from backend.queries.stores import KEYS, refuse_custom
from backend.queries.turns import in_steps
from backend.queries.whole_view.fields import Number, NumberField, ValueField
from backend.queries.whole_view.group_names import name_of, place
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
from model.problems import BadRequest
from model.records import ENTRY_HEAD_SIZE
from model.rows.documents import Documents
from model.rows.row_view import Pair
from model.views import View

MAX_GROUPS = 10_000
MAX_GROUP_BYTES = 4 << 20  # of all groups' names together
_NO_HEAD = bytes(ENTRY_HEAD_SIZE)  # a group is not a record


class _Arguments(BaseModel):
    """`by`: the field to group by (None: one group of all). `value`: the field with numbers.
    `decimals`: whether the field's texts of digits are numbers. Instances of earlier releases
    refuse this argument: they would say that there are no numbers."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    by: str | None
    value: str | None
    decimals: bool = False

    def group_field(self, view: View) -> ValueField | None:
        """Raises BadRequest if the values have no fields."""
        return None if self.by is None else ValueField(view, self.by, "by")

    def number_field(self, view: View) -> NumberField | None:
        """None if entries are only counted. Raises BadRequest if the view has no such numbers."""
        if self.value is None and not view.value_codec.is_number:
            return None
        return NumberField(view, self.value, "value")


class _Groups:
    """Numbers by the JSON text of their group, in bounded memory."""

    def __init__(self) -> None:
        self.by_name: dict[bytes, Numbers] = {}
        self.is_complete = True
        self._bytes = 0

    def numbers(self, name: bytes) -> Numbers | None:
        """The numbers of a group; None if there are too many groups."""
        numbers = self.by_name.get(name)
        if numbers is None:
            self._bytes += len(name)
            if len(self.by_name) >= MAX_GROUPS or self._bytes > MAX_GROUP_BYTES:
                self.is_complete = False
                return None
            numbers = self.by_name[name] = Numbers()
        return numbers


class _Aggregator:
    """The groups of one partition."""

    def __init__(self, view: View, arguments: _Arguments) -> None:
        self._documents = Documents(view)
        self._group = arguments.group_field(view)
        self._number = arguments.number_field(view)
        self._groups = _Groups()
        self._of_text: dict[str, Numbers] = {}  # most groups are texts

    def add(self, pairs: list[Pair]) -> None:
        if self._group is None and self._number is None:
            self._count_all(len(pairs))
            return
        documents = self._documents.parse([stored[ENTRY_HEAD_SIZE:] for _, stored in pairs])
        nothing = [None] * len(documents)
        groups = nothing if self._group is None else self._group.values(documents)
        numbers = nothing if self._number is None else self._number.values(documents)
        for group, number in zip(groups, numbers, strict=True):
            total = (self._of_text.get(group) if type(group) is str else None) or self._of(group)
            if total is None:
                return
            total.entries += 1
            if number is not None:
                total.add(number)

    def _of(self, group: object) -> Numbers | None:
        numbers = self._groups.numbers(name_of(group))
        if numbers is not None and type(group) is str:
            self._of_text[group] = numbers
        return numbers

    def _count_all(self, entries: int) -> None:
        if not entries:
            return  # there is no group without entries
        numbers = self._of(None)
        assert numbers is not None
        numbers.entries += entries

    async def fill(self, response: ScanResponse) -> None:
        """One row per group: its name, and its numbers."""
        groups = self._groups
        if self._number is not None and self._number.text is not None:
            for numbers in groups.by_name.values():
                numbers.text = self._number.text if not numbers.count else None
        async for piece in in_steps(groups.by_name.items()):
            response.rows += [(name, _NO_HEAD, numbers.to_wire()) for name, numbers in piece]
        response.complete = groups.is_complete


class _AggregateMerger:
    def __init__(self) -> None:
        self._groups = _Groups()

    async def add(self, response: ScanResponse) -> None:
        async for piece in in_steps(response.rows):
            for name, _, item in piece:
                numbers = self._groups.numbers(name)
                if numbers is not None:
                    numbers.merge(Numbers.from_wire(item))
        if not (response.complete and self._groups.is_complete):
            raise BadRequest(
                "too-many-entries",
                f"by= has more than {MAX_GROUPS} different values, or more than "
                f"{MAX_GROUP_BYTES >> 20} MiB of them. Group by a field with fewer values.",
            )

    @property
    def text(self) -> str | None:
        """A text that stands instead of a number, if there is no number."""
        groups = self._groups.by_name.values()
        if any(numbers.count for numbers in groups):
            return None
        return next((numbers.text for numbers in groups if numbers.text), None)

    async def items(self, with_numbers: bool, order: _Order | None) -> list[bytes]:
        """The items in this order; without one, in the order of their groups."""
        names = await self._names()
        if order is not None:
            names = await order.first(names, self._groups.by_name)
        items: list[bytes] = []
        async for piece in in_steps(names):
            items += [_item(name, self._groups.by_name[name], with_numbers) for name in piece]
        return items

    async def _names(self) -> list[bytes]:
        """The groups in order: null, false, true, numbers, texts, then others by their JSON."""
        by_rank: dict[int, tuple[list[Any], list[bytes]]] = {}
        async for piece in in_steps(self._groups.by_name):
            for name in piece:
                rank, value = place(name)
                values, names = by_rank.setdefault(rank, ([], []))
                values.append(value)
                names.append(name)
        in_order: list[bytes] = []
        for rank in sorted(by_rank):
            values, names = by_rank[rank]
            # values of one type only, which is the fastest to sort
            in_order += [names[n] for n in sorted(range(len(values)), key=values.__getitem__)]
        return in_order


@dataclass(frozen=True)
class _Order:
    """The order of groups by one of their numbers, and how many of them are wanted."""

    PARAMETERS: ClassVar = ("order_by", "order", "limit")

    order_by: str
    descending: bool
    limit: int | None

    @staticmethod
    def parse(parameters: Parameters, with_numbers: bool) -> _Order | None:
        """None if the request has no such parameters. Raises BadRequest."""
        if not any(parameters.raw(name) is not None for name in _Order.PARAMETERS):
            return None
        default = SUM if with_numbers else ENTRIES
        order_by = parameters.choice("order_by", *dict.fromkeys((default, *ORDERS)))
        if order_by != ENTRIES and not with_numbers:
            raise BadRequest(
                "bad-parameter",
                f"order_by={order_by} needs numbers: name their field with value, or use "
                f"order_by={ENTRIES}.",
            )
        limit = None if parameters.raw("limit") is None else parameters.limit()
        return _Order(order_by, is_descending(parameters), limit)

    async def first(self, names: list[bytes], groups: Mapping[bytes, Numbers]) -> list[bytes]:
        """The first groups. Those without a number are last; equal ones stay in their order."""
        ranked: list[tuple[Number, bytes]] = []
        others: list[bytes] = []
        async for piece in in_steps(names):
            for name in piece:
                rank = rank_of(number_of(groups[name], self.order_by), self.descending)
                if rank is None:
                    others.append(name)
                else:
                    ranked.append((rank, name))
        ranked.sort(key=itemgetter(0))
        return [*(name for _, name in ranked), *others][: self.limit]


class Aggregate:
    """`by`: the field to group by. `value`: the field with numbers. `order_by`, `order` and
    `limit`: the first groups by one of their numbers."""

    name = "aggregate"
    parameters = ("by", "value", "from", "to", *_Order.PARAMETERS, "stale", *FILTERS)

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
        value = parameters.text("value")
        arguments = _Arguments(
            by=parameters.text("by"),
            value=value,
            decimals=value is not None and view.value_codec.quotes_numbers,
        )
        arguments.group_field(view)
        number = arguments.number_field(view)
        with_numbers = number is not None
        order = _Order.parse(parameters, with_numbers)
        reduction = Reduction(
            self,
            query,
            _AggregateMerger,
            MAX_GROUPS,
            arguments.model_dump(exclude_defaults=True),
            needs_values=with_numbers or arguments.by is not None,
        )
        merged, freshness = await reduction.run(scatter_gather, view)
        if number is not None and merged.text is not None:
            raise number.refusal("value", merged.text)
        items = b",".join(await merged.items(with_numbers, order))
        return QueryResult(b'{"items":[%b]}' % items, freshness)

    def reducer(self, view: View, arguments: Mapping[str, Any]) -> Reducer:
        refuse_custom(view)
        return _Aggregator(view, _Arguments.model_validate(arguments))


AGGREGATE = Aggregate()


def _item(name: bytes, numbers: Numbers, with_numbers: bool) -> bytes:
    if not with_numbers:
        return b'{"group":%b,"entries":%d}' % (name, numbers.entries)
    return b'{"group":%b,"entries":%d,"count":%d,"sum":%b,"min":%b,"max":%b,"avg":%b}' % (
        name,
        numbers.entries,
        numbers.count,
        number_json(numbers.sum),
        number_json(numbers.least),
        number_json(numbers.greatest),
        number_json(numbers.average),
    )
