"""Numbers by group: exact sums in any order, groups of any JSON, and their bounds."""

from __future__ import annotations

import gc
import json
import math
import struct
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backend.queries import turns
from backend.queries.scans import partition_run, scan_budget
from backend.queries.whole_view import aggregate, groups
from backend.queries.whole_view.group_names import name_of
from backend.queries.whole_view.numbers import Numbers
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import PARTITIONS, World, world

finite = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)


def added(numbers: list[int | float]) -> Numbers:
    found = Numbers(entries=len(numbers))
    for number in numbers:
        found.add(number)
    return found


def rounded(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


@given(st.lists(st.lists(finite, max_size=6), min_size=1, max_size=4))
@example([[1e308, 1e308], [-1e308]])
@example([[1e308], [1e308, -5e-324]])
@example([[-1e308], [-1e308]])
@example([[1e16, 1.0], [-1e16]])
@example([[5e-324], [0.1, 0.2]])
@example([[2**64 - 1, 2**64 - 1], [1]])
def test_sums_are_exact_however_they_are_split(parts: list[list[int | float]]) -> None:
    merged = Numbers()
    for part in parts:
        merged.merge(Numbers.from_wire(added(part).to_wire()))
    numbers = [number for part in parts for number in part]
    assert (merged.entries, merged.count) == (len(numbers), len(numbers))
    if not numbers:
        assert (merged.sum, merged.average, merged.least, merged.greatest) == (None,) * 4
        return
    total = sum(map(Fraction, numbers), Fraction())
    if all(isinstance(number, int) for number in numbers):
        assert merged.sum == total
    else:
        assert merged.sum == rounded(total)
    assert merged.average == rounded(total / len(numbers))
    assert (merged.least, merged.greatest) == (min(numbers), max(numbers))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([math.inf, 1.5], math.inf), ([-math.inf, 7], -math.inf), ([math.inf, -math.inf], math.nan)],
)
def test_infinite_numbers(numbers: list[float], expected: float) -> None:
    found = Numbers()
    for number in numbers:
        found.merge(Numbers.from_wire(added([number]).to_wire()))
    for result in (found.sum, found.average):
        assert result == expected or (math.isnan(expected) and math.isnan(result or 0))
    assert (found.least, found.greatest) == (min(numbers), max(numbers))


@pytest.mark.parametrize("numbers", [[0.0, -0.0], [1, 1.0], [-0.0, 0, 0.0]])
def test_extremes_of_equal_numbers_do_not_depend_on_their_order(numbers: list[float]) -> None:
    expected = [
        repr(number) for number in sorted(numbers, key=lambda n: (math.copysign(1, n), repr(n)))
    ]
    for order in permutations(numbers):
        merged = Numbers()
        for number in order:
            merged.merge(added([number]))
        for found in (added(order), merged):
            assert [repr(found.least), repr(found.greatest)] == [expected[0], expected[-1]]


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as made:
        yield made


def group(name: Any, *numbers: int | float, entries: int | None = None) -> dict[str, Any]:
    """An item of the answer, computed another way."""
    return {
        "group": name,
        "entries": len(numbers) if entries is None else entries,
        "count": len(numbers),
        "sum": sum(numbers) if numbers else None,
        "min": min(numbers, default=None),
        "max": max(numbers, default=None),
        "avg": sum(numbers) / len(numbers) if numbers else None,
    }


def items(of: World, target: str) -> Any:
    """The same from both instances."""
    first, second = (of.ask(f"aggregate{target}", instance) for instance in ("b1", "b2"))
    assert first.status == second.status == 200, (first.body, second.body)
    assert first.body == second.body
    return json.loads(first.body)["items"]


def test_groups_of_all_partitions(orders: World) -> None:
    assert items(orders, "?by=region&value=n") == []
    orders.put_all(
        {b"%d" % n: b'{"region":"r%d","n":%d,"x":{"y":%d}}' % (n % 3, n, -n) for n in range(90)}
    )
    expected = [group(f"r{r}", *range(r, 90, 3)) for r in range(3)]
    assert items(orders, "?by=region&value=n") == expected
    assert [each["sum"] for each in items(orders, "?by=region&value=x.y")] == [
        -each["sum"] for each in expected
    ]
    assert items(orders, "?value=n") == [group(None, *range(90))]
    assert items(orders, "?by=region") == [{"group": f"r{r}", "entries": 30} for r in range(3)]
    assert items(orders, "") == [{"group": None, "entries": 90}]


