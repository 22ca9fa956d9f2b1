"""Faults of the data: the way to the broker, producers, and batch jobs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from model.partitioner import partition_of
from model.pushes.manifest import Pinned
from model.views import View
from model.views_file import parse_views
from spark.batch.offsets import pin
from tests.faults.faults import damage
from tests.support.backends import Backend
from tests.support.brokers import DetouredBroker
from tests.support.client import key_path
from tests.support.deployment import Deployment, views_toml
from tests.support.prometheus.scrapes import Scrape, Target, later, targets, when
from tests.support.pushes import manifest_of, push
from tests.support.tcp_faults import Link, TcpFaults
from tests.support.topics import Writer
from tests.system.deploy.faults.conftest import Alarms

TOPICS = {"things": 1, "scattered": 2, "pushed": 1, "framed": 1}  # the number of partitions
MANY = 15_000  # records: more than the lag at which the alert fires


@dataclass
class Site:
    """A backend that reaches the broker through `detour`, and a writer that does not need it."""

    backend: Backend
    of: list[Target]
    detour: TcpFaults
    writer: Writer
    view: View  # with a folder for pushes
    pin: Callable[[], Pinned]
    servers: str
    schemas: Path  # the folder
    views: Path  # the file

    def differing(self, view: str) -> dict[str, str]:
        """What differs from a runbook, whose view is `orders`."""
        return {
            "127.0.0.1:8081": self.backend.address,
            "views.toml": str(self.views),
            "broker:9092": self.backend.settings["QUERYABLE_BOOTSTRAP_SERVERS"],
            "orders": view,
        }

    def when(self, condition: Callable[[Scrape], bool], what: str) -> Scrape:
        """The first scrape for which it is true."""
        return when(self.of, condition, 30, what)

    def again(self, first: Scrape) -> Scrape:
        return later(self.of, first)

    def fresh(self) -> Scrape:
        """A scrape with all records applied."""

        def is_fresh(found: Scrape) -> bool:
            ages, lags = (
                found.of(f"queryable_{name}") for name in ("staleness_seconds", "lag_records")
            )
            whole = len(ages) == len(lags) == sum(TOPICS.values())
            return whole and max(ages) < 1 and max(lags) == 0

        return self.when(is_fresh, "it to catch up")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("data-faults")
    (folder / "pushes").mkdir()
    text = views_toml(
        things={"topic": "things"},
        scattered={"topic": "scattered"},
        pushed={"topic": "pushed", "push": str(folder / "pushes")},
        framed={"topic": "framed", "value": "avro", "value_schema": "confluent"},
    )
    (folder / "schemas").mkdir()
    text += f'[schemas]\nfolder = "{folder / "schemas"}"\n'
    with TcpFaults() as detour, DetouredBroker(folder / "broker", detour.port) as broker:
        detour.target = broker.detour_port
        servers = broker.bootstrap_servers
        create_topics(quiet_admin(servers), [Topic(*of, {}) for of in TOPICS.items()])
        writer = Writer(servers)
        for name in TOPICS.keys() - {"framed"}:
            writer.table(name, {f"k{number}": number for number in range(20)})
        with Deployment(folder, f"127.0.0.1:{detour.port}", text) as deployment:
            [backend] = deployment.start()
            view = next(each for each in parse_views(text).views if each.push)
            path = str(deployment.views_path)
            of = targets(f"http://127.0.0.1:{backend.port}")
            pinned = partial(pin, "pushed", servers, path)
            schemas, views = folder / "schemas", deployment.views_path
            yield Site(backend, of, detour, writer, view, pinned, servers, schemas, views)


@pytest.mark.raises("QueryableDataStale")
@pytest.mark.walks("QueryableDataStale")
def test_the_broker_cannot_be_reached(site: Site, alarms: Alarms) -> None:
    healthy = site.fresh()
    alarms.silent(healthy)
    site.detour.refuse()
    site.detour.cut()
    outage = site.when(
        lambda found: min(found.of("queryable_staleness_seconds")) > 2, "the staleness"
    )
    assert alarms.raised(healthy, outage, site.again(outage)) == {"QueryableDataStale"}
    alarms.walk("QueryableDataStale", site.differing("things"))
    site.detour.heal()
    alarms.silent(outage, site.fresh())


@pytest.mark.raises("QueryableOpenTransaction", "QueryableDataStale")
@pytest.mark.walks("QueryableOpenTransaction")
def test_a_producer_leaves_a_transaction_open(site: Site, alarms: Alarms) -> None:
    healthy = site.fresh()
    producer = Producer(
        {"bootstrap.servers": site.servers, "transactional.id": "open", "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("things", b"1", b"in a transaction", partition=0)
    assert producer.flush(30) == 0
    held = site.when(
        lambda found: max(found.of("queryable_open_transaction_seconds", view="things")) > 2,
        "the transaction",
    )
    assert max(held.of("queryable_lag_records", view="things")) == 0
    found = alarms.raised(healthy, held, site.again(held))
    assert found == {"QueryableOpenTransaction", "QueryableDataStale"}
    alarms.walk("QueryableOpenTransaction", site.differing("things"))
    producer.abort_transaction(30)
    alarms.silent(held, site.fresh())


@pytest.mark.raises("QueryableLagGrows", "QueryableDataStale")
@pytest.mark.walks("QueryableLagGrows")
def test_records_arrive_faster_than_they_are_read(site: Site, alarms: Alarms) -> None:
    def write() -> None:
        values = (b'"%b"' % os.urandom(50).hex().encode() for _ in range(MANY))
        site.writer.send("things", ((b"k%d" % n, value) for n, value in enumerate(values)))

    healthy = site.fresh()
    site.detour.shape(down=Link(rate=20_000))
    write()
    behind = site.when(
        lambda found: max(found.of("queryable_lag_records", view="things"), default=0) > 10_000,
        "the lag",
    )
    write()
    found = alarms.raised(healthy, behind, site.again(behind))
    assert found == {"QueryableLagGrows", "QueryableDataStale"}
    alarms.walk("QueryableLagGrows", site.differing("things"))
    site.detour.heal()
    alarms.silent(behind, site.fresh())


@pytest.mark.raises("QueryablePushFailed")
@pytest.mark.walks("QueryablePushFailed")
def test_a_file_of_the_newest_push_is_damaged(site: Site, alarms: Alarms) -> None:
    def installed(value: str) -> Scrape:
        site.backend.wait(
            lambda: site.backend.get(key_path("pushed", "k1")).json()["value"] == value, "a push"
        )
        return site.when(lambda found: found.of("queryable_push_failed") == [0], "no error")

    url = site.view.push
    assert url is not None
    push(url, site.view, site.pin(), {"k1": '"first"'})
    healthy = installed("first")
    alarms.silent(healthy)
    with site.backend.paused():  # it would fetch the files at once
        newest = push(url, site.view, site.pin(), {"k1": '"second"'})
        [file] = manifest_of(Path(url), newest).files
        damage(Path(url) / newest / file.name)
    failed = site.when(lambda found: found.of("queryable_push_failed") == [1], "the error")
    assert alarms.raised(healthy, failed) == {"QueryablePushFailed"}
    alarms.walk("QueryablePushFailed", site.differing("pushed"))
    # as the runbook says: run the batch job again
    push(url, site.view, site.pin(), {"k1": '"third"'})
    alarms.silent(failed, installed("third"))


@pytest.mark.raises("QueryableSchemaMissing")
@pytest.mark.walks("QueryableSchemaMissing")
def test_a_schema_is_missing(site: Site, alarms: Alarms) -> None:
    healthy = site.fresh()
    site.writer.send("framed", [(b"k", b"\0\0\0\0\x07\x02")])
    waits = site.when(lambda found: any(found.of("queryable_waiting_for_schema")), "the wait")
    assert alarms.raised(healthy, waits) == {"QueryableSchemaMissing"}
    alarms.walk("QueryableSchemaMissing", site.differing("framed"))
    # as the runbook says: the schema is registered again
    (site.schemas / "7.avsc").write_text('"int"')
    alarms.silent(waits, site.fresh())
    assert site.backend.get(key_path("framed", "k")).json()["value"] == 1


@pytest.mark.raises("QueryableMispartitionedRecords")
@pytest.mark.walks("QueryableMispartitionedRecords")
def test_a_producer_uses_another_partitioner(site: Site, alarms: Alarms) -> None:
    healthy = site.fresh()
    crc32 = partition_of("crc32")
    assert crc32 is not None
    for key in [b"key %d" % number for number in range(10)]:
        site.writer.send("scattered", [(key, b"1")], partition=crc32(key, TOPICS["scattered"]))
    mixed = site.when(
        lambda found: any(found.of("queryable_mis_partitioned_records_total")), "the records"
    )
    assert alarms.raised(healthy, mixed) == {"QueryableMispartitionedRecords"}
    alarms.walk("QueryableMispartitionedRecords", site.differing("scattered"))
