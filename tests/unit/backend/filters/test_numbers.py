"""How conditions read numbers: fields without a declared type, and formats that quote numbers."""

from __future__ import annotations

import decimal
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from model.formats.protobuf.codecs import definition
from model.formats.protobuf.schema import from_descriptor_set
from model.indexes.declaration import parse_indexes
from model.rows.declared_fields import parse_declared_fields
from model.views import View
from tests.support.in_process.avro_examples import binary
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.protobuf_examples import DESCRIPTORS, order
from tests.support.in_process.world import world
from tests.unit.backend.unreadable.applied import put

PRICED = {
    "type": "record",
    "name": "Priced",
    "fields": [
        {
            "name": name,
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2},
        }
        for name in ("price", "cost")
    ] + [{"name": "zip", "type": "string"}],
}  # fmt: skip


def avro() -> View:
    return view(value="avro", value_schema=json.dumps(PRICED))


def priced(price: str, cost: str) -> bytes:
    amounts = {"price": decimal.Decimal(price), "cost": decimal.Decimal(cost)}
    return binary(PRICED, {**amounts, "zip": "007"})


def keys_of(folder: Path, of: View, values: dict[bytes, bytes], where: str) -> list[Any]:
    with world(folder, of) as made:
        made.put_all(values)  # type: ignore[arg-type]
        answer = made.ask(f"keys?where={quote(where)}")
        assert answer.status == 200, answer.body
        return [item["key"] for item in answer.json["items"]]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("price > 5", ["b", "c"]),
        ("price = 9.50", ["b"]),
        ("price in (4, 9.5)", ["a", "b"]),
        ("price between 4 and 9.5", ["a", "b"]),
        ("price < cost", ["b"]),
        ("price = cost", ["c"]),
        ("price = 9007199254740993", ["c"]),
        ("coalesce(price, 0) > 5", ["b", "c"]),
        ("price = '9.50'", ["b"]),
        ("zip = '007' and not zip = '7'", ["a", "b", "c"]),
    ],
)
def test_avro_decimals_are_numbers(tmp_path: Path, where: str, keys: list[str]) -> None:
    rows = {
        b"a": priced("4", "3.75"),
        b"b": priced("9.50", "10"),
        b"c": priced("9007199254740993", "9007199254740993"),
    }
    assert keys_of(tmp_path, avro(), rows, where) == keys


@pytest.mark.parametrize(("type_", "key"), [("decimal(2)", "b"), ("double", "b")])
def test_declared_decimals(tmp_path: Path, type_: str, key: str) -> None:
    of = replace(avro(), fields=parse_declared_fields({"price": type_}))
    rows = {b"a": priced("4", "1"), b"b": priced("9.50", "1")}
    assert keys_of(tmp_path, of, rows, "price > 5 and price = 9.5") == [key]


@pytest.mark.parametrize("names", [(), ("sizes",)], ids=["scan", "index"])
def test_a_list_of_quoted_numbers(tmp_path: Path, names: tuple[str, ...]) -> None:
    items = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}
    field = {"name": "sizes", "type": {"type": "array", "items": items}}
    schema = {"type": "record", "name": "Sized", "fields": [field]}
    declared = parse_declared_fields({"sizes": "longs"})
    of = replace(
        view(value="avro", value_schema=json.dumps(schema)),
        fields=declared,
        indexes=parse_indexes({name: [name] for name in names}, declared) if names else (),
    )
    rows = {
        key: binary(schema, {"sizes": [decimal.Decimal(size) for size in sizes]})
        for key, sizes in ((b"a", ["7", "2"]), (b"b", ["9007199254740993"]), (b"c", [2**64]))
    }
    with world(tmp_path, of) as made:
        for key, value in rows.items():
            put(made, key, value)
        for where, expected in (
            ("contains(sizes, 7)", ["a"]),
            ("contains(sizes, 9007199254740993)", ["b"]),
            ("sizes is null", ["c"]),
        ):
            answer = made.ask(f"keys?where={quote(where)}")
            assert [item["key"] for item in answer.json["items"]] == expected
            assert answer.named[b"plan"].startswith(b"index") == bool(names)


@pytest.mark.parametrize("fields", [None, {"orderId": "long"}, {"orderId": "time ms"}])
def test_integers_of_protobuf_are_numbers(tmp_path: Path, fields: dict[str, str] | None) -> None:
    file = from_descriptor_set(DESCRIPTORS)
    of = view(value="protobuf", value_schema=definition("shop.Order", file))
    if fields is not None:
        of = replace(of, fields=parse_declared_fields(fields))
    rows = {b"a": order(order_id=9), b"b": order(order_id=2**40)}
    at = "timestamp '1970-01-01T00:00:00.010Z'"
    bound = at if fields == {"orderId": "time ms"} else "10"
    assert keys_of(tmp_path, of, rows, f"orderId > {bound}") == ["b"]
    assert keys_of(tmp_path / "less", of, rows, f"orderId < {bound}") == ["a"]


