"""Views with types: the handles of both clients, and the conversion between JSON and types."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pydantic
import pytest

from queryable import (
    Appended,
    AsyncRows,
    BadUse,
    Change,
    Client,
    Entry,
    Rows,
    Session,
    UnexpectedValue,
    Version,
    Window,
)
from queryable.client.methods import AsyncRunner
from queryable.client.protocol.transport import Call
from queryable.client.typed_conversion import Mismatch, reader_of, to_document
from queryable.client.typed_views import AsyncTypedView, TypedView
from tests.support.clients.scripted_transport import (
    Driver,
    Reply,
    ScriptedStream,
    ok,
    orders,
    problem,
)

ID = UUID(int=7)


class Colour(Enum):
    RED = "red"


@dataclass
class Place:
    city: str
    zip: int | None = None


@dataclass(frozen=True)
class Order:
    item: str
    amount: int
    price: Decimal = Decimal(0)
    at: datetime | None = None
    id: UUID | None = None
    colour: Colour | None = None
    kind: Literal["new", "old"] = "new"
    places: list[Place] = field(default_factory=list)
    more: dict[str, float] = field(default_factory=dict)


class Model(pydantic.BaseModel):
    item: str
    amount: int


FULL = {
    "item": "tea", "amount": 2, "price": "2.50", "at": "2013-01-01T00:00:00+00:00", "id": str(ID),
    "colour": "red", "kind": "old", "places": [{"city": "A", "zip": None}, {"city": "B", "zip": 7}],
    "more": {"x": 1.5},
}  # fmt: skip


def test_a_dataclass_is_read_and_written() -> None:
    order = reader_of(Order)(FULL)
    assert order == Order(
        "tea", 2, Decimal("2.50"), datetime(2013, 1, 1, tzinfo=UTC), ID, Colour.RED, "old",
        [Place("A"), Place("B", 7)], {"x": 1.5},
    )  # fmt: skip
    assert to_document(order) == FULL
    # fields that the class does not have are left out
    assert reader_of(Order)({"item": "a", "amount": 1, "new": True}) == Order("a", 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"amount": "2"}, ".amount: expected int, not '2'"),
        ({"amount": True}, ".amount: expected int, not True"),
        ({"price": 2.5}, ".price: expected Decimal as text, not 2.5"),
        ({"at": "yesterday"}, ".at: expected datetime.datetime | None, not 'yesterday'"),
        ({"colour": "blue"}, ".colour: expected "),
        ({"kind": "odd"}, ".kind: expected one of 'new', 'old', not 'odd'"),
        ({"places": [{"city": "A"}, {"zip": 1}]}, ".places[1].city: is missing"),
        ({"more": {"x": "1"}}, ".more.x: expected float, not '1'"),
        ({"places": None}, ".places: expected list, not None"),
    ],
)
def test_a_mismatch_names_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Mismatch) as raised:
        reader_of(Order)({**FULL, **change})
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("library", ["pydantic", "msgspec"])
def test_models_of_libraries(library: str) -> None:
    if library == "pydantic":
        kind: Any = Model
    else:
        msgspec = pytest.importorskip("msgspec")
        kind = msgspec.defstruct("Struct", [("item", str), ("amount", int)])
    read = reader_of(kind)
    value = read({"item": "tea", "amount": 2})
    assert isinstance(value, kind)
    assert to_document(value) == {"item": "tea", "amount": 2}
    assert to_document([value]) == [{"item": "tea", "amount": 2}]
    with pytest.raises(Mismatch, match=f"not a valid {kind.__name__}: .*amount"):
        read({"item": "tea", "amount": "many"})


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (str, "a", 1), (int, 1, 1.0), (float, 1, "1"), (float, 0.5, 10**400), (bool, False, 0),
        (bytes, b"a", "a"), (UUID, ID, "7"), (dict[str, int], {"a": 1}, {"a": "1"}),
        (list[int | None], [1, None], [""]), (dict, {}, []), (None, None, 0),
    ],
)  # fmt: skip
def test_other_types(kind: Any, good: Any, bad: Any) -> None:
    assert reader_of(kind)(good) == good
    with pytest.raises(Mismatch):
        reader_of(kind)(bad)


@pytest.mark.parametrize("kind", [set, dict[int, str], complex, tuple[int, int], "Order"])
def test_a_type_that_is_not_supported_is_an_error_at_once(kind: Any) -> None:
    with pytest.raises(BadUse, match="not a supported type"):
        Client("http://127.0.0.1:9").view("orders", key=str, value=kind)


@dataclass
class Wide:
    item: str
    amount: int


@dataclass
class Narrow:
    item: str


def test_the_first_type_of_a_union_that_fits_is_used() -> None:
    """Unions are equal in any order of their types."""
    document = {"item": "tea", "amount": 2}
    assert reader_of(Narrow | Wide)(document) == Narrow("tea")
    assert reader_of(Wide | Narrow)(document) == Wide("tea", 2)
    assert reader_of(list[Narrow | Wide])([document]) == [Narrow("tea")]
    assert reader_of(list[Wide | Narrow])([document]) == [Wide("tea", 2)]


class AsyncDriver(AsyncRunner):
    def __init__(self, driver: Driver) -> None:
        self._context = driver.context
        self._driver = driver

    async def _run(self, call: Call[Any]) -> Any:
        return self._driver.run(call)


def outcome(result: Any) -> Any:
    """The result of a method of either handle. Of rows: the first."""

    async def waited() -> Any:
        return await (anext(aiter(result)) if isinstance(result, AsyncRows) else result)

    if isinstance(result, Rows):
        return next(iter(result))
    if isinstance(result, AsyncRows) or asyncio.iscoroutine(result):
        return asyncio.run(waited())
    return result


def page(**fields: Any) -> Reply:
    """One row."""
    return ok({"items": [{"value": {"city": "A"}, **fields}], "next": None})


A, RED = Place("A"), Colour.RED
EVENT = b'id: 2:4\ndata: {"key": "red", "value": {"city": "A"}}\n\n'
WRITTEN = ok({"partition": 2, "offset": 4})
KEY = "/views/orders/keys/red"
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], Reply, str, Any]] = [
    ("get", (RED,), {"stale": "allow"}, ok({"value": {"city": "A"}}), f"{KEY}?stale=allow", A),
    ("get", (RED,), {}, problem(404, "key-not-found"), KEY, None),
    ("get_many", ([RED],), {}, page(status=200), '/views/orders/batch {"keys":["red"]}', {RED: A}),
    ("scan", (), {"from_": RED, "limit": 1}, page(key="red"),
     "/views/orders/keys?from=red&order=asc&limit=1", Entry(RED, A)),
    ("windows", (RED,), {"from_": 5}, page(start=5, end=6, sequence=0),
     f"{KEY}/windows?from=5&order=asc&limit=1000", Window(RED, 5, 6, 0, A)),
    ("windows", (), {}, page(key="red", start=5, end=6, sequence=0),
     "/views/orders/windows?order=asc&limit=1000", Window(RED, 5, 6, 0, A)),
    ("sessions", (RED,), {"to": 9}, page(start=5, end=6),
     f"{KEY}/sessions?to=9&order=asc&limit=1000", Session(RED, 5, 6, A)),
    ("versions", (RED,), {"order": "desc"}, page(valid_from=5, valid_to=None),
     f"{KEY}/versions?order=desc&limit=1000", Version(RED, 5, None, A)),
    ("changes", (RED,), {}, ScriptedStream([EVENT]), f"{KEY}/changes", Change(RED, A, False, 2, 4)),
    ("count", (), {}, ok({"count": 2, "exact": False}), "/views/orders/count", None),
    ("append", (RED, A), {}, WRITTEN,
     '/topics/orders/records {"key":"red","value":{"city":"A","zip":null}}', Appended(2, 4)),
    ("delete", (RED,), {}, WRITTEN, '/topics/orders/records {"key":"red"}', Appended(2, 4)),
]  # fmt: skip


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("name", "args", "options", "reply", "target", "expected"),
    CALLS, ids=[call[0] for call in CALLS],
)  # fmt: skip
def test_both_handles_convert_keys_and_values(
    name: str, args: Any, options: Any, reply: Reply, target: str, expected: Any, is_async: bool
) -> None:
    driver = orders(deepcopy(reply))
    handle: Any = TypedView(driver, "orders", Colour, Place)
    if is_async:
        handle = AsyncTypedView(AsyncDriver(driver), "orders", Colour, Place)
    found = outcome(getattr(handle, name)(*args, **options))
    if name == "count":
        assert (found.count, found.is_exact) == (2, False)
    else:
        assert (found, type(found)) == (expected, type(expected))
    [sent] = driver.requests
    assert f"{sent.target} {(sent.body or b'').decode()}".rstrip() == target


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"key": "blue"}, "View orders, key 'blue': expected one of 'red', not 'blue'."),
        ({"value": {}}, "View orders, value of key 'red': .city: is missing."),
    ],
)
def test_a_row_of_another_type_is_an_error(fields: dict[str, Any], message: str) -> None:
    view = TypedView(orders(page(**{"key": "red", **fields})), "orders", Colour, Place)
    with pytest.raises(UnexpectedValue) as raised:
        list(view.scan())
    assert raised.value.detail == message
