"""Mispartitioned records: reads of all keys ask all partitions."""

from __future__ import annotations

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from model.partitioner import partition_of
from tests.support.backends import Backend
from tests.support.client import key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

PARTITIONS = 4


def misses(backend: Backend) -> set[str]:
    """The answers for keys without records, in every partition."""
    return {backend.get(key_path("v", f"nobody {n}")).code for n in range(20)}


def asks_all(backend: Backend) -> bool:
    """Whether reads ask all partitions: an answer of one partition names it."""
    answers = [backend.get(key_path("v", f"right {n}")) for n in range(20)]
    return all(answer.status == 200 and "Partition" not in answer.headers for answer in answers)


def test_a_mispartitioned_record_makes_reads_ask_all_partitions(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    right = {f"right {n}": n for n in range(20)}
    writer.table(topic, right)
    backends = deploy(views_toml(v={"topic": topic})).start(2)
    for backend in backends:
        assert misses(backend) == {"key-not-found"}

    murmur2 = partition_of("murmur2")
    assert murmur2 is not None
    wrong = (murmur2(b"wrong", PARTITIONS) + 1) % PARTITIONS
    # the older of the two records is in the right partition
    writer.send(topic, [(b"both", b'"old"')])
    both = (murmur2(b"both", PARTITIONS) + 1) % PARTITIONS
    writer.send(topic, [(b"wrong", b'"mispartitioned"')], partition=wrong)
    writer.send(topic, [(b"both", b'"new"')], partition=both)
    for backend in backends:
        backend.wait(lambda b=backend: asks_all(b), "all to be asked", 15)
        assert misses(backend) == {"key-not-found"}
        for key, value in right.items():
            assert backend.get(key_path("v", key)).json()["value"] == value
        assert backend.get(key_path("v", "wrong")).json() == {
            "key": "wrong",
            "value": "mispartitioned",
        }
        assert backend.get(key_path("v", "both")).json()["value"] == "new"
    holders = [b for b in backends if any(p["mis_partitioned"] for p in b.partitions("v"))]
    holder = next(b for b in holders if any(p["partition"] == wrong for p in b.partitions("v")))
    line = holder.wait_log(f"view v, partition {wrong} has mispartitioned records")
    assert "belong to other" in line
    assert "partitioner" in line
    samples = {
        sample.labels["partition"]: sample.value
        for family in text_string_to_metric_families(holder.get("/metrics").body.decode())
        for sample in family.samples
        if sample.name == "queryable_mis_partitioned_records_total"
    }
    assert samples[str(wrong)] >= 1

    # the instance that has found it is restarted, and the other takes over meanwhile
    other = next(b for b in backends if b is not holder)
    holder.kill()
    settle([other])
    assert asks_all(other)
    assert misses(other) == {"key-not-found"}
    other.kill()
    other.launch()
    holder.start()
    settle(backends)
    for backend in backends:
        backend.wait(lambda b=backend: asks_all(b), "all to be asked", 15)


def test_no_false_404_after_all_instances_have_restarted(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """The instance with the key's right partition does not have the mispartitioned record. When it
    starts, it must know that there is one somewhere."""
    topic = make_topic(PARTITIONS)
    writer.table(topic, {f"right {n}": n for n in range(20)})
    backends = deploy(views_toml(v={"topic": topic})).start(2)
    first, second = ({p["partition"] for p in each.partitions("v")} for each in backends)
    murmur2 = partition_of("murmur2")
    key = next(f"k{n}" for n in range(100) if murmur2(b"k%d" % n, PARTITIONS) in first)
    writer.send(topic, [(key.encode(), b'"elsewhere"')], partition=min(second))
    for backend in backends:
        backend.wait(lambda b=backend: asks_all(b), "all to be asked", 15)
    for backend in backends:
        backend.kill()
    for backend in backends:
        backend.launch()
    seen: Counter[int] = Counter()

    def all_ask_all() -> bool:
        answers = [each.try_get(key_path("v", key)) for each in backends]
        seen.update([answer.status for answer in answers if answer is not None])
        return seen[200] > 20 and None not in answers and all(map(asks_all, backends))

    backends[0].wait(all_ask_all, "all to be asked")
    assert seen.keys() <= {200, 503}


def test_records_of_another_partitioner_are_all_mispartitioned(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """A view with murmur2 gets records of librdkafka's default (crc32): no false 404."""
    topic = make_topic(PARTITIONS)
    crc32 = partition_of("crc32")
    assert crc32 is not None
    keys = [f"key {n}" for n in range(40)]
    for key in keys:
        writer.send(topic, [(key.encode(), b"1")], partition=crc32(key.encode(), PARTITIONS))
    declared = views_toml(
        wrong={"topic": topic},
        right={"topic": topic, "partitioner": "crc32"},
        anywhere={"topic": topic, "partitioner": "none"},
    )
    [backend] = deploy(declared).start()
    for key in keys:
        assert backend.get(key_path("right", key)).status == 200
        assert backend.get(key_path("wrong", key)).json() == {"key": key, "value": 1}
        assert backend.get(key_path("anywhere", key)).json() == {"key": key, "value": 1}
    assert backend.get(key_path("right", "nobody")).status == 404
    for view in ("wrong", "anywhere"):
        assert backend.get(key_path(view, "nobody")).code == "key-not-found"