def test_a_group_can_be_any_json_and_a_field_can_be_missing(orders: World) -> None:
    values = [
        b'{"g":1,"n":1}', b'{"g":1.0,"n":2}', b'{"g":true,"n":4}', b'{"g":"1","n":8}',
        b'{"g":null,"n":16}', b'{"n":32}', b"[]", b"7", b'{"g":false,"n":"many"}',
        b'{"g":{"a":1,"b":2},"n":64}', b'{"g":{"b":2,"a":1.0},"n":true}', b'{"g":[],"n":null}',
        b'{"g":-0.5,"n":128}', b'{"g":"","n":256}',
    ]  # fmt: skip
    orders.put_all({b"%d" % n: value for n, value in enumerate(values)})
    assert items(orders, "?by=g&value=n") == [
        group(None, 16, 32, entries=4), group(False, entries=1), group(True, 4), group(-0.5, 128),
        group(1, 1, 2), group("", 256), group("1", 8), group([], entries=1),
        group({"a": 1, "b": 2}, 64), group({"a": 1.0, "b": 2}, entries=1),
    ]  # fmt: skip


def test_equal_numbers_are_one_group_whatever_their_size(orders: World) -> None:
    values = [
        b"1e16", b"10000000000000000", b"9007199254740992", b"9007199254740992.0",
        b"9007199254740993", b"18446744073709551615", b"18446744073709551616", b"1e22", b"1E+22",
        b"10000000000000000000000", b"10000000000000000000001", b"-9223372036854775808.0",
        b"-9223372036854775808", b"-0.0", b"0", b"1e308", b"1%b" % (b"0" * 308),
    ]  # fmt: skip
    orders.put_all({b"%d" % n: b'{"g":%b}' % value for n, value in enumerate(values)})
    assert [(each["group"], each["entries"]) for each in items(orders, "?by=g")] == [
        (-(2**63), 2), (0, 2), (2**53, 2), (2**53 + 1, 1), (10**16, 2), (2**64 - 1, 1), (2**64, 1),
        (10**22, 3), (10**22 + 1, 1), (10**308, 1), (1e308, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("levels", [254, 255, 900, 1023])
def test_a_group_can_be_nested_as_deep_as_may_be(orders: World, levels: int) -> None:
    """With more than 254 levels, or with 1,000, one value made its field unusable."""
    deep = b"%b1%b" % (b"[" * levels, b"]" * levels)
    orders.put_all({b"%d" % n: b'{"g":%b}' % deep for n in range(8)} | {b"a": b'{"g":1}'})
    for instance in ("b1", "b2"):
        assert orders.ask("aggregate?by=g", instance).body == (
            b'{"items":[{"group":1,"entries":1},{"group":%b,"entries":8}]}' % deep
        )


def test_the_order_of_members_does_not_matter_at_any_depth() -> None:
    one: Any = {"a": 1, "b": [2]}
    other: Any = {"b": [2], "a": 1}
    for _ in range(500):
        one, other = {"a": [one], "b": 1}, {"b": 1, "a": [other]}
    assert name_of(one) == name_of(other)
    assert name_of(one).startswith(b'{"a":[{"a":[')


@given(st.integers(-(2**70), 2**70) | st.integers(0, 1000).map(lambda n: 2**n))
def test_a_whole_number_and_an_equal_float_have_the_same_name(number: int) -> None:
    assert json.loads(name_of(number)) == number
    if number == float(number):
        assert name_of(number) == name_of(float(number))


def test_whole_numbers_have_all_their_digits(orders: World) -> None:
    orders.put_all({b"%d" % n: b'{"n":18446744073709551615}' for n in range(8)})
    assert b'"sum":147573952589676412920,' in orders.ask("aggregate?value=n").body


def test_numbers_of_more_than_64_bits_have_all_their_digits(orders: World) -> None:
    """As numbers and as groups, also in a document that is nested too deeply for Python's parser,
    where they are rounded."""
    big = 10**30 + 1
    deep = b'{"n":1,"x":%b%d%b}' % (b"[" * 1000, big, b"]" * 1000)
    orders.put_all({b"a": b'{"n":%d,"g":%d}' % (big, big), b"b": b'{"n":%d,"g":1}' % -big})
    assert items(orders, "?by=g&value=n") == [group(1, -big), group(big, big)]
    assert items(orders, "?value=n") == [group(None, big, -big)]
    orders.put_all({b"c": b'{"n":7,"g":{"big":[%d]}}' % (big + 1)})
    assert items(orders, "?by=g&value=n")[2] == group({"big": [big + 1]}, 7)
    orders.put_all({b"d": deep})
    assert items(orders, "?value=n") == [group(None, big, -big, 7, 1)]


@pytest.mark.parametrize("store", ["int64", "float64"])
def test_values_that_are_numbers(tmp_path: Path, store: str) -> None:
    pack = struct.Struct(">q" if store == "int64" else ">d").pack
    with world(tmp_path, view(value=store)) as made:
        made.put_all({b"%d" % n: pack(n) for n in range(20)})
        assert items(made, "") == [group(None, *range(20))]
        assert made.code("aggregate?value=n", 400) == "bad-parameter"
        assert made.code("aggregate?by=n", 400) == "bad-parameter"
        if store == "float64":
            made.put(b"x", pack(math.nan))
            made.put(b"y", pack(math.inf))
            [found] = items(made, "")
            assert (found["entries"], found["count"], found["sum"]) == (22, 21, "Infinity")
            assert (found["min"], found["max"], found["avg"]) == (0, "Infinity", "Infinity")


def test_only_the_entries_of_a_time(tmp_path: Path) -> None:
    key = struct.Struct(">qi").pack
    with world(tmp_path, view(store="window", window_size=10)) as made:  # type: ignore[arg-type]
        made.put_all(
            {b"k%d" % (n % 5) + key(n * 10, 0): b'{"g":%d,"n":%d}' % (n % 2, n) for n in range(40)}
        )
        found = items(made, "?by=g&value=n&from=100&to=209")
        assert found == [group(0, *range(10, 21, 2)), group(1, *range(11, 21, 2))]
        assert items(made, "") == [{"group": None, "entries": 40}]


def test_the_latest_version_counts(tmp_path: Path) -> None:
    with world(tmp_path, view(store="versioned", retention=10**9)) as made:  # type: ignore[arg-type]
        for timestamp in (1, 2, 3):
            made.put_all(
                {b"%d" % n: b'{"n":%d}' % (n * timestamp) for n in range(10)}, timestamp=timestamp
            )
        made.put(b"9", None, timestamp=4)
        assert items(made, "?value=n") == [group(None, *range(0, 27, 3))]
        made.put_all({b"%d" % n: None for n in range(9)}, timestamp=5)
        assert items(made, "?value=n") == items(made, "") == []


def test_a_key_in_two_partitions_counts_once(orders: World) -> None:
    orders.put_all({b"%d" % n: b'{"g":"a","n":%d}' % n for n in range(40)})
    elsewhere = (orders.partition(b"7") + 1) % PARTITIONS
    orders.put(b"7", b'{"g":"b","n":700}', timestamp=8, partition=elsewhere)
    for store_partition in orders.store_partitions.values():
        store_partition.metadata = replace(store_partition.metadata, mispartitioned=1)
    rest = [n for n in range(40) if n != 7]
    assert items(orders, "?by=g&value=n") == [group("a", *rest), group("b", 700)]
    assert items(orders, "") == [{"group": None, "entries": 40}]


def test_slices_give_the_same(orders: World, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.put_all({b"%d" % n: b'{"g":%d,"n":0.1}' % (n % 7) for n in range(500)})
    whole = orders.ask("aggregate?by=g&value=n").body
    monkeypatch.setattr(scan_budget, "MAX_ENTRIES", 20)
    monkeypatch.setattr(partition_run, "CHUNK_BYTES", 200)
    monkeypatch.setattr(turns, "_PIECE", 2)
    monkeypatch.setattr(turns, "STEP_S", 0.0)
    assert orders.ask("aggregate?by=g&value=n", "b2").body == whole


def test_several_fields(orders: World) -> None:
    orders.put_all(
        {
            b"%d" % n: json.dumps(
                {"a": [None, 1, "x"][n % 3], "b": n % 2 == 0, "n": n, "m": -n if n % 4 else None}
            ).encode()
            for n in range(24)
        }
    )
    found = items(orders, "?by=a,b&value=n,m&non_null=a,m")
    assert [item["group"] for item in found] == [
        [None, False], [None, True], [1, False], [1, True], ["x", False], ["x", True],
    ]  # fmt: skip
    for item in found:
        a, b = item["group"]
        of_group = [n for n in range(24) if [None, 1, "x"][n % 3] == a and (n % 2 == 0) == b]
        counted = [-n for n in of_group if n % 4]
        expected = {"n": group(None, *of_group), "m": group(None, *counted)}
        for numbers in expected.values():
            del numbers["group"], numbers["entries"]
        assert item == {
            "group": [a, b],
            "entries": 4,
            "values": expected,
            "non_null": {"a": 0 if a is None else 4, "m": len(counted)},
        }
    by_avg = items(orders, "?by=a,b&value=n,m&non_null=a,m&order_by=avg(m)&order=asc&limit=2")
    averages = [(item["values"]["m"]["avg"], item) for item in found]
    assert by_avg == [item for _, item in sorted(averages, key=itemgetter(0))[:2]]
    assert items(orders, "?by=a,b&order_by=entries&limit=1") == [
        {"group": [None, False], "entries": 4}
    ]


def test_groups_by_parts_of_entries(orders: World) -> None:
    orders.put_all({b"k%d" % n: b'{"key":"own","n":%d}' % n for n in range(3)}, timestamp=9)
    assert items(orders, "?by=key") == [{"group": f"k{n}", "entries": 1} for n in range(3)]
    assert items(orders, "?by=value.key&value=n") == [group("own", 0, 1, 2)]
    assert items(orders, "?by=record_timestamp") == [{"group": 9, "entries": 3}]


@pytest.mark.parametrize(
    "target",
    [
        "?by=a,a", "?by=" + ",".join("abcdefghi"), "?value=a,b&order_by=sum", "?value=key",
        "?value=a,b&order_by=sum(c)", "?by=a,", "?value=a,b,c,d&non_null=e,f,g,h,i",
        "?by=" + "a" * 600 + "," + "b" * 600,
    ],
)  # fmt: skip
def test_lists_that_are_refused(orders: World, target: str) -> None:
    orders.put(b"k", b'{"a":1}')
    assert orders.code(f"aggregate{target}", 400) == "bad-parameter"


def limited(orders: World, by: str) -> None:
    for instance in ("b1", "b2"):
        found = orders.code(f"aggregate?by={by}", 400, instance=instance)
        assert found == "too-many-entries"


@pytest.mark.parametrize("name", ["MAX_GROUPS", "MAX_GROUP_BYTES"])
@pytest.mark.parametrize("mispartitioned", [False, True])
def test_too_many_groups_are_refused(
    orders: World, monkeypatch: pytest.MonkeyPatch, name: str, mispartitioned: bool
) -> None:
    most = 20 if name == "MAX_GROUPS" else 20 * len(b"1000")
    monkeypatch.setattr(groups, name, most)
    orders.put_all({b"%d" % n: b'{"n":%d,"g":%d}' % (1000 + n, 1000 + n % 20) for n in range(60)})
    if mispartitioned:
        for store_partition in orders.store_partitions.values():
            store_partition.metadata = replace(store_partition.metadata, mispartitioned=1)
    assert len(items(orders, "?by=g")) == 20
    limited(orders, "n")


def test_a_refused_aggregate_leaves_nothing_in_memory(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: its exception referred to itself, and kept all groups until the garbage collector
    ran, which is rare in an instance. A flood of such requests took 1 GB."""
    monkeypatch.setattr(groups, "MAX_GROUPS", 200)
    orders.put_all({b"%d" % n: b'{"n":%d}' % n for n in range(400)})
    limited(orders, "n")
    gc.collect()
    gc.disable()
    try:
        limited(orders, "n")
        assert not any(type(each) is Numbers for each in gc.get_objects())
    finally:
        gc.enable()


def test_groups_of_one_partition_are_bounded_before_they_are_sent(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    fill = aggregate._Aggregator.fill

    async def noted(reducer: Any, response: Any) -> None:
        await fill(reducer, response)
        sizes.append(len(response.rows))

    monkeypatch.setattr(groups, "MAX_GROUPS", 5)
    monkeypatch.setattr(aggregate._Aggregator, "fill", noted)
    orders.put_all({b"%d" % n: b'{"n":%d}' % n for n in range(400)})
    limited(orders, "n")
    assert max(sizes) == 5


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("?by=" + "a." * 16 + "a", "bad-parameter"),
        ("?by=%FF", "bad-parameter"),
        ("?from=0", "bad-parameter"),
        ("?size=3", "unknown-parameter"),
        ("?limit=0", "bad-parameter"),
        ("?order=up", "bad-parameter"),
        ("?by=a&by=b", "repeated-parameter"),
    ],
)
def test_requests_that_are_refused(orders: World, target: str, code: str) -> None:
    assert orders.code(f"aggregate{target}", 400) == code


@pytest.mark.parametrize("path", ["a." * 16 + "a", "a" * 1025])
@pytest.mark.parametrize("name", ["by", "value"])
def test_a_path_that_is_too_long_is_named(orders: World, name: str, path: str) -> None:
    said = orders.ask(f"aggregate?{name}={path}").json
    assert said["parameter"] == name
    assert said["detail"].startswith(f"{name} has ")


def test_views_without_fields(tmp_path: Path) -> None:
    with world(tmp_path, view(value="string")) as made:
        made.put(b"a", b"text")
        assert items(made, "") == [{"group": None, "entries": 1}]
        assert made.code("aggregate?by=g", 400) == "bad-parameter"
        assert made.code("aggregate?value=n", 400) == "bad-parameter"


@pytest.mark.parametrize(
    "item",
    [b"", b"{}", b"[]", b"[1,1,1,null,0,1]", b"[1,1,1,null,0,1,1,1]", b"[1,1,0.5,null,0,1,1]"],
)
def test_the_malformed_response_of_a_peer_is_no_answer(
    orders: World, monkeypatch: pytest.MonkeyPatch, item: bytes
) -> None:
    orders.put_all({b"%d" % n: b'{"n":%d}' % n for n in range(20)})
    monkeypatch.setattr(Numbers, "to_wire", lambda _: item)
    said = orders.ask("aggregate?value=n")
    assert (said.status, orjson.loads(said.body)["code"]) == (503, "owner-unreachable")


GROUPS = {b"a": 5, b"b": 1, b"c": 5, b"d": None, b"e": -7}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "abcde"),
        ("&order_by=sum", "acbed"),
        ("&order=asc", "ebacd"),
        ("&limit=2", "ac"),
        ("&order=asc&limit=1", "e"),
        ("&order_by=min&order=desc&limit=3", "acb"),
        ("&order_by=avg&order=asc", "ebacd"),
        ("&order_by=count&order=asc", "dabce"),
        ("&order_by=count&order=desc", "abced"),
        ("&order_by=entries&limit=4", "abcd"),
    ],
)
def test_groups_in_the_order_of_a_number(orders: World, query: str, names: str) -> None:
    orders.put_all({
        key: b'{"g":"%b","n":%b}' % (key, b"null" if number is None else b"%d" % number)
        for key, number in GROUPS.items()
    })  # fmt: skip
    for instance in ("b1", "b2"):
        said = orders.ask(f"aggregate?by=g&value=n{query}", instance)
        assert [item["group"] for item in said.json["items"]] == list(names)


def test_groups_that_are_only_counted_have_the_order_of_their_entries(orders: World) -> None:
    orders.put_all({b"%d" % n: b'{"g":%d}' % (n % 3) for n in range(8)})
    assert items(orders, "?by=g&limit=2") == [
        {"group": 0, "entries": 3},
        {"group": 1, "entries": 3},
    ]
    assert items(orders, "?by=g&order=asc&limit=1") == [{"group": 2, "entries": 2}]
    said = orders.ask("aggregate?by=g&order_by=sum")
    assert said.status == 400
    assert "order_by=sum needs numbers: name their field with value, or use" in said.body.decode()
