"""Conversion between JSON and types. test_answers.py has the handles of both clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pydantic
import pytest

from queryable import BadUse, Client
from queryable.client.typed.conversion import Mismatch, nested_document, reader_of

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
    assert nested_document(order) == FULL
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
    assert nested_document(value) == {"item": "tea", "amount": 2}
    assert nested_document([value]) == [{"item": "tea", "amount": 2}]
    with pytest.raises(Mismatch, match=f"not a valid {kind.__name__}: .*amount"):
        read({"item": "tea", "amount": "many"})


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (str, "a", 1), (int, 1, 1.0), (float, 1, "1"), (bool, False, 0), (bytes, b"a", "a"),
        (UUID, ID, "7"), (dict[str, int], {"a": 1}, {"a": "1"}),
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
