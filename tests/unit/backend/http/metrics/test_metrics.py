"""/metrics of an instance: names, units, and the reference that lists them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from backend.ingest.indexes.work import IndexWork
from backend.ingest.read_priority import ReadPriority
from backend.ingest.writer import PartitionWriter
from backend.storage.data_directory import DataDirectory
from backend.telemetry.buckets import BOUNDS
from backend.telemetry.latencies import Labels
from backend.telemetry.peer_counts import PeerCounts
from backend.telemetry.telemetry import ScanCounts
from model.kinds.layout import ALL
from model.machine.clock import boot_time
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import Instance
from tests.support.in_process.pages import flask_pages
from tests.support.in_process.world import NDJSON
from tests.support.prometheus.promtool import promtool
from tests.unit.backend.indexes.test_index_plans import flights, put_row

METRICS = (Path(__file__).parents[5] / "docs/reference/metrics.md").read_text()
# /metrics of an instance; the proxy's have tests of their own
DOCUMENTED = dict(re.findall(r"^\| `(queryable_(?!proxy_)\w+)` \| (\w+) \|", METRICS, re.M))
POINT = Labels("key", "orders", "active", 200)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    directory = DataDirectory(tmp_path)
    instance = Instance(directory, ORDERS, data_dir=tmp_path)
    instance.context.rocksdb = directory.rocksdb
    instance.place(0, 0)
    instance.hold(0, {b"a": b"1", b"b": b"2"})
    latencies = instance.context.telemetry.latencies
    latencies.observe(latencies.series(POINT), 0.0015, 0)
    latencies.observe(latencies.series(POINT._replace(status=404)), 0.5, 0)
    instance.context.telemetry.peer_counts.ended(b"/internal/scan", 200)
    yield instance
    instance.close()


def scrape(instance: Instance) -> str:
    answer = flask_pages(instance.context).test_client().get("/metrics")
    assert answer.status_code == 200
    return answer.text


def sample(text: str, name: str, **labels: str) -> float:
    [found] = [
        each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if each.name == name and labels.items() <= each.labels.items()
    ]
    return found


def test_names_and_units_follow_the_conventions(instance: Instance) -> None:
    text = scrape(instance)
    assert promtool("check", "metrics", stdin=text.encode()) == ""
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        # "processed" is no unit, and a ratio or a rate has none of its own
        assert not re.search(r"_(ms|millis|kb|mb|percent|rate)(_|$)", family.name), family.name


def test_the_reference_has_every_metric_with_its_type(instance: Instance) -> None:
    found = {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in text_string_to_metric_families(scrape(instance))
        if not family.name.startswith(("process_", "python_"))
    }
    assert found == DOCUMENTED


def test_the_histogram_is_complete_and_cumulative(instance: Instance) -> None:
    text = scrape(instance)
    [family] = [
        family
        for family in text_string_to_metric_families(text)
        if family.name == "queryable_request_duration_seconds"
    ]
    assert family.type == "histogram"
    found = [
        (float(each.labels["le"]), each.value)
        for each in family.samples
        if each.name.endswith("_bucket") and each.labels["status"] == "200"
    ]
    assert [bound for bound, _ in found] == [*BOUNDS, float("inf")]
    assert [value for _, value in found] == [float(bound >= 0.0015) for bound, _ in found]
    name = "queryable_request_duration_seconds"
    labels = {"route": "key", "view": "orders", "role": "active"}
    assert sample(text, f"{name}_count", **labels, status="200") == 1
    assert sample(text, f"{name}_sum", **labels, status="404") == 0.5


def test_rocksdb_counts_cache_hits_and_written_bytes(instance: Instance) -> None:
    before = sample(scrape(instance), "queryable_rocksdb_keys_read_total")
    for _ in range(5):
        assert instance.read(b"a").status == 200
    text = scrape(instance)
    assert sample(text, "queryable_rocksdb_keys_read_total") >= before + 5
    assert sample(text, "queryable_rocksdb_memtable_bytes", partition="0") > 0
    assert sample(text, "queryable_rocksdb_writes_stopped", partition="0") == 0
    assert sample(text, "queryable_ingested_bytes_total", partition="0") > 40
    assert sample(text, "queryable_rocksdb_block_cache_bytes") > 0
    assert 0 < sample(text, "queryable_disk_free_bytes") < sample(text, "queryable_disk_size_bytes")


def test_the_staleness_of_a_store_that_answers_is_never_missing(instance: Instance) -> None:
    """A restarted instance may answer with a lag, and not catch up. It is then at least as stale as
    it is open."""
    store_partition = instance.context.store_partitions.get("orders", 0)
    assert store_partition is not None
    assert store_partition.progress.staleness(boot_time()) is None
    store_partition.opened_at -= 100
    assert 100 <= sample(scrape(instance), "queryable_staleness_seconds") < 110
    store_partition.progress.answerable = False
    assert "queryable_staleness_seconds{" not in scrape(instance)
    store_partition.progress.end_fetched(2, boot_time())
    assert sample(scrape(instance), "queryable_staleness_seconds") < 10


def test_indexes_are_built_and_swept(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        for number in range(12):
            put_row(made, f"k{number}", {"dest": "ATL", "delay": number})
        [store_partition] = [
            held
            for held in made.instances["b1"].context.store_partitions.all()
            if held.partition == 0
        ]
        indexes = store_partition.indexes
        assert indexes is not None
        entries = sum(1 for _ in store_partition.store.scan(*ALL))
        at = {"view": "orders", "partition": "0"}

        def value(name: str, **more: str) -> float:
            text = flask_pages(made.instances["b1"].context).test_client().get("/metrics").text
            return sample(text, f"queryable_index_{name}", **at, **more)

        assert value("building", index="by-dest") == value("unbuilt_entries") == 0
        assert value("unswept_keys") == len(indexes.ids) * entries > 0
        indexes.ready = {name: id_ for name, id_ in indexes.ready.items() if name != "by-dest"}
        indexes.built_entries = 1
        assert value("building", index="by-dest") == 1
        assert value("building", index="by-delay") == 0
        assert value("unbuilt_entries") == store_partition.entries() - 1 >= entries - 1
        indexes.use_built()
        # rows in an order meet the keys of earlier values, and a sweep deletes them
        for number in range(12):
            put_row(made, f"k{number}", {"dest": "ATL", "delay": number + 100})
        assert len(made.ask("keys?order_by=delay").json["items"]) == 12
        assert value("stale_keys_total") == entries
        assert value("sweeps_total") == value("swept_keys_total") == 0
        indexes.sweep_is_due = True
        IndexWork(PartitionWriter(lambda: None), ReadPriority(lambda: 0)).run(
            store_partition, time.monotonic() + 30
        )
        assert value("sweeps_total") == 1
        assert value("swept_keys_total") == 2 * entries  # of by-delay and by-both
        assert value("unswept_keys") == 0


def test_queries_are_counted_by_plan(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        for number in range(4):
            put_row(made, f"k{number}", {"dest": "ATL", "delay": number})
        queries = {
            "key": "keys?where=key%3D'k1'",
            "index": "keys?where=dest%3D'ATL'&select=delay",
            "range": "count?where=key%3E'k1'",
            "scan": "keys",
        }
        for path in queries.values():
            assert made.ask(path).status == 200
        assert made.ask("keys?where=dest%3D'ATL'", accept=NDJSON).status == 200
        assert made.code("keys?where=dest", 400) == "bad-parameter"
        context = made.instances["b1"].context
        text = flask_pages(context).test_client().get("/metrics").text
        plans = {
            plan: sample(text, "queryable_scan_plans_total", view="orders", plan=plan)
            for plan in queries
        }
        assert plans == {"key": 1, "index": 2, "range": 1, "scan": 1}
        entries = dict.fromkeys(queries, 0.0)
        for instance in made.instances.values():
            text = flask_pages(instance.context).test_client().get("/metrics").text
            for plan in queries:
                name = "queryable_scan_entries_total"
                entries[plan] += sample(text, name, view="orders", plan=plan)
        assert entries == {"key": 1, "index": 8, "range": 3, "scan": 4}


def test_a_request_counts_as_its_costliest_plan() -> None:
    counts = ScanCounts()
    counts.note_plans(["index by-dest", "scan"])
    counts.note_plans(["index by-dest", "index by-delay"])
    counts.note_plans(["a plan of a newer version"])
    assert counts.plans == {"key": 0, "index": 1, "range": 0, "scan": 2}


def test_a_closed_store_has_no_state_of_rocksdb(instance: Instance) -> None:
    instance.close()
    assert 'queryable_rocksdb_memtable_bytes{partition="0"' not in scrape(instance)


def test_rebalances_are_counted_with_what_they_moved(instance: Instance) -> None:
    instance.place(0, 1, 0)
    text = scrape(instance)
    assert sample(text, "queryable_rebalances_total") == 2
    assert sample(text, "queryable_rebalanced_partitions_total", change="gained") == 3
    assert sample(text, "queryable_rebalanced_partitions_total", change="lost") == 1


def test_requests_to_other_instances_are_counted_by_few_routes() -> None:
    counts = PeerCounts()
    for target, status in (
        (b"/internal/scan?a=1", 200),
        (b"/views/orders/keys/4711", 404),
        (b"/views/orders/keys/4712", 503),
        (b"/orders/4713", None),
    ):
        counts.ended(target, status)
    assert counts.requests == {
        ("internal/scan", "answered"): 1,
        ("forward", "answered"): 1,
        ("forward", "refused"): 1,
        ("forward", "failed"): 1,
    }


def test_targets_are_all_instances_of_the_topology(instance: Instance) -> None:
    answer = flask_pages(instance.context).test_client().get("/metrics/targets")
    assert [(each["targets"], each["labels"]) for each in answer.json] == [
        (
            [address],
            {"__scheme__": "http", "__metrics_path__": "/metrics", "queryable_instance": id_},
        )
        for address, id_ in (("127.0.0.1:8081", "b1"), ("127.0.0.1:8082", "b2"))
    ]


def test_a_lost_instance_stays_a_target(instance: Instance) -> None:
    """Prometheus forgets a target that is no longer listed, and says nothing."""
    group = instance.context.group
    before = group.topology
    after = replace(before, members=before.members[:1])
    group.lost.apply_topology(before, after, "b1", set())
    group.topology = after
    client = flask_pages(instance.context).test_client()
    listed = [each["labels"]["queryable_instance"] for each in client.get("/metrics/targets").json]
    assert sorted(listed) == ["b1", "b2"]
    group.lost.leaving("b2")
    listed = [each["labels"]["queryable_instance"] for each in client.get("/metrics/targets").json]
    assert listed == ["b1"], "it has stopped on purpose"
