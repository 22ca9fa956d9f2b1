"""Numbers of a view by group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from queryable.client.protocol.answers import Source
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.parameters import Order, OrderBy, Parameters, Stale, Time
from queryable.client.protocol.requests import ApiRequest
from queryable.client.protocol.responses import decoding, json_of, number_from_json
from queryable.client.protocol.transport import Call

Number = int | float


@dataclass(frozen=True, slots=True)
class Group:
    """The numbers of one group.

    `group`: the JSON value of the field. `entries`: all entries of the group. `count`: those with a
    number; if it is 0, `sum`, `min`, `max` and `avg` are None. If the query only counts entries,
    `count` is None, too.
    """

    group: Any
    entries: int
    count: int | None
    sum: Number | None
    min: Number | None
    max: Number | None
    avg: float | None


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
    by: str | None = None,
    value: str | None = None,
    *,
    from_: Time | None = None,
    to: Time | None = None,
    where: str | None = None,
    max_examined: int | None = None,
    order_by: OrderBy | None = None,
    order: Order | None = None,
    limit: int | None = None,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[Groups]:
    """Count, sum, minimum, maximum and average of the field `value`, by the field `by`. Without
    `by`, all entries are one group. Without `value`, the values themselves are the numbers, or
    entries are counted. `from_`, `to`: the times of windows or sessions, as for `windows` and
    `sessions`. `where`: a condition, such as "dest = 'ATL'". `max_examined` bounds how many entries
    are read.

    `order_by`, `order`, `limit`: the first groups by one of their numbers: by default by the sum,
    or by `entries` if these are only counted, the greatest first."""
    deadline = context.deadline(timeout)
    view_info = yield from context.view_to_read(view, deadline)
    query = (
        Parameters()
        .add("by", by)
        .add("value", value)
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
    numbers = (number_from_json(item.get(name)) for name in ("count", "sum", "min", "max", "avg"))
    return Group(item["group"], item["entries"], *numbers)
