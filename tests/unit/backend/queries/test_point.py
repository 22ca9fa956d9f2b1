"""What a read means: a real store partition, a map made by hand, and nobody else."""

import random
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.ingest.store_partitions import StorePartition
from backend.queries.moved_keys import KeyMoved, PartitionUnknown
from backend.queries.point import Unresolved, count_refusal
from backend.queries.routing import NotOwner, ReadOptions
from backend.storage.data_directory import DataDirectory
from backend.storage.rocksdb_store import RocksDBStore
from backend.telemetry.telemetry import ReadCounts
from model.machine.clock import boot_time
from model.partitioner import partition_of
from model.problems import BadRequest, KeyTooLong, Problem, StoreError, Unavailable
from model.progress import Progress
from model.records import ENTRY, entry_head
from model.topology import NO_MEMBER, Epoch, Topology
from tests.support.in_process.examples import ORDERS, metadata, view
from tests.support.in_process.instance import ME, OTHER, Instance

ALLOW = ReadOptions(stale="allow")
partition = partition_of("murmur2")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataDirectory]:
    folder = DataDirectory(tmp_path)
    yield folder
    folder.close()


@pytest.fixture
def instance(folder: DataDirectory) -> Iterator[Instance]:
    """One partition, held and answerable, of the map's one."""
    instance = Instance(folder, ORDERS)
    instance.place(0)
    yield instance
    instance.close()


def test_a_value(instance: Instance) -> None:
    store_partition = instance.hold(0, {b"x": b"1", b"a": b'{ "n":1.0 }'})
    store_partition.progress.end_fetched(7, boot_time() - 1)
    answer = instance.read(b"a")
    assert answer.status == 200
    assert answer.body == b'{"key":"a","value":{ "n":1.0 }}', "the value is passed on as it is"
    headers = dict(answer.headers)
    assert 900 < int(headers.pop(b"staleness").replace(b"unknown", b"1000")) < 9000
    assert headers.pop(b"etag").startswith(b'"orders-')
    assert headers == {
        b"content-type": b"application/json",
        b"vary": b"accept",
        b"partition": b"0",
        b"offset": b"2",
        b"lag": b"5",
        b"served-by": b"b1; active",
        b"view-definition": ORDERS.hash.encode(),
        b"record-timestamp": b"7",
    }
    assert (instance.reads.counts.found, instance.reads.counts.missed) == (1, 0)


def test_a_miss(instance: Instance) -> None:
    store_partition = instance.hold(0, {b"a": b"1"})
    store_partition.progress.end_fetched(1, boot_time())
    answer = instance.read(b"b")
    assert answer.status == 404
    document = orjson.loads(answer.body)
    assert (document["code"], document["status"]) == ("key-not-found", 404)
    assert document["type"] == "urn:queryable:key-not-found"
    assert "offset 1 of partition 0" in document["detail"]
    headers = dict(answer.headers)
    assert headers[b"content-type"] == b"application/problem+json"
    assert (headers[b"offset"], headers[b"lag"]) == (b"1", b"0")
    assert int(headers[b"staleness"]) < 60_000
    assert b"etag" not in headers
    assert b"retry-after" not in headers
    assert (instance.reads.counts.found, instance.reads.counts.missed) == (0, 1)


def test_the_empty_key_is_a_key(instance: Instance) -> None:
    instance.hold(0, {b"a": b"1"})
    assert instance.read(b"").status == 404
    instance.close()
    instance.hold(0, {b"": b"1"})
    assert instance.read(b"").status == 200


def test_the_stores_own_notes_are_no_entries(instance: Instance) -> None:
    instance.hold(0, {b"a": b"1"})
    assert instance.read(b"\0position").status == 404
    assert instance.read(b"position").status == 404


def test_how_far_it_is_behind_may_be_unknown(instance: Instance) -> None:
    store_partition = instance.hold(0, {b"a": b"1"})
    headers = dict(instance.read(b"a").headers)
    assert (headers[b"lag"], headers[b"staleness"]) == (b"unknown", b"unknown")
    store_partition.progress.end_fetched(1, boot_time() - 3600)  # the broker has been away since
    headers = dict(instance.read(b"a").headers)
    assert headers[b"lag"] == b"unknown"
    assert 3_600_000 <= int(headers[b"staleness"]) < 3_700_000


