"""The faults, one function each, that breaks something, waits, and mends it; all in `SCENARIOS`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from itertools import cycle
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions

from local.errors import LocalError
from local.kafka.broker import quiet_admin
from local.waiting import wait_until
from tests.faults.checking import Era
from tests.faults.cluster import VIEW, Setup
from tests.faults.faults import damage, fill_disk, largest, other_version
from tests.faults.stage import Scenario, Stage, Target
from tests.faults.truth import era
from tests.support.backends import Backend
from tests.support.client import key_path
from tests.support.deployment import views_toml
from tests.support.tcp_faults import SILENT, Link, TcpFaults

SCENARIOS: dict[str, Scenario] = {}
NONE_FAILED = Target(failed=0.0)
_OUTAGE = 3  # so many times the others' length: 30 s
_NOTICED = 8.0  # s, after which every instance knows of a change of the topic


def scenario(
    name: str,
    what: str,
    setup: Setup | None = None,
    target: Target | None = None,
    heals: bool = True,
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    def register(run: Callable[[Stage], None]) -> Callable[[Stage], None]:
        SCENARIOS[name] = Scenario(name, what, run, setup or Setup(), target or Target(), heals)
        return run

    return register


@scenario("kill-one", "kill -9 of one of three", target=Target(0.001, 300))
def kill_one(stage: Stage) -> None:
    victim, *others = stage.backends
    stage.fault()
    victim.kill()
    stage.regained(others)
    stage.hold()
    victim.launch()
    stage.cluster.wait_whole()


@scenario("kill-two", "kill -9 of two of three at once")
def kill_two(stage: Stage) -> None:
    *victims, last = stage.backends
    stage.fault()
    for victim in victims:
        victim.kill()
    stage.cluster.wait_whole(living=[last])
    stage.wait_answers()
    for victim in victims:
        victim.launch()
    stage.regained(stage.backends)


@scenario("hang-one", "SIGSTOP of one of three, then SIGCONT", target=Target(silence_ms=1_000))
def hang_one(stage: Stage) -> None:
    victim, *others = stage.backends
    with victim.paused():
        stage.fault()
        stage.regained(others)
        stage.hold()
    stage.cluster.wait_whole(living=stage.backends)


@scenario("rolling-restart", "SIGTERM and start, one after the other", target=NONE_FAILED)
def rolling_restart(stage: Stage) -> None:
    for backend in stage.backends:
        stage.fault()
        status = backend.stop()
        backend.launch()
        stage.regained(stage.backends)
        if status != 0:
            raise LocalError(f"{backend.id} ended with {status}")


@scenario("broker-away", "the broker stopped for 30 s", target=NONE_FAILED)
def broker_away(stage: Stage) -> None:
    broker = stage.cluster.broker
    broker.stop()
    stage.hold(_OUTAGE * stage.seconds)
    broker.start()
    stage.cluster.wait_whole(living=stage.backends)


@scenario("broker-killed", "kill -9 of the broker, and a start at once", target=NONE_FAILED)
def broker_killed(stage: Stage) -> None:
    broker = stage.cluster.broker
    broker.kill()
    broker.start()
    stage.hold()
    stage.cluster.wait_whole(living=stage.backends)


ALL_DETOURED = Setup(detoured=(0, 1, 2))


@scenario("broker-slow", "every answer of the broker a second late", ALL_DETOURED, NONE_FAILED)
def broker_slow(stage: Stage) -> None:
    detour = _detour(stage)
    detour.shape(down=Link(delay=1.0))
    stage.hold(_OUTAGE * stage.seconds)
    detour.heal()
    stage.cluster.wait_whole(living=stage.backends)


@scenario(
    "broker-cut", "one instance cut off from the broker, not from others", Setup(detoured=(0,))
)
def broker_cut(stage: Stage) -> None:
    detour = _detour(stage)
    stage.fault()
    detour.refuse()
    detour.cut()
    stage.hold(_OUTAGE * stage.seconds)
    detour.heal()
    stage.cluster.wait_whole(living=stage.backends)


@scenario("broker-silent", "the same, by a broker that takes requests and says nothing",
          Setup(detoured=(0,)))  # fmt: skip
def broker_silent(stage: Stage) -> None:
    detour = _detour(stage)
    detour.shape(SILENT, SILENT)
    stage.hold(_OUTAGE * stage.seconds)
    detour.heal()
    stage.cluster.wait_whole(living=stage.backends)


GUARDED = Setup(guarded=True)


@scenario("peers-cut", "one instance resets and refuses others and nginx, not the broker", GUARDED)
def peers_cut(stage: Stage) -> None:
    guard = stage.cluster.guards[0]
    guard.refuse()
    guard.cut()
    stage.hold()
    guard.heal()


@scenario("peers-silent", "the same, half open: it takes requests and says nothing", GUARDED)
def peers_silent(stage: Stage) -> None:
    guard = stage.cluster.guards[0]
    guard.shape(SILENT, SILENT)
    stage.hold()
    guard.heal()


@scenario("peers-slow", "the same, at 2 kB/s and half a second late", GUARDED)
def peers_slow(stage: Stage) -> None:
    guard = stage.cluster.guards[0]
    guard.shape(Link(delay=0.25, rate=2_000), Link(delay=0.25, rate=2_000))
    stage.hold()
    guard.heal()


@scenario("nginx-reload", "nginx reloaded three times", target=NONE_FAILED)
def nginx_reload(stage: Stage) -> None:
    for _ in range(3):
        stage.cluster.nginx.reload()
        stage.hold(stage.seconds / 3)


@scenario("nginx-restart", "nginx ended and started")
def nginx_restart(stage: Stage) -> None:
    nginx = stage.cluster.nginx
    nginx.stop()
    nginx.start()
    stage.hold()


@scenario("topic-anew", "the topic deleted and made anew with other values")
def topic_anew(stage: Stage) -> None:
    cluster, load = stage.cluster, stage.load
    admin = quiet_admin(cluster.broker.bootstrap_servers)
    with stage.writing.paused():
        former = stage.era()
        stage.eras.append(lambda: former)
        stage.since = time.monotonic()
        stage.kept = frozenset()  # a topic is empty at first
        [future] = admin.delete_topics([cluster.topic], operation_timeout=20).values()
        future.result(20)

        def gone() -> bool:
            try:
                return cluster.topic not in admin.list_topics(timeout=5).topics
            except KafkaException:
                return False

        wait_until(gone, 20, "the topic to be gone")
        stage.writing.confirmed.clear()
        cluster.create_topic()
        cluster.seed()
    load.forget()
    stage.hold(_NOTICED)
    stage.cluster.wait_whole(living=stage.backends)
    load.forget()
    former.until = time.monotonic()
    stage.hold()


@scenario("partitions-added", "two partitions added to six; then producers go on")
def partitions_added(stage: Stage) -> None:
    _add_partitions(stage, pause=2.0)


@scenario("partitions-unnoticed", "the same, unnoticed by producers for half a second", heals=False)
def partitions_unnoticed(stage: Stage) -> None:
    _add_partitions(stage, pause=0.0)


def _add_partitions(stage: Stage, pause: float) -> None:
    """`pause`: of the producers, who look for new partitions twice a second (Kafka's default: once
    in five minutes)."""
    cluster = stage.cluster
    admin = quiet_admin(cluster.broker.bootstrap_servers)
    with stage.writing.paused():
        before = cluster.partitions
        stage.since = time.monotonic()
        [future] = admin.create_partitions([NewPartitions(cluster.topic, before + 2)]).values()
        future.result(20)
        cluster.partitions += 2
        stage.hold(pause)
    stage.fault()
    stage.regained()
    stage.hold(_NOTICED)
    until = time.monotonic()

    def former() -> Era:
        """With what was written later to where the keys had been."""
        return era(cluster, stage.writing, before, stage.kept, until=until)

    stage.eras.append(former)
    stage.hold()


@scenario("disk-full", "the disk of one instance full for a while", Setup(disk_mb=96, filler=5_000))
def disk_full(stage: Stage) -> None:
    victim = stage.backends[0]
    stage.fault()
    filler = fill_disk(victim.data_dir)
    stage.hold(_OUTAGE * stage.seconds)
    victim.wait_log("No space left")
    filler.unlink()
    if not victim.is_running:
        victim.launch()
    stage.regained(stage.backends)


@scenario("clock-jumps", "wall clocks jump by hours, both ways, around rebalances",
          Setup(clocks=True))  # fmt: skip
def clock_jumps(stage: Stage) -> None:
    for number, hours in enumerate((5, -5, 0)):
        for clock in stage.cluster.clocks[: number + 1]:
            clock.jump(hours * 3_600.0)
        if abs(_clock_of(stage, stage.backends[0]) - time.time() - hours * 3_600) > 60:
            raise LocalError("the clock has not jumped")
        stage.hold(stage.seconds / 3)
        victim = stage.backends[-1]
        stage.fault()
        victim.stop()
        victim.launch()
        stage.regained(stage.backends)


def _clock_of(stage: Stage, backend: Backend) -> float:
    """What an answer of its own says, s since 1970. (Of others gunicorn keeps the date that it made
    last, when a clock goes back.)"""
    answers = (backend.get(key_path(VIEW, key)) for key in stage.cluster.keys.kept)
    own = next(a for a in answers if str(a.headers["Served-By"]).startswith(f"{backend.id};"))
    return parsedate_to_datetime(str(own.headers["Date"])).timestamp()


@scenario("files-damaged", "CURRENT, MANIFEST and an SST of one instance damaged while it is away,"
          " then an SST while it runs", Setup(filler=20_000))  # fmt: skip
def files_damaged(stage: Stage) -> None:
    victim = stage.backends[0]
    held = sorted(p["partition"] for p in victim.partitions(VIEW))
    stage.fault()
    victim.stop()
    for pattern, partition in zip(cycle(("CURRENT", "MANIFEST-*", "*.sst")), held, strict=False):
        damage(largest(victim.data_dir / VIEW / str(partition), pattern))
    victim.launch()
    stage.regained(stage.backends)
    victim.wait_log("is rebuilt: RocksDB cannot open it")
    # what was written since the start is in no SST before a store is closed
    other = stage.backends[1]
    other.stop()
    other.launch()
    stage.cluster.wait_whole(living=stage.backends)
    active, store = next(_stores_with_files(stage, "*.sst"), (None, None))
    if active is None or store is None:
        raise LocalError("there is no SST to be damaged")
    damage(largest(store, "*.sst"))
    # every entry is looked at: what nobody reads is not found to be damaged
    active.get(f"/views/{VIEW}/count?exact=true")
    active.wait_log(f"partition {store.name} is rebuilt: ")
    stage.hold(stage.seconds / 2)
    stage.cluster.wait_whole(living=stage.backends)


def _stores_with_files(stage: Stage, pattern: str) -> Iterator[tuple[Backend, Path]]:
    """Instances with the folder of a store partition that they are active for."""
    for backend in stage.backends:
        for held in backend.partitions(VIEW):
            store = backend.data_dir / VIEW / str(held["partition"])
            if held["role"] == "active" and list(store.glob(pattern)):
                yield backend, store


@scenario("other-views", "an instance of the same group with other views, by mistake")
def other_views(stage: Stage) -> None:
    deployment = stage.cluster.backends
    path = deployment.folder / "other-views.toml"
    topic = stage.cluster.topic
    path.write_text(
        views_toml(v={"topic": topic, "retention": "1d"}, w={"topic": topic, "value": "bytes"})
    )
    stranger = deployment.new("stranger", views=str(path)).launch()
    stranger.wait_listening()
    stage.hold(_OUTAGE * stage.seconds)
    _wait_any_log(stage, "view v has 2 definitions in this group")
    status = stranger.stop()
    deployment.all.remove(stranger)
    stage.cluster.wait_whole(living=stage.backends)
    if status != 0:
        raise LocalError(f"the stranger ended with {status}")


@scenario("other-version", "an instance of another version beside the others")
def other_version_(stage: Stage) -> None:
    folder = other_version(stage.cluster.folder / "other-version")
    newcomer = stage.cluster.backends.new("newcomer")
    newcomer.settings["PYTHONPATH"] = str(folder)
    newcomer.cwd = folder
    newcomer.launch().wait_listening()
    stage.hold(_OUTAGE * stage.seconds)
    _wait_any_log(stage, "unsupported user data version")
    newcomer.stop()
    stage.cluster.all.remove(newcomer)
    stage.cluster.wait_whole(living=stage.backends)


COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}


@scenario("transactions", "aborted transactions and a compacted log, read anew by one instance",
          Setup(transactional=True, topic=COMPACTED))  # fmt: skip
def transactions(stage: Stage) -> None:
    stage.hold()
    victim = stage.backends[0]
    stage.fault()
    victim.stop()
    shutil.rmtree(victim.data_dir)
    victim.launch()
    stage.regained(stage.backends)
    stage.hold()


def _wait_any_log(stage: Stage, text: str) -> None:
    """A fault that nobody has noticed was none."""
    wait_until(lambda: any(text in b.log() for b in stage.backends), 10, f"{text!r} in a log")


def _detour(stage: Stage) -> TcpFaults:
    assert stage.cluster.detour is not None
    return stage.cluster.detour
