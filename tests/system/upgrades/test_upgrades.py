"""An upgrade of a deployment from the last release, and the way back, under load.

Instances are replaced one by one. Meanwhile there are a writer, and readers through nginx with the
files of both versions, and with the clients of both versions. No read fails, and no answer is wrong
or older than one that its reader has seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from local.kafka.broker import Broker
from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.faults.checking import check
from tests.faults.cluster import VIEW
from tests.faults.load import ReadLoad
from tests.faults.truth import first_difference, topic_history
from tests.faults.writing import UpdateLoad
from tests.support.plugins.fixtures import MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer
from tests.system.stores import Stores
from tests.system.upgrades.last_release import Release
from tests.system.upgrades.mixed_cluster import MixedCluster, client_of, runs_old_code

RATE = 80.0  # reads per second through each proxy


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory,
    broker: Broker,
    make_topic: MakeTopic,
    writer: Writer,
    release: Release,
) -> Iterator[MixedCluster]:
    folder = tmp_path_factory.mktemp("upgrades")
    with MixedCluster(broker, folder, release, Stores(make_topic, writer)) as running:
        yield running


@contextmanager
def checked_load(cluster: MixedCluster) -> Iterator[list[ReadLoad]]:
    """A writer, and readers of all kinds, during the block. All answers are checked after it."""
    keys = cluster.keys.kept[::20]
    proxies = [cluster.nginx, cluster.old_nginx]
    loads = [ReadLoad(nginx.port, VIEW, cluster.keys.of, RATE) for nginx in proxies]
    stores = cluster.stores
    paths = list(stores.expected())
    writing = UpdateLoad(
        cluster.broker.bootstrap_servers, cluster.topic, cluster.keys.kept, cluster.keys.volatile,
        first=cluster.first_number,
    )  # fmt: skip
    with writing:
        with (
            loads[0],
            loads[1],
            ReadLoop([n.port for n in proxies], paths, stores.judge(), threads=1) as read_loop,
            client_of(cluster.release.code, cluster.folder / "old", cluster.nginx, keys) as old,
            client_of(REPOSITORY, cluster.folder / "new", cluster.old_nginx, keys) as new,
        ):
            wait_answers(cluster, loads)
            read_loop.all_again()
            yield loads
            wait_answers(cluster, loads)
            read_loop.all_again()
        writing.stop()
        cluster.first_number = writing.next_number
        assert first_difference(cluster) == ""
    truth = topic_history(cluster, writing, cluster.partitions, cluster.keys.kept)
    for load in loads:
        found = check(load.reads, [truth], load.began, load.ended, load.stalls)
        assert (found.wrong, found.failed) == (0, 0), (found.examples, found.failures)
        assert found.requests > 200
    for client in (old, new):
        assert (client["wrong"], client["failed"]) == ([], [])
        assert client["reads"] > 5 * len(keys)
    assert set(read_loop.outcomes) <= {"200", "404"}, read_loop.outcomes


def wait_answers(cluster: MixedCluster, loads: list[ReadLoad]) -> None:
    """Wait until each proxy has answered requests for all partitions that are sent from now on."""
    for load in loads:
        moment = load.reads[-1].answered if load.reads else 0.0
        wait_until(
            lambda load=load, moment=moment: load.good_since(moment) == set(cluster.keys.of),
            20, "an answer from each partition",
        )  # fmt: skip


def assert_all_stores_follow(cluster: MixedCluster) -> None:
    """New records of every kind of store are in the answers of every instance and proxy."""
    stores = cluster.stores
    stores.write()
    for server in (*cluster.all, cluster.nginx, cluster.old_nginx):
        with server.client() as client:
            wait_until(
                lambda client=client: stores.are_answers(client.get), 20, "the newest records"
            )


def test_an_upgrade_one_by_one(cluster: MixedCluster, release: Release) -> None:
    cluster.replace_all(is_old=True)
    assert all(runs_old_code(backend, release) for backend in cluster.all)
    with checked_load(cluster) as loads:
        cluster.replace_all(is_old=False)
        wait_answers(cluster, loads)  # the old proxy's, from new instances
        cluster.old_nginx.replace_files(REPOSITORY)
    assert not any(runs_old_code(backend, release) for backend in cluster.all)
    assert_all_stores_follow(cluster)


def test_the_way_back_one_by_one(cluster: MixedCluster, release: Release) -> None:
    cluster.replace_all(is_old=False)
    with checked_load(cluster) as loads:
        cluster.old_nginx.replace_files(release.proxy_files)
        wait_answers(cluster, loads)
        cluster.replace_all(is_old=True)
    assert all(runs_old_code(backend, release) for backend in cluster.all)
    assert_all_stores_follow(cluster)