@pytest.mark.parametrize(
    ("fields", "key", "value", "body"),
    [
        ({"key": "int64", "value": "int64"}, struct.pack(">q", -5), struct.pack(">q", 2**62),
         b'{"key":-5,"value":4611686018427387904}'),
        ({"key": "bytes", "value": "string"}, b"\xff\0", 'é"'.encode(),
         '{"key":"_wA","value":"é\\""}'.encode()),
        ({"key": "float64", "value": "none"}, struct.pack(">d", -1.5), b"",
         b'{"key":-1.5,"value":null}'),
        ({"key": "json", "value": "json"}, b'{"a": 1}', b"null", b'{"key":{"a": 1},"value":null}'),
    ],
)  # fmt: skip
def test_formats(
    folder: DataDirectory, fields: dict[str, str], key: bytes, value: bytes, body: bytes
) -> None:
    instance = Instance(folder, view(**fields))
    instance.place(0)
    instance.hold(0, {key: value})
    assert instance.read(key).body == body
    instance.close()


def test_the_etag_tells_records_apart(instance: Instance) -> None:
    def etag(key: bytes, **made_from: Any) -> bytes:
        store_partition = instance.hold(
            0, {b"a": b"1", b"b": b"1"}, made_from=metadata(**made_from)
        )
        found = dict(instance.read(key).headers)[b"etag"]
        store_partition.store.close()
        return found

    first = etag(b"a")
    assert first == etag(b"a")
    assert first[:1] == first[-1:] == b'"'
    # another record; the same offset of a topic made anew
    assert len({first, etag(b"b"), etag(b"a", topic_id="topic-2")}) == 3


def test_what_is_applied_meanwhile_is_not_claimed(instance: Instance) -> None:
    """A miss is as of `Offset`: a record applied after the look-up may have brought the key."""
    store_partition = instance.hold(0, {b"a": b"1"})
    store = store_partition.store

    class Overtaken:
        def get(self, key: bytes) -> bytes | None:
            found = store.get(key)
            batch = store.new_batch()
            batch.put(ENTRY + b"b", entry_head(7, 1) + b"2")
            store.write(batch, 2)
            store_partition.progress.applied(2)
            return found

        def get_many(self, keys: list[bytes]) -> list[bytes | None]:
            return [self.get(key) for key in keys]

    store_partition.store = Overtaken()  # type: ignore[assignment]
    answer = instance.read(b"b")
    store_partition.store = store
    assert answer.status == 404
    assert dict(answer.headers)[b"offset"] == b"1"
    assert "offset 1 of" in orjson.loads(answer.body)["detail"]
    answer = instance.read(b"b")
    assert (answer.status, dict(answer.headers)[b"offset"]) == (200, b"2")


# Not yet, not here, nobody


@pytest.mark.parametrize("key", [b"a", b"missing"])
def test_hit_or_miss_nothing_is_said_while_catching_up(instance: Instance, key: bytes) -> None:
    store_partition = instance.hold(0, {b"a": b"1"}, goal=3, answerable=False)
    problem = instance.refusal(key)
    assert problem.code == "catching-up"
    document = orjson.loads(problem.body())
    assert (document["partition"], document["position"], document["goal"]) == (0, 1, 3)
    assert instance.read(key, ALLOW).status == (200 if key == b"a" else 404)
    store_partition.progress.applied(2)
    assert instance.refusal(key).code == "catching-up"
    store_partition.progress.applied(3)
    assert instance.read(key).status == (200 if key == b"a" else 404)


def test_before_there_is_a_map(folder: DataDirectory) -> None:
    assert Instance(folder, ORDERS).refusal(b"a").code == "no-topology"


def test_a_map_without_the_view(instance: Instance) -> None:
    instance.context.group.apply_topology(Topology(Epoch(5, 1), (ME,), {}))
    assert instance.refusal(b"a").code == "nobody"


