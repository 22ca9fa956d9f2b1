"""`diff`, `adopt` and `check` with a real broker, real topics and real backends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from backend.instance.settings import Settings
from backend.storage.data_directory import DataDirectory
from local.kafka.broker import Broker, quiet_admin
from local.ports import free_ports
from model.partitioner import partition_of
from model.problems import ConfigurationError
from model.views_file import parse_views
from queryable.cli.check import machine
from queryable.cli.check.cluster_secret import check_cluster_secret
from queryable.cli.diff.matching import DIFFERENT, ONLY_FIRST, ONLY_SECOND
from tests.support.backends import Backend
from tests.support.deployment import Deployment, views_toml
from tests.support.plugins.fixtures import MakeTopic
from tests.support.security.cluster_secret import SECRET, write_secrets
from tests.support.topics import Writer
from tests.system.queryable.cli.operations import (
    ANOTHER,
    HOUR,
    NOW,
    PARTITIONS,
    VIEWS,
    rows,
    run,
    tables,
)


@pytest.fixture(scope="module")
def backends(
    broker: Broker, make_topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Backend, Backend]]:
    """Two deployments of the same views with their own topics. Each view of the second one has a
    missing entry, an additional entry, and an entry with another value."""
    writer = Writer(broker.bootstrap_servers)
    folder = tmp_path_factory.mktemp("backends")
    deployments = []
    for number in range(2):
        declared = {}
        for name, records in tables().items():
            keys = sorted(records)
            if number:
                records[keys[3]] = records[keys[10]]
                records[ANOTHER[name]] = records.pop(keys[1])
            topic = make_topic(PARTITIONS)
            # the bare key determines the partition
            by_key = {"bookings": 12, "visits": 16}.get(name, 0)
            partitioned = [(key, value, _partition(key, by_key)) for key, value in records.items()]
            writer.send_timed(topic, [(k, v, NOW, p) for k, v, p in partitioned])
            declared[name] = {**VIEWS[name], "topic": topic}
        deployments.append(Deployment(folder / str(number), broker.bootstrap_servers,
                                    views_toml(**declared)))  # fmt: skip
    with deployments[0] as one, deployments[1] as other:
        started = one.new().launch(), other.new().launch()
        for backend in started:
            backend.wait_ready()
        yield started


def _partition(key: bytes, tail: int) -> int:
    return partition_of("murmur2")(key[:-tail] if tail else key, PARTITIONS)


def url(backend: Backend) -> str:
    return f"http://127.0.0.1:{backend.port}"


# --- diff


@pytest.mark.parametrize("how", [("--all",), ("--sample", "1000")], ids=["all", "sample"])
@pytest.mark.parametrize("view", VIEWS)
def test_diff_finds_differences(
    backends: tuple[Backend, Backend], view: str, how: tuple[str, ...]
) -> None:
    one, other = map(url, backends)
    done = run("diff", one, other, view, *how)
    *found, counts = rows(done)
    kinds = [ONLY_FIRST, ONLY_SECOND, DIFFERENT]
    assert sorted(row["difference"] for row in found) == sorted(kinds), done.output
    assert {kind: counts[kind] for kind in kinds} == dict.fromkeys(kinds, 1)
    assert counts["compared"] == len(tables()[view]) + 1
    assert [counts[side]["url"] for side in ("first", "second")] == [one, other]
    assert [counts[side]["lag"] for side in ("first", "second")] == [0, 0]
    assert done.exit_code == 1


@pytest.mark.parametrize("how", ["--all", "--sample=1000"])
def test_diff_prints_as_many_as_requested_and_counts_all(
    backends: tuple[Backend, Backend], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # and reads only some of them again
    monkeypatch.setattr("queryable.cli.diff.comparison._MAX_REREAD", 1)
    done = run("diff", *map(url, backends), "orders", how, "--show", "1")
    [shown, counts] = rows(done)
    assert shown["key"].startswith("order-")
    assert [counts[kind] for kind in (ONLY_FIRST, ONLY_SECOND, DIFFERENT)] == [1, 1, 1]


@pytest.mark.parametrize("view", VIEWS)
def test_diff_of_equal_views_exits_with_0(backends: tuple[Backend, Backend], view: str) -> None:
    one = url(backends[0])
    for how in ("--all", "--sample=25"):
        done = run("diff", one, one, view, how)
        [counts] = rows(done)
        assert counts["compared"] >= 25
        assert done.exit_code == 0


@pytest.mark.parametrize("view", VIEWS)
def test_diff_samples_large_views_from_random_keys(
    backends: tuple[Backend, Backend], view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queryable.cli.diff.sources._SMALL", 0)
    monkeypatch.setattr("queryable.cli.diff.sources._RANGES", 2)
    one = url(backends[0])
    done = run("diff", one, one, view, "--sample=4")
    [counts] = rows(done)
    assert 1 <= counts["compared"] <= 8
    assert done.exit_code == 0


def test_diff_names_the_deployment_that_is_not_available(backends: tuple[Backend, Backend]) -> None:
    unreachable = f"http://127.0.0.1:{free_ports(1)[0]}"
    done = run("diff", url(backends[0]), unreachable, "orders", "--timeout", "3")
    assert done.exit_code == 3
    assert unreachable in done.stderr
    done = run("diff", *map(url, backends), "nothing")
    assert done.exit_code == 2
    assert url(backends[0]) in done.stderr


# --- check


def check(broker: Broker, tmp_path: Path, views: str, **settings: str) -> tuple[Any, int]:
    """The findings by status, and the exit code."""
    path = tmp_path / "views.toml"
    path.write_text(views)
    environment = {
        "QUERYABLE_VIEWS": str(path),
        "QUERYABLE_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "QUERYABLE_DATA_DIR": str(tmp_path / "data"),
        "QUERYABLE_PORT": str(free_ports(1)[0]),
        **{f"QUERYABLE_{name.upper()}": value for name, value in settings.items()},
    }
    done = run("check", "--timeout", "2", **environment)
    found: dict[str, list[str]] = {"ok": [], "warning": [], "wrong": []}
    for row in rows(done):
        found[row["status"]].append(f"{row['about']}: {row['says']} ► {row['do']}")
    return found, done.exit_code


def test_check_of_a_running_deployment(
    backends: tuple[Backend, Backend], broker: Broker, tmp_path: Path, make_topic: MakeTopic
) -> None:
    topic = make_topic(PARTITIONS, cleanup_policy="compact")
    Writer(broker.bootstrap_servers).table(topic, {f"key {n}": n for n in range(100)})
    [found, status] = check(
        broker, tmp_path, views_toml(v={"topic": topic}), port=str(backends[0].port)
    )
    assert (status, found["wrong"]) == (0, []), found
    assert any("instance b1 listens" in line for line in found["ok"])
    assert any("100 keys are in the partition of murmur2" in line for line in found["ok"])
    # nothing was created
    assert not (tmp_path / "data").exists()


def test_check_finds_errors_of_topics_and_what_to_do(
    broker: Broker, tmp_path: Path, make_topic: MakeTopic
) -> None:
    compact = {"cleanup_policy": "compact"}
    elsewhere, formats = (make_topic(PARTITIONS, **compact) for _ in range(2))
    keyless = make_topic(1)  # a compacted topic rejects records without a key
    forgets = make_topic(1, cleanup_policy="delete", retention_ms=HOUR)
    table = {f"key {n}": n for n in range(100)}
    servers = broker.bootstrap_servers
    Writer(servers, partitioner="consistent_random").table(elsewhere, table)
    Writer(servers).send(keyless, [(None, b"1"), (b"a", b"2")])
    Writer(servers).send(formats, [(b"a", b"{")])
    found, status = check(
        broker, tmp_path,
        views_toml(
            elsewhere={"topic": elsewhere}, any={"topic": elsewhere, "partitioner": "none"},
            keyless={"topic": keyless}, formats={"topic": formats, "key": "int32"},
            missing={"topic": f"{elsewhere}x"}, forgets={"topic": forgets},
            keeps={"topic": forgets, "retention": "30m"},
        ),
    )  # fmt: skip
    assert status == 1
    wrong, warnings = ("\n".join(found[kind]) for kind in ("wrong", "warning"))
    assert 'set partitioner = "crc32" in [views.elsewhere]' in wrong
    assert "1 of 2 records" in wrong
    assert 'do not fit key = "int32"' in wrong
    assert 'do not fit value = "json"' in wrong
    assert f"did you mean {elsewhere}?" in wrong
    assert len(found["wrong"]) == 5, wrong
    assert 'set partitioner = "crc32" in [views.any]' in warnings
    assert 'set retention = "1h" in [views.forgets]' in warnings
    assert not any("keeps" in line for line in found["warning"])


def test_check_continues_after_errors(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    found, status = check(
        broker, tmp_path, '[views.v]\ntopic = "t"\nkey = "strng"\nvalue = "json"\n',
        bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}", max_streems="3", max_in_flight="many",
        wait_timeout="1",
        data_dir=str(file), port=str(broker.port),
    )  # fmt: skip
    assert status == 1
    wrong = "\n".join(found["wrong"])
    assert "line 3, [views.v], key" in wrong
    assert "Cannot read from the broker" in wrong
    assert "QUERYABLE_MAX_IN_FLIGHT" in wrong
    assert "QUERYABLE_WAIT_TIMEOUT is no longer a setting" in wrong
    assert "is not a folder" in wrong
    assert any("did you mean QUERYABLE_MAX_STREAMS?" in line for line in found["warning"])


def test_check_of_the_cluster_secret(tmp_path: Path) -> None:
    def found(**settings: str) -> list[tuple[str, str]]:
        return [(each.status, each.message) for each in check_cluster_secret(Settings(**settings))]

    assert found(host="127.0.0.1") == []
    [(status, message)] = found(host="0.0.0.0")
    assert status == "warning"
    file = write_secrets(tmp_path / "secret", SECRET)
    assert found(host="0.0.0.0", cluster_secret_file=str(file)) == [("ok", f"{file} is used")]
    file.chmod(0o644)
    [(status, message)] = found(cluster_secret_file=str(file))
    assert (status, "chmod 600" in message, SECRET in message) == ("wrong", True, False)


def test_check_and_instance_report_the_same_about_the_data_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "photos" / "2013").mkdir(parents=True)
    [refused] = machine.check_data_folder(folder, "ours")
    with pytest.raises(ConfigurationError) as error:
        DataDirectory(folder, application="ours")
    assert refused.status == "wrong"
    assert str(error.value) == f"{refused.message}. {refused.action}."
    # the folder belongs to another application
    DataDirectory(tmp_path / "b1", application="theirs").close()
    before = sorted(tmp_path.rglob("*"))
    [refused] = machine.check_data_folder(tmp_path / "b1", "ours")
    assert (refused.status, "belongs to application 'theirs'" in refused.message) == ("wrong", True)
    assert next(machine.check_data_folder(tmp_path / "b1", "theirs")).status == "ok"
    assert sorted(tmp_path.rglob("*")) == before


# --- adopt


def test_adopt_proposes_views_for_changelogs(broker: Broker, make_topic: MakeTopic) -> None:
    application = make_topic(1)  # a unique name
    both = {"cleanup_policy": "compact,delete", "retention_ms": 26 * HOUR}
    made: dict[str, dict[str, Any]] = {
        "orders": {"cleanup_policy": "compact"},
        "bookings": both,
        "visits": both,
    }
    records = tables()
    writer = Writer(broker.bootstrap_servers)
    for store, config in made.items():
        topic = make_topic(1, name=f"{application}-{store}-changelog", **config)
        writer.send_timed(topic, [(k, v, NOW, 0) for k, v in records[store].items()])
    before = run("adopt", application, "--bootstrap-servers", broker.bootstrap_servers)
    views = {view.name: view for view in parse_views(before.stdout).views}
    assert {name: view.store for name, view in views.items()} == {
        "orders": "key-value", "bookings": "window", "visits": "session",
    }  # fmt: skip
    assert {view.key for view in views.values()} == {"string"}
    assert (views["orders"].value, views["visits"].retention) == ("json", None)
    assert "is 2h, which is too short if a supplier" in before.stdout
    assert "# Stores without a changelog are not listed" in before.stdout


def test_adopt_and_check_report_a_changelog_that_the_broker_has_emptied(
    broker: Broker, tmp_path: Path, make_topic: MakeTopic
) -> None:
    application = make_topic(1)
    topic = make_topic(
        1, name=f"{application}-visits-changelog", cleanup_policy="compact,delete",
        retention_ms=26 * HOUR,
    )  # fmt: skip
    Writer(broker.bootstrap_servers).send_timed(topic, [(b"a" + bytes(16), b"1", 0, 0)])
    # the broker would do this within minutes, because event time is far in the past
    admin = quiet_admin(broker.bootstrap_servers)
    [deleted] = admin.delete_records([TopicPartition(topic, 0, -1)]).values()
    deleted.result(10)
    done = run("adopt", application, "--bootstrap-servers", broker.bootstrap_servers)
    assert f"{topic}: not proposed, the broker has deleted all 1 records" in done.stdout
    assert "[views" not in done.stdout
    view = {"topic": topic, "store": "session", "retention": "2h"}
    found, status = check(broker, tmp_path, views_toml(visits=view))
    assert status == 1
    [wrong] = found["wrong"]
    assert "has deleted all 1 records" in wrong
    assert "retention.ms" in wrong


def test_adopt_lists_the_changelogs_of_the_broker(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(1, name="aaa-app-store-changelog")
    done = run("adopt", "nobodys", "--bootstrap-servers", broker.bootstrap_servers)
    assert done.exit_code == 1
    assert topic in done.stderr
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    done = run("adopt", "nobodys", "--bootstrap-servers", nowhere, "--timeout=1")
    assert done.exit_code == 3
    assert nowhere in done.stderr