def test_texts_in_json_are_no_numbers(tmp_path: Path) -> None:
    rows = {b"a": b'{"n":"61","m":"7"}', b"b": b'{"n":61,"m":7}'}
    assert keys_of(tmp_path, ORDERS, rows, "n > 60") == ["b"]
    assert keys_of(tmp_path / "texts", ORDERS, rows, "n < m") == ["a"]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("coalesce(n, 0) > 60", ["b"]),
        ("coalesce(n, 60.1) > 60", ["b", "c", "d"]),
        ("coalesce(n, 60.1) = 60.1", ["c", "d"]),
        ("coalesce(n, 60.1) in (60.1, 2)", ["c", "d"]),
        ("case when key = 'd' then 0.5 else n end = 60.5", ["b"]),
        ("case when key = 'd' then 0 else n end >= 0", ["a", "b", "d"]),
        ("coalesce(n, m, 7) = 7", ["c"]),
        ("n + 1 > 61", ["b"]),
        ("n / 2 = 30.25", ["b"]),
        ("n % 7 = 4 or mod(n, 7) = 4", ["a"]),
        ("floor(n) = 60", ["a", "b"]),
        ("abs(m) > 1", ["d"]),
    ],
)
def test_a_choice_of_numbers_is_a_number(tmp_path: Path, where: str, keys: list[str]) -> None:
    """Fields without a declared type: 60.5 is a number, though 0 is a whole one."""
    rows = {b"a": b'{"n":60}', b"b": b'{"n":60.5}', b"c": b'{"n":null}', b"d": b'{"m":1.5}'}
    assert keys_of(tmp_path, ORDERS, rows, where) == keys


def test_booleans_are_no_numbers(tmp_path: Path) -> None:
    rows = {b"a": b'{"n":true,"m":1}', b"b": b'{"n":1,"m":1}'}
    assert keys_of(tmp_path, ORDERS, rows, "n = 1") == ["b"]
    assert keys_of(tmp_path / "in", ORDERS, rows, "n in (1, 2)") == ["b"]
    assert keys_of(tmp_path / "true", ORDERS, rows, "n = true") == ["a"]
    assert keys_of(tmp_path / "same", ORDERS, rows, "n = m") == ["b"]


def test_a_time_without_a_declared_type_is_a_text(tmp_path: Path) -> None:
    rows = {b"a": b'{"at":"1970-01-01T00:00:00Z"}', b"b": b'{"at":"2000-01-01T00:00:00Z"}',
            b"c": b'{"at":1}'}  # fmt: skip
    assert keys_of(tmp_path, ORDERS, rows, "at < record_timestamp") == ["a"]
    assert keys_of(tmp_path / "year", ORDERS, rows, "extract(year from at) = 2000") == ["b"]
    assert keys_of(tmp_path / "unix", ORDERS, rows, "unix_seconds(at) = 0") == ["a"]
    where = "at >= timestamp '1999-01-01T00:00:00Z'"
    assert keys_of(tmp_path / "literal", ORDERS, rows, where) == ["b"]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("try_cast(n as double) > 60", ["b", "c", "d"]),
        ("try_cast(n as long) = 61", ["b", "c"]),
        ("try_cast(n as string) = '61'", ["b", "c"]),
        ("try_cast(n as boolean)", ["e"]),
        ("try_cast(n as long) is null", ["d", "e", "f", "g"]),
    ],
)
def test_a_cast_reads_texts_and_numbers(tmp_path: Path, where: str, keys: list[str]) -> None:
    rows = {b"a": b'{"n":"7"}', b"b": b'{"n":61}', b"c": b'{"n":"61"}', b"d": b'{"n":60.5}',
            b"e": b'{"n":true}', b"f": b'{"n":[61]}', b"g": b'{}'}  # fmt: skip
    assert keys_of(tmp_path, ORDERS, rows, where) == keys


def test_the_reason_is_that_of_the_likeliest_type(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS) as made:
        for where, reason in (
            ("a like '%a%b%c%d%'", "at most two %"),
            ("round(a, 2) = 1", "decimals"),
            ("substring(a, 0) = 'x'", "from 1"),
        ):
            answer = made.ask(f"keys?where={quote(where)}")
            assert answer.status == 400
            assert reason in answer.json["detail"]
            assert "without a declared type" not in answer.json["detail"]
