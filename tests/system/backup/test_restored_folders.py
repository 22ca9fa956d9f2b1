"""Instances whose data folder was lost, or is replaced by an older copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.client import Response, key_path
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer, ends_of, history
from tests.system.data_folders import back_up, cp, positions, rebuilt, restore
from tests.system.stores import Stores

RIGHT = {"200", "404"}


@pytest.fixture
def stores(make_topic: MakeTopic, writer: Writer) -> Stores:
    return Stores(make_topic, writer)


def deployed(deploy: Deploy, stores: Stores, instances: int, **settings: str) -> Deployment:
    """With all partitions in each instance."""
    views = views_toml(**stores.views)
    own = {"standby_replicas": "1", "copy_threshold": "1", "wait_timeout": "0", **settings}
    deployment = deploy(views, **own)
    deployment.start(instances)
    wait_answers(deployment.all, stores)
    return deployment


def wait_answers(backends: list[Backend], stores: Stores) -> None:
    """Wait for the answers of the last round, from the instances' own stores."""
    for backend in backends:
        with backend.client() as client:
            backend.wait(lambda client=client: stores.are_answers(client.get), "the last round")


@pytest.mark.parametrize("instances", [1, 2])
def test_an_instance_that_has_lost_its_folder_gets_its_data_again(
    deploy: Deploy, stores: Stores, instances: int
) -> None:
    """From another instance, or alone from the topics. Meanwhile no answer is wrong, and none fails
    if there is another instance."""
    deployment = deployed(deploy, stores, instances)
    nginx, lost = deployment.proxy(), deployment.all[-1]
    paths = list(stores.expected())
    with ReadLoop([nginx.port], paths, stores.judge(), threads=2) as read_loop:
        read_loop.all_again()
        assert lost.stop() == 0
        shutil.rmtree(lost.data_dir)
        lost.launch()
        settle(deployment.all)
        read_loop.all_again()
    if instances > 1:
        assert set(read_loop.outcomes) <= RIGHT, read_loop.outcomes
        assert "received a snapshot of" in lost.log()
    else:
        assert "received a snapshot" not in lost.log()
    wait_answers([lost], stores)
    stores.write()
    wait_answers(deployment.all, stores)


def test_an_older_copy_of_one_instance_is_not_answered_from_before_it_has_caught_up(
    deploy: Deploy, stores: Stores
) -> None:
    deployment = deployed(deploy, stores, 2)
    restored = deployment.all[1]
    before = positions(restored)
    assert restored.stop() == 0
    copies = back_up([restored])
    restored.launch()
    settle(deployment.all)
    stores.write()
    wait_answers(deployment.all, stores)
    nginx, paths = deployment.proxy(), list(stores.expected())
    with ReadLoop([nginx.port], paths, stores.judge(), threads=2) as read_loop:
        read_loop.all_again()
        assert restored.stop() == 0
        restore(restored, copies[restored.id])
        restored.launch()
        settle(deployment.all)
        read_loop.all_again()
    assert set(read_loop.outcomes) <= RIGHT, read_loop.outcomes
    assert_continued(restored, before)
    wait_answers(deployment.all, stores)


def test_older_copies_of_all_instances_continue_at_their_positions(
    deploy: Deploy, stores: Stores
) -> None:
    """While they catch up, answers are as of their position."""
    deployment = deployed(deploy, stores, 2, drain_time="0")
    before = {backend.id: positions(backend) for backend in deployment.all}
    stop_all(deployment)
    copies = back_up(deployment.all)
    launch_all(deployment)
    stores.write()
    wait_answers(deployment.all, stores)
    stop_all(deployment)
    ports = [backend.port for backend in deployment.all]
    # a count is of partitions at different positions, so it can be of no round
    paths = [path for path in stores.expected() if "/count" not in path]
    with ReadLoop(ports, paths, stores.judge(since=1), threads=2) as read_loop:
        for backend in deployment.all:
            restore(backend, copies[backend.id])
        launch_all(deployment)
        wait_answers(deployment.all, stores)
        read_loop.all_again()
    for backend in deployment.all:
        assert_continued(backend, before[backend.id])


