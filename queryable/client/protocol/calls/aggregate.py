"""Numbers of a view by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from queryable.client.protocol.answers import Source
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.parameters import Fields, Order, Parameters, Stale, Time
from queryable.client.protocol.requests import ApiRequest
from queryable.client.protocol.responses import decoding, json_of, number_from_json
from queryable.client.protocol.transport import Call

Number = int | float
_NUMBERS = ("count", "sum", "min", "max", "avg")


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of one field in a group. `count`: the entries with a number; if it is 0, the
    others are None."""

    count: int
    sum: Number | None
    min: Number | None
    max: Number | None
    avg: float | None


@dataclass(frozen=True, slots=True)
class Group:
    """The numbers of one group.

    `group`: the JSON value of the field; a list of them, if there are several fields. `entries`:
    all entries of the group. `count`: those with a number; if it is 0, `sum`, `min`, `max` and
    `avg` are None. If the query only counts entries, or has several fields with numbers, `count` is
    None, too: `values` has the numbers by field then. `non_null`: the numbers of values by field.
    """

    group: Any
    entries: int
    count: int | None
    sum: Number | None
    min: Number | None
    max: Number | None
    avg: float | None
    values: Mapping[str, Numbers] = field(default_factory=dict)
    non_null: Mapping[str, int] = field(default_factory=dict)


class Groups(list[Group]):
    """Groups, by default in order: None, False, True, numbers, texts, other JSON. `unreadable`: the
    number of entries in no group because their values cannot be read."""

    def __init__(self, groups: Iterable[Group], source: Source, unreadable: int = 0) -> None:
        super().__init__(groups)
        self.source = source
        self.unreadable = unreadable


def aggregate(
    context: ClientContext,
    view: str,
    by: Fields | None = None,
    value: Fields | None = None,
    *,
    non_null: Fields | None = None,
    from_: Time | None = None,
    to: Time | None = None,
    where: str | None = None,
    max_examined: int | None = None,
    order_by: str | None = None,
    order: Order | None = None,
    limit: int | None = None,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[Groups]:
    """Count, sum, minimum, maximum and average of the fields `value`, by the fields `by`. Without
    `by`, all entries are one group. Without `value`, the values themselves are the numbers, or
    entries are counted. `non_null`: fields; the values in them that are not null are counted.
    `from_`, `to`: the times of windows or sessions, as for `windows` and `sessions`. `where`: a
    condition, such as "dest = 'ATL'". `max_examined` bounds how many entries are read.

    `order_by`, `order`, `limit`: the first groups by one of their numbers: by default by the sum,
    or by `entries` if these are only counted, the greatest first. If `value` has several fields,
    `order_by` is such as "avg(delay)"."""
    deadline = context.deadline(timeout)
    view_info = yield from context.view_to_read(view, deadline)
    query = (
        Parameters()
        .add_names("by", by)
        .add_names("value", value)
        .add_names("non_null", non_null)
        .add_time("from", from_)
        .add_time("to", to)
        .add("order_by", order_by)
        .add("order", order)
        .add("limit", limit)
        .add_filter(where, max_examined=max_examined)
        .add("stale", stale)
    )
    request = ApiRequest(query.append_to(f"/views/{view_info.name}/aggregate"))
    response = yield from context.send(request, deadline)
    document = json_of(response)
    with decoding():
        unreadable = int(document.get("unreadable", 0))
        return Groups(map(_group, document["items"]), Source(response.headers), unreadable)


def _group(item: dict[str, Any]) -> Group:
    values = {name: Numbers(*_numbers(numbers)) for name, numbers in item.get("values", {}).items()}
    count, sum_, min_, max_, avg = _numbers(item)
    non_null = item.get("non_null", {})
    return Group(item["group"], item["entries"], count, sum_, min_, max_, avg, values, non_null)


def _numbers(item: dict[str, Any]) -> list[Any]:
    return [number_from_json(item.get(name)) for name in _NUMBERS]