def test_a_topic_that_is_missing(instance: Instance) -> None:
    instance.place()
    assert instance.refusal(b"a").code == "topic-missing"


def test_a_partition_that_nobody_has(instance: Instance) -> None:
    instance.place(NO_MEMBER)
    assert instance.refusal(b"a").code == "nobody"


def test_a_partition_that_is_being_opened(instance: Instance) -> None:
    assert instance.refusal(b"a").code == "catching-up"
    assert instance.refusal(b"a", ALLOW).code == "catching-up"


def test_another_instances_partition(instance: Instance) -> None:
    instance.place(1)
    with pytest.raises(NotOwner) as elsewhere:
        instance.read(b"a")
    assert elsewhere.value.member == OTHER


def test_what_is_held_still_is_answered(instance: Instance) -> None:
    """Until it is let go, whatever the map says: it is up to date."""
    instance.hold(0, {b"a": b"1"})
    instance.place(1)
    assert instance.read(b"a").status == 200


def test_each_key_is_looked_for_in_its_own_partition(instance: Instance) -> None:
    instance.place(0, 1, 0)
    keys = [b"%d" % i for i in range(60)]
    for number in (0, 2):
        instance.hold(number, {key: b"1" for key in keys if partition(key, 3) == number})
    for key in keys:
        if partition(key, 3) == 1:
            with pytest.raises(NotOwner):
                instance.read(key)
        else:
            answer = instance.read(key)
            assert answer.status == 200
            assert int(dict(answer.headers)[b"partition"]) == partition(key, 3)


def test_a_store_that_was_just_closed(instance: Instance) -> None:
    instance.hold(0, {b"a": b"1"}).store.close()
    assert instance.refusal(b"a").code == "not-here"