def assert_continued(backend: Backend, before: dict[tuple[str, int], int]) -> None:
    """The stores on disk were opened at the positions of the copy, and not rebuilt."""
    started = positions(backend, "started")
    assert len(started) > 10
    assert started == {id_: before[id_] for id_ in started}
    assert (rebuilt(backend), backend.instance()["rebuilds"]) == ([], 0)


def stop_all(deployment: Deployment) -> None:
    for backend in deployment.all:
        backend.terminate()
    for backend in deployment.all:
        assert backend.wait_end() == 0


def launch_all(deployment: Deployment) -> None:
    for backend in deployment.all:
        backend.launch()
    settle(deployment.all)


def test_a_copy_that_is_older_than_deletes_are_kept_is_rebuilt(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """Compaction may have removed the tombstones of keys that the copy still has."""
    topic = make_topic(1, cleanup_policy="compact", delete_retention_ms="200")
    writer.table(topic, {"kept": 1, "deleted": 1})
    [backend] = deploy(views_toml(v={"topic": topic}), wait_timeout="0").start()
    assert backend.stop() == 0
    copies = back_up([backend])
    writer.table(topic, {"kept": 2, "deleted": None})
    restore(backend, copies[backend.id])
    backend.start()
    assert "tombstones may be lost" in "".join(rebuilt(backend))
    assert backend.get(key_path("v", "kept")).json()["value"] == 2
    assert backend.get(key_path("v", "deleted")).status == 404


KEYS = [f"key {n}" for n in range(400)]
MANY = 12_000  # records that fill a memtable of 1.3 MB several times


def test_a_copy_of_a_running_instance_is_recognised_and_rebuilt(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """The copy is made while RocksDB writes a memtable to a file, and deletes the log of it: it has
    neither of the two, but what was written before and after it."""
    topic = make_topic(1)
    values = {key: {"of": key} for key in KEYS}
    writer.table(topic, {key: values[key] for key in KEYS[:100]})
    deployment = deploy(views_toml(v={"topic": topic}), block_cache_mb="16", wait_timeout="0")
    [backend] = deployment.start()
    assert backend.stop() == 0
    backend.start()  # what was written so far is in a file now

    def wait_end() -> None:
        backend.wait_positions("v", ends_of(history(writer_servers(backend), topic, 1)))

    store = backend.data_dir / "v" / "0"
    assert list(store.glob("*.sst"))
    copy = backend.data_dir.with_name("copy")
    cp(backend.data_dir, copy)
    for path in (copy / "v" / "0").glob("*.log"):
        path.unlink()
    old_logs = logs_of(store)
    writer.table(topic, {key: values[key] for key in KEYS[100:300]})
    writer.table(topic, {f"other {n}": "x" * 300 for n in range(MANY)})
    wait_until(lambda: not old_logs & logs_of(store), 20, "a flush of the memtable")
    writer.table(topic, {key: values[key] for key in KEYS[300:]})
    wait_end()
    for name in logs_of(store):
        cp(store / name, copy / "v" / "0" / name)
    assert backend.stop() == 0
    restore(backend, copy)
    paths = [key_path("v", key) for key in KEYS]
    with ReadLoop([backend.port], paths, no_miss, threads=1) as read_loop:
        backend.start()
        read_loop.all_again()
    assert "is a copy that was made while an instance was using it" in backend.log()
    for key in KEYS:
        assert backend.get(key_path("v", key)).json()["value"] == values[key]


def test_a_crash_is_not_taken_for_a_copy(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(1)
    writer.table(topic, dict.fromkeys(KEYS, 1))
    [backend] = deploy(views_toml(v={"topic": topic})).start()
    before = positions(backend)
    backend.kill()
    backend.wait_gone()
    backend.start()
    assert positions(backend, "started") == before == {("v", 0): len(KEYS)}
    assert rebuilt(backend) == []


def no_miss(path: str, answer: Response) -> str:
    return "" if answer.status in (200, 503) else "a false 404"


def logs_of(store: Path) -> set[str]:
    """The names of the files of RocksDB's write-ahead log."""
    return {path.name for path in store.glob("*.log")}


def writer_servers(backend: Backend) -> str:
    return backend.settings["QUERYABLE_BOOTSTRAP_SERVERS"]
