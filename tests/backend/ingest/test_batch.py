"""From records to one batch."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.ingest.batch import build_batch, count_mispartitioned
from model.partitioner import partition_of
from model.records import ENTRY, decode_entry
from model.views import View
from tests.support.in_process.avro_examples import FakeSchemas, framed
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.fakes import Rec


class DictBatch(dict[bytes, bytes]):
    """A batch that is applied at once, to itself."""

    def put(self, key: bytes, value: bytes) -> None:
        self[key] = value

    def delete(self, key: bytes) -> None:
        self.pop(key, None)


def applied(
    of: View, records: list[Rec], position: int = 0, before: dict[bytes, bytes] | None = None
) -> tuple[DictBatch, list[bytes], list[tuple[int, str]]]:
    batch = DictBatch(before or {})
    filled = build_batch(batch, of, records, position)
    return batch, filled.keys, [(letter.record.offset(), letter.reason) for letter in filled.dead]


def test_the_last_value_of_a_key_stays() -> None:
    batch, keys, dead = applied(
        ORDERS, [Rec(3, b"a", b"1"), Rec(5, b"b", b"2"), Rec(9, b"a", b"3", 8)]
    )
    assert {key: decode_entry(value) for key, value in batch.items()} == {
        ENTRY + b"a": (8, 9, b"3"),
        ENTRY + b"b": (7, 5, b"2"),
    }
    assert keys == [b"a", b"b", b"a"]
    assert dead == []


def test_a_null_value_deletes() -> None:
    records = [Rec(0, b"a", b"1"), Rec(1, b"a", None), Rec(2, b"old", None)]
    batch, keys, dead = applied(ORDERS, records, before={ENTRY + b"old": b"x"})
    assert (batch, keys, dead) == ({}, [b"a", b"a", b"old"], [])


def test_a_value_after_a_null_value_is_there() -> None:
    batch, _, _ = applied(ORDERS, [Rec(0, b"a", None), Rec(1, b"a", b"2")])
    assert decode_entry(batch[ENTRY + b"a"]).value == b"2"


def test_what_was_applied_before_is_passed_over() -> None:
    records = [Rec(3, b"a", b"1"), Rec(4, None, b"no key"), Rec(5, b"a", b"2"), Rec(7, b"b", b"3")]
    batch, keys, dead = applied(ORDERS, records, position=5)
    assert (sorted(batch), keys, dead) == ([ENTRY + b"a", ENTRY + b"b"], [b"a", b"b"], [])
    assert applied(ORDERS, records, position=8) == ({}, [], [])


def test_an_undecodable_record_leaves_the_previous_value() -> None:
    records = [
        Rec(0, None, b"1"),
        Rec(1, b"\xff", b"1"),
        Rec(2, b"a", b"{"),
        Rec(3, b"a", b""),
        Rec(4, b"b", b"1"),
        Rec(5, b"\xff", None),
        Rec(6, b"\xff", b"{"),
    ]
    batch, keys, dead = applied(ORDERS, records, before={ENTRY + b"a": b"kept"})
    assert sorted(batch) == [ENTRY + b"a", ENTRY + b"b"]
    assert batch[ENTRY + b"a"] == b"kept"
    assert keys == [b"b"]
    assert [at for at, _ in dead] == [0, 1, 2, 3, 5, 6]
    assert [reason.split(":")[0] for _, reason in dead] == [
        "the record has no key", "key", "value", "value", "key", "key",
    ]  # fmt: skip


def test_the_empty_key_is_a_key() -> None:
    batch, keys, _ = applied(ORDERS, [Rec(0, b"", b"1")])
    assert (list(batch), keys) == ([ENTRY], [b""])


def test_values_of_format_none_are_not_kept() -> None:
    batch, _, dead = applied(
        view(value="none"), [Rec(4, b"a", b"whatever \xff"), Rec(5, b"b", None)]
    )
    assert {key: decode_entry(value) for key, value in batch.items()} == {ENTRY + b"a": (7, 4, b"")}
    assert dead == []


def test_keys_lie_in_the_order_of_their_type() -> None:
    numbers = [3, -1, 0, -(2**31), 2**31 - 1]
    records = [Rec(i, struct.pack(">i", n), b"1") for i, n in enumerate(numbers)]
    batch, keys, _ = applied(view(key="int32"), records)
    assert [decode_entry(batch[key]).offset for key in sorted(batch)] == [3, 1, 2, 0, 4]
    assert keys == [struct.pack(">i", n) for n in numbers]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"a", b"b", b"", b"\xff", None]),
            st.sampled_from([b"1", b'"x"', b"{", None]),
        )
    ),
    st.integers(0, 10),
)
def test_in_whatever_runs_it_comes(said: list[tuple[bytes | None, bytes | None]], cut: int) -> None:
    """One run, two, or two that overlap: the same entries, and each record once."""
    records = [Rec(i, k, v) for i, (k, v) in enumerate(said)]
    whole, keys, dead = applied(ORDERS, records)
    first, first_keys, first_dead = applied(ORDERS, records[:cut])
    position = min(cut, len(records))
    both, second_keys, second_dead = applied(
        ORDERS, records[max(0, cut - 2) :], position, before=dict(first)
    )
    assert both == whole
    assert first_keys + second_keys == keys
    assert first_dead + second_dead == dead


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32", "fnv1a"])
def test_keys_in_a_partition_that_is_not_theirs_are_counted(partitioner: str) -> None:
    of = view(partitioner=partitioner)
    partition = partition_of(partitioner)
    keys = [b"%d" % i for i in range(200)]
    mine = [key for key in keys if partition(key, 9) == 4]
    assert 0 < len(mine) < 200
    assert count_mispartitioned(of, mine, 4, [9]) == 0
    assert count_mispartitioned(of, keys, 4, [9]) == 200 - len(mine)
    assert count_mispartitioned(of, [], 4, [9]) == 0


def test_after_partitions_were_added_either_count_may_have_placed_a_key() -> None:
    partition = partition_of("murmur2")
    keys = [b"%d" % i for i in range(200)]
    old = {key for key in keys if partition(key, 3) == 1}
    new = {key for key in keys if partition(key, 6) == 1}
    assert old - new
    assert count_mispartitioned(ORDERS, sorted(old | new), 1, [3, 6]) == 0
    assert count_mispartitioned(ORDERS, sorted(old | new), 1, [6]) == len(old - new)
    assert count_mispartitioned(ORDERS, keys, 1, [3, 6]) == 200 - len(old | new)


@pytest.mark.parametrize("retention", [None, 10**6])
@pytest.mark.parametrize("position", [0, 2])
def test_a_record_whose_schema_is_not_there_yet_ends_the_run(
    retention: int | None, position: int
) -> None:
    schemas = FakeSchemas(id7="int", id9=None)
    of = replace(view(value="avro", value_schema="confluent"), schemas=schemas, retention=retention)
    records = [
        Rec(0, b"a", framed(7, "int", 1)),
        Rec(2, b"b", framed(7, "int", 2)),
        Rec(3, b"c", b"not framed"),
        Rec(4, b"d", framed(9, "int", 3)),
        Rec(6, b"e", framed(8, "int", 4)),
        Rec(7, b"a", framed(7, "int", 5)),
    ]
    batch = DictBatch()
    filled = build_batch(batch, of, records, position)
    assert filled.waiting is not None
    assert filled.waiting.schema_id == 8
    assert records[filled.stopped].offset() == 6
    assert [letter.record.offset() for letter in filled.dead] == [3, 4]
    assert "knows no schema" in filled.dead[1].reason
    assert filled.keys == [b"a", b"b"][position // 2 :]
    assert not any(key.endswith(b"e") for key in batch)
    schemas.by_id[8] = "int"
    batch = DictBatch()
    filled = build_batch(batch, of, records, 6)
    assert (filled.waiting, filled.keys) == (None, [b"e", b"a"])