def test_a_store_that_cannot_be_read(instance: Instance) -> None:
    dice = random.Random(1)
    values = {b"%d" % i: b'"%b"' % dice.randbytes(50).hex().encode() for i in range(3000)}
    instance.hold(0, values).store.close()
    table = next(instance.folder.path("orders", 0).glob("*.sst"))
    raw = bytearray(table.read_bytes())
    for at in range(len(raw) // 3, len(raw) // 2, 1000):
        raw[at] ^= 0xFF
    table.write_bytes(raw)
    store, anew = instance.folder.open("orders", 0)
    assert anew is None
    progress = Progress(3000, 0, True)
    store_partition = StorePartition(ORDERS, 0, store, progress, metadata(), boot_time())
    instance.context.store_partitions.add(store_partition)
    assert isinstance(store, RocksDBStore)
    codes, said = set(), set()
    for key in values:
        try:
            codes.add(str(instance.read(key).status))
        except Unavailable as problem:
            codes.add(problem.code)
            said.add(problem.body())
    assert "store-damaged" in codes
    assert "404" not in codes
    assert not any(b"checksum" in body for body in said), "what RocksDB says is not for clients"
    assert store_partition.damaged is not None
    assert "checksum" in store_partition.damaged


def test_an_error_that_may_be_over_soon_does_not_mark_the_store_as_damaged(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: with too many open files, each partition that was read was rebuilt."""
    store_partition = instance.hold(0, {b"key": b'"value"'})

    def fail(key: bytes) -> bytes:
        raise StoreError("IO error: Too many open files", damaged=False)

    with monkeypatch.context() as patch:
        patch.setattr(store_partition.store, "get", fail)
        with pytest.raises(Unavailable) as problem:
            instance.read(b"key")
    assert problem.value.code == "store-damaged"
    assert store_partition.damaged is None
    assert "view orders, partition 0: IO error: Too many open files" in caplog.text
    assert instance.read(b"key").status == 200


# Records that are not where they should be


def test_with_a_mis_partitioned_record_every_miss_is_doubtful(instance: Instance) -> None:
    """It is in partition 1; the key missed in 0 may be it."""
    instance.place(0, 0)
    kept, *missing_in_0 = [key for key in map(b"%d".__mod__, range(99)) if partition(key, 2) == 0]
    missing_in_1 = [key for key in map(b"%d".__mod__, range(99)) if partition(key, 2) == 1]
    instance.hold(0, {kept: b"1"})
    store_partition = instance.hold(1)
    missing = missing_in_0 + missing_in_1
    assert {instance.read(key).status for key in missing} == {404}
    store_partition.metadata = replace(store_partition.metadata, mispartitioned=1)
    assert {instance.refusal(key).code for key in missing} == {"mis-partitioned"}
    assert {instance.refusal(key, ALLOW).code for key in missing} == {"mis-partitioned"}
    assert instance.read(kept).status == 200
    assert instance.reads.counts.missed == len(missing)


def test_a_mis_partitioned_record_that_another_instance_saw(instance: Instance) -> None:
    instance.hold(0, {b"a": b"1"})
    instance.place(0, mispartitioned=True)
    # a newer record of a key that is here may be in another partition, too
    for key in (b"a", b"b"):
        assert isinstance(instance.refusal(key), PartitionUnknown)


@pytest.mark.parametrize("told_by", ["map", "facts", "a store"])
def test_after_partitions_were_added(instance: Instance, told_by: str) -> None:
    """Three became six: a key is answered if its partition is the same one under both. Others are
    in two partitions; or, if the topology does not have the new ones for long, in none."""
    built = 6
    if told_by == "map":
        instance.place(*[0] * 6, partition_counts=(3,))
    elif told_by == "a store":  # the leader does not know that yet
        instance.place(*[0] * 6)
        built = 3
    else:
        instance.place(*[0] * 3, partition_counts=(3,))
        ends = dict.fromkeys(range(6), 0)
        instance.context.metadata_poller.latest["orders"] = TopicMetadata(
            "topic-1", 6, ends, ends, None, 0
        )
    for number in range(6):
        instance.hold(number, made_from=metadata(partitions=built if number == 1 else 6))
    keys = [b"%d" % n for n in range(100)]
    together = {
        keys[number]: outcome.why.code if isinstance(outcome, Unresolved) else 404
        for outcome in instance.reads.resolve(keys)
        for number in outcome.numbers
    }
    answered = refused = 0
    for key in keys:
        if partition(key, 3) == partition(key, 6):
            assert instance.read(key).status == together[key] == 404
            answered += 1
        else:
            problem = instance.refusal(key)
            assert problem.code == together[key] == "repartitioned"
            assert isinstance(problem, KeyMoved) == (told_by != "facts")
            refused += 1
    assert answered > 20
    assert refused > 20


# Keys


def test_keys_that_are_too_long(folder: DataDirectory) -> None:
    reads = Instance(folder, ORDERS, max_key_bytes=10).reads
    assert reads.parse_key(b"x" * 10) == b"x" * 10
    assert reads.parse_raw_key(b"x" * 10) == b"x" * 10
    for parse in (reads.parse_key, reads.parse_raw_key):
        with pytest.raises(KeyTooLong) as error:
            parse(b"x" * 11)
        assert (error.value.status, error.value.code) == (414, "key-too-long")
        assert "11 bytes" in error.value.detail


def test_keys_that_are_none_of_the_views(folder: DataDirectory) -> None:
    reads = Instance(folder, view(key="int32")).reads
    assert reads.parse_key(b"-1") == b"\xff" * 4
    assert reads.parse_raw_key(b"\xff" * 4) == b"\xff" * 4
    for parse, key in ((reads.parse_key, b"one"), (reads.parse_raw_key, b"12345")):
        with pytest.raises(BadRequest) as error:
            parse(key)
        assert (error.value.status, error.value.code) == (400, "key-undecodable")
        assert "View orders has int32 keys" in error.value.detail


def test_refusals_are_counted() -> None:
    counts = ReadCounts()
    refusals: list[Problem] = [Unavailable("x", ""), BadRequest("x", ""), KeyTooLong("x", "")]
    for problem in refusals:
        count_refusal(counts, problem)
    assert (counts.unavailable, counts.refused, counts.served) == (1, 2, 0)
