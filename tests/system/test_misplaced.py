"""Records in other partitions than the partitioner's: what is found is told, a miss is a guess."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from backend.core.partitioner import partition_of
from tests.client import key_path
from tests.conftest import MakeTopic
from tests.system.backends import Backend, settle, views_toml
from tests.system.conftest import Deploy
from tests.system.model import Writer

pytestmark = pytest.mark.system

PARTITIONS = 4


def misses(backend: Backend) -> set[str]:
    """What keys that nobody ever wrote are answered, in every partition."""
    return {backend.get(key_path("v", f"nobody {n}")).code for n in range(20)}


def test_a_record_in_the_wrong_partition_makes_every_miss_503_everywhere(
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
    writer.send(topic, [(b"wrong", b'"misplaced"')], partition=wrong)
    for backend in backends:
        backend.wait(lambda b=backend: misses(b) == {"mis-partitioned"}, "misses of 503", 15)
        for key, value in right.items():
            assert backend.get(key_path("v", key)).json()["value"] == value
        assert backend.get(key_path("v", "wrong")).code == "mis-partitioned"
    holders = [b for b in backends if any(p["mis_partitioned"] for p in b.partitions("v"))]
    [holder] = holders
    line = holder.wait_log("puts elsewhere")
    assert f"view v, partition {wrong}" in line
    assert "partitioner" in line
    samples = {
        sample.labels["partition"]: sample.value
        for family in text_string_to_metric_families(holder.get("/metrics").body.decode())
        for sample in family.samples
        if sample.name == "queryable_mis_partitioned_records_total"
    }
    assert samples[str(wrong)] == 1

    # whoever knows of it is stopped and starts again, and the other takes over meanwhile
    other = next(b for b in backends if b is not holder)
    holder.kill()
    settle([other])
    assert misses(other) == {"mis-partitioned"}
    other.kill()
    other.launch()
    holder.start()
    settle(backends)
    for backend in backends:
        backend.wait(lambda b=backend: misses(b) == {"mis-partitioned"}, "misses of 503", 15)


def test_records_of_another_partitioner_are_all_misplaced(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """librdkafka's default (crc32) feeds a view that says murmur2: no false 404."""
    topic = make_topic(PARTITIONS)
    crc32 = partition_of("crc32")
    assert crc32 is not None
    keys = [f"key {n}" for n in range(40)]
    for key in keys:
        writer.send(topic, [(key.encode(), b"1")], partition=crc32(key.encode(), PARTITIONS))
    declared = views_toml(
        wrong={"topic": topic},
        right={"topic": topic, "partitioner": "crc32"},
    )
    [backend] = deploy(declared).start()
    for key in keys:
        assert backend.get(key_path("right", key)).status == 200
        answer = backend.get(key_path("wrong", key))
        assert answer.status == 200 or answer.code == "mis-partitioned"
    assert backend.get(key_path("right", "nobody")).status == 404
    assert backend.get(key_path("wrong", "nobody")).code == "mis-partitioned"
