"""Tests of custom stores, and of the Bloom filter that is shipped as an example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.ingest.batch import build_batch
from backend.queries.point_by_kind import CustomReads
from backend.storage.bloom_filter import BloomFilter
from backend.storage.custom import CustomPartition, load_store
from backend.storage.data_directory import DataDirectory
from model.problems import ConfigurationError, Problem, StoreError
from tests.support.examples import examples
from tests.support.in_process.examples import metadata, view
from tests.support.in_process.fakes import Rec
from tests.support.in_process.instance import Instance


class Lengths:
    """A custom store that answers with the length of a key's value."""

    def __init__(self) -> None:
        self.lengths: dict[bytes, int] = {}

    def apply(self, key: bytes, value: bytes | None, timestamp: int, offset: int) -> None:
        if value == b'"never"':
            raise ValueError("not this one")
        self.lengths[key] = -1 if value is None else len(value)

    def query(self, key: bytes) -> Any:
        if key == b"broken":
            raise RuntimeError("no")
        if key == b"set":
            return {1, 2}
        if key == b"huge":
            return 1 << 70
        return self.lengths.get(key)

    def size(self) -> int:
        return 8 * len(self.lengths)

    def close(self) -> None:
        self.lengths = {}


LENGTHS = view(store=f"{__name__}:Lengths", persistence="memory")


@pytest.fixture
def instance(tmp_path: Path) -> Any:
    folder = DataDirectory(tmp_path / "data")
    folder.use_custom_store("orders", load_store(LENGTHS.store))
    instance = Instance(folder, LENGTHS)
    instance.reads = CustomReads(LENGTHS, instance.context)
    instance.place(0)
    yield instance
    instance.close()
    folder.close()


def feed(instance: Instance, *records: Rec) -> list[str]:
    store_partition = instance.context.store_partitions.get("orders", 0)
    assert store_partition is not None
    batch = store_partition.store.new_batch()
    result = build_batch(batch, LENGTHS, records)
    store_partition.store.write(batch, records[-1].offset() + 1, metadata(LENGTHS))
    return [letter.reason for letter in result.dead_letters]


def test_the_class_gets_the_records_and_answers_the_queries(instance: Instance) -> None:
    store_partition = instance.hold(0)
    assert store_partition.store.position == 0
    dead = feed(
        instance, Rec(0, b"a", b"123"), Rec(1, b"b", b"1"), Rec(2, b"x", b"{"), Rec(3, b"b", None)
    )
    assert [reason.partition(":")[0] for reason in dead] == ["value"]
    assert orjson.loads(instance.read(b"a").body) == {"key": "a", "value": 3}
    assert orjson.loads(instance.read(b"b").body) == {"key": "b", "value": -1}
    missing = instance.read(b"x")
    assert (missing.status, orjson.loads(missing.body)["code"]) == (404, "key-not-found")
    assert (
        store_partition.store.size(),
        store_partition.store.entries(),
        store_partition.store.position,
    ) == (16, 3, 4)


@pytest.mark.parametrize("key", [b"broken", b"set", b"huge"])
def test_an_error_of_the_class_does_not_mark_the_store_as_damaged(
    instance: Instance, key: bytes
) -> None:
    """Regression: a result that is no JSON made a whole batch of reads fail."""
    store_partition = instance.hold(0)
    with pytest.raises(Problem) as error:
        instance.read(key)
    assert (error.value.code, error.value.status) == ("store-failed", 500)
    assert store_partition.damaged is None
    with pytest.raises(StoreError, match="offset 0: ValueError: not this one"):
        feed(instance, Rec(0, b"a", b'"never"'))
    assert store_partition.store.position == 0


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.such.module:Class", "cannot be imported"),
        (f"{__name__}:NoSuchClass", "cannot be imported"),
        ("backend.storage.data_directory:DataDirectory", "lacks the methods apply, query, size"),
    ],
)
def test_a_class_without_the_interface_is_refused(path: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_store(path)


@given(st.sets(st.binary(max_size=8), min_size=1, max_size=200))
@settings(max_examples=examples(50))
def test_a_bloom_filter_has_no_false_negatives(keys: set[bytes]) -> None:
    store = CustomPartition("v/0", BloomFilter(capacity=16))
    batch = store.new_batch()
    for offset, key in enumerate(sorted(keys)):
        batch.apply(key, b"", 0, offset)
    store.write(batch, len(keys))
    assert all(store.query(key) is True for key in keys)


def test_a_growing_bloom_filter_has_few_false_positives() -> None:
    store = BloomFilter(capacity=1000)
    for number in range(20_000):
        store.apply(b"%d" % number, b"", 0, number)
    wrong = sum(store.query(b"other %d" % number) for number in range(20_000))
    assert wrong < 20_000 * 0.02
    assert store.size() < 20_000 * 4
