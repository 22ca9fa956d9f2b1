"""The parameters with which all queries of whole views choose entries."""

from __future__ import annotations

from dataclasses import replace

from backend.queries.filters.condition import Condition, condition_of
from backend.queries.filters.index_plan import index_plan, order_index
from backend.queries.filters.names import path_of_value
from backend.queries.filters.plan import SCAN, key_range, plan_of
from backend.queries.filters.selection import selection_of
from backend.queries.parameters import Parameters, whole_number
from backend.wire.scan import Query
from model.indexes.declaration import DeclaredIndex
from model.problems import BadRequest
from model.views import BOUNDED, View

FILTERS = ("where", "max_examined", "explain", "offsets")
SELECT = "select"
ORDER_BY = "order_by"


def with_filters(
    view: View,
    parameters: Parameters,
    query: Query,
    is_estimate: bool = False,
    by_value: str | None = None,
    order_by: str | None = None,
) -> Query:
    """The query for the entries that meet `where`. `is_estimate`: without a condition, the answer
    is an estimate, for which no entries are read. `by_value`: another condition, which an index
    must find. `order_by`: the field in whose order the rows come. Raises BadRequest."""
    most = parameters.parsed("max_examined", _at_least_one)
    is_named = False
    condition = None
    where, select = parameters.text("where"), parameters.text(SELECT)
    if where is not None:
        condition = _condition(view, where)
    if by_value is not None:
        where = by_value if where is None else f"{by_value} and ({where})"
        condition = _condition(view, where)
        query = replace(query, by_index=True)
    if where is not None and condition is not None:
        is_named = index_plan(view, condition) is not None
        low, high = key_range(view, condition.tree)
        query = replace(
            query,
            low=max(query.low, low),
            high=min(query.high, high),
            where=where,
            fields=view.fields_hash,
        )
    if order_by is not None:
        index = _order_index(view, condition, order_by)
        is_named = True
        query = replace(query, order_by=index.field_names, fields=view.fields_hash)
    if select is not None:
        try:
            selection_of(view, select)
        except ValueError as e:
            raise BadRequest("bad-parameter", f"select: {e}.") from None
    query = replace(query, select=select, max_examined=most)
    reads_all = plan_of(query.low, query.high) == SCAN and not (is_estimate and where is None)
    if view.scans == BOUNDED and reads_all and not is_named:
        raise BadRequest(
            "no-index",
            f"View {view.name} refuses queries that read all its entries (scans = "
            f'"{BOUNDED}"): give a range of keys, or a condition on the key.',
        )
    return query


def _condition(view: View, text: str) -> Condition:
    try:
        return condition_of(view, text)
    except ValueError as e:
        raise BadRequest("bad-parameter", f"where: {e}.") from None


def _order_index(view: View, condition: Condition | None, text: str) -> DeclaredIndex:
    """The index for rows in the order of a field. Raises BadRequest."""
    try:
        path = path_of_value(text)
    except ValueError as e:
        raise BadRequest("bad-parameter", f"order_by: {e}.") from None
    index = order_index(view, condition, path)
    if index is None:
        known = ", ".join(index.fields[0].name for index in view.indexes) or "there are none"
        raise BadRequest(
            "no-index",
            f"order_by={text[:60]}: view {view.name} has no index whose order this is. It begins "
            f"with this field, or with fields that the condition compares by = with one value; a "
            f"list is only before this field, and the condition says that it contains a value. "
            f"First fields of its indexes: {known}.",
        )
    return index


def wants(parameters: Parameters, name: str) -> bool:
    """Whether a flag is given: `explain` or `offsets`."""
    return parameters.choice(name, "false", "true") == "true"


def _at_least_one(text: str) -> int:
    number = whole_number(text)
    if number < 1:
        raise ValueError("it is at least 1")
    return number
