"""Tests of building a write batch from records."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.ingest.batch import build_batch, count_mispartitioned, from_offset
from model.partitioner import partition_of
from model.records import ENTRY, decode_entry, unreadable_entry
from model.views import View
from tests.support.examples import examples
from tests.support.in_process.avro_examples import FakeSchemas, framed
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.fakes import Rec


class DictBatch(dict[bytes, bytes]):
    """A batch that applies each change to itself at once."""

    def put(self, key: bytes, value: bytes) -> None:
        self[key] = value

    def delete(self, key: bytes) -> None:
        self.pop(key, None)


def applied(
    of: View, records: list[Rec], position: int = 0, before: dict[bytes, bytes] | None = None
) -> tuple[DictBatch, list[bytes], list[tuple[int, str]]]:
    batch = DictBatch(before or {})
    result = build_batch(batch, of, from_offset(records, position))
    dead = [(letter.record.offset(), letter.reason) for letter in result.dead_letters]
    return batch, result.keys, dead


def test_the_last_value_of_a_key_is_stored() -> None:
    batch, keys, dead = applied(
        ORDERS, [Rec(3, b"a", b"1"), Rec(5, b"b", b"2"), Rec(9, b"a", b"3", 8)]
    )
    assert {key: decode_entry(value) for key, value in batch.items()} == {
        ENTRY + b"a": (8, 9, b"3"),
        ENTRY + b"b": (7, 5, b"2"),
    }
    assert keys == [b"a", b"b", b"a"]
    assert dead == []


def test_a_null_value_deletes_the_key() -> None:
    records = [Rec(0, b"a", b"1"), Rec(1, b"a", None), Rec(2, b"old", None)]
    batch, keys, dead = applied(ORDERS, records, before={ENTRY + b"old": b"x"})
    assert (batch, keys, dead) == ({}, [b"a", b"a", b"old"], [])


def test_a_value_after_a_null_value_is_stored() -> None:
    batch, _, _ = applied(ORDERS, [Rec(0, b"a", None), Rec(1, b"a", b"2")])
    assert decode_entry(batch[ENTRY + b"a"]).value == b"2"


def test_records_before_the_position_are_skipped() -> None:
    records = [Rec(3, b"a", b"1"), Rec(4, None, b"no key"), Rec(5, b"a", b"2"), Rec(7, b"b", b"3")]
    batch, keys, dead = applied(ORDERS, records, position=5)
    assert (sorted(batch), keys, dead) == ([ENTRY + b"a", ENTRY + b"b"], [b"a", b"b"], [])
    assert applied(ORDERS, records, position=8) == ({}, [], [])


def test_an_undecodable_key_changes_nothing_and_an_undecodable_value_is_stored() -> None:
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
    assert batch[ENTRY + b"a"] == unreadable_entry(7, 3, b"")
    assert keys == [b"a", b"a", b"b"]
    assert [offset for offset, _ in dead] == [0, 1, 2, 3, 5, 6]
    assert [reason.split(":")[0] for _, reason in dead] == [
        "the record has no key", "key", "value", "value", "key", "key",
    ]  # fmt: skip


def test_the_empty_key_is_valid() -> None:
    batch, keys, _ = applied(ORDERS, [Rec(0, b"", b"1")])
    assert (list(batch), keys) == ([ENTRY], [b""])


def test_values_of_format_none_are_not_stored() -> None:
    batch, _, dead = applied(
        view(value="none"), [Rec(4, b"a", b"whatever \xff"), Rec(5, b"b", None)]
    )
    assert {key: decode_entry(value) for key, value in batch.items()} == {ENTRY + b"a": (7, 4, b"")}
    assert dead == []


def test_stored_keys_sort_as_their_type_does() -> None:
    numbers = [3, -1, 0, -(2**31), 2**31 - 1]
    records = [Rec(i, struct.pack(">i", n), b"1") for i, n in enumerate(numbers)]
    batch, keys, _ = applied(view(key="int32"), records)
    assert [decode_entry(batch[key]).offset for key in sorted(batch)] == [3, 1, 2, 0, 4]
    assert keys == [struct.pack(">i", n) for n in numbers]


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"a", b"b", b"", b"\xff", None]),
            st.sampled_from([b"1", b'"x"', b"{", None]),
        )
    ),
    st.integers(0, 10),
)
def test_the_division_into_runs_does_not_matter(
    pairs: list[tuple[bytes | None, bytes | None]], cut: int
) -> None:
    """One run, two runs, or two that overlap: the entries are the same, each record counts once."""
    records = [Rec(i, k, v) for i, (k, v) in enumerate(pairs)]
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
def test_mispartitioned_keys_are_counted(partitioner: str) -> None:
    of = view(partitioner=partitioner)
    partition = partition_of(partitioner)
    keys = [b"%d" % i for i in range(200)]
    own = [key for key in keys if partition(key, 9) == 4]
    assert 0 < len(own) < 200
    assert count_mispartitioned(of, own, 4, [9]) == 0
    assert count_mispartitioned(of, keys, 4, [9]) == 200 - len(own)
    assert count_mispartitioned(of, [], 4, [9]) == 0


def test_a_key_is_not_mispartitioned_if_one_of_the_partition_counts_matches() -> None:
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
def test_a_record_whose_schema_is_not_available_yet_ends_the_run(
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
    records = [*from_offset(records, position)]
    result = build_batch(batch, of, records)
    assert result.missing_schema is not None
    assert result.missing_schema.schema_id == 8
    assert records[result.stopped_at].offset() == 6
    assert [letter.record.offset() for letter in result.dead_letters] == [3, 4]
    assert "knows no schema" in result.dead_letters[1].reason
    assert result.keys == [b"a", b"b", b"c", b"d"][position // 2 :]
    assert not any(key.endswith(b"e") for key in batch)
    schemas.by_id[8] = "int"
    batch = DictBatch()
    result = build_batch(batch, of, from_offset(records, 6))
    assert (result.missing_schema, result.keys) == (None, [b"e", b"a"])
