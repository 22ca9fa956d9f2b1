"""The scenarios: each function injects a fault, waits, and repairs it. `SCENARIOS` has all."""

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
from tests.faults.checking import TopicHistory
from tests.faults.cluster import VIEW, Setup
from tests.faults.faults import damage, fill_disk, largest, other_version
from tests.faults.runner import Scenario, ScenarioContext, Target
from tests.faults.truth import topic_history
from tests.support.backends import Backend
from tests.support.client import key_path
from tests.support.deployment import views_toml
from tests.support.tcp_faults import SILENT, Link, TcpFaults

SCENARIOS: dict[str, Scenario] = {}
NONE_FAILED = Target(failed=0.0)
_OUTAGE = 3  # times the duration of other faults: 30 s
_DETECTION = 8.0  # s after which every instance has detected a change of the topic


def scenario(
    name: str,
    what: str,
    setup: Setup | None = None,
    target: Target | None = None,
    heals: bool = True,
) -> Callable[[Callable[[ScenarioContext], None]], Callable[[ScenarioContext], None]]:
    def register(run: Callable[[ScenarioContext], None]) -> Callable[[ScenarioContext], None]:
        SCENARIOS[name] = Scenario(name, what, run, setup or Setup(), target or Target(), heals)
        return run

    return register


@scenario("kill-one", "kill -9 of one of three", target=Target(0.001, 300))
def kill_one(context: ScenarioContext) -> None:
    victim, *others = context.backends
    context.mark_fault()
    victim.kill()
    context.wait_redundant(others)
    context.wait()
    victim.launch()
    context.cluster.wait_whole()


@scenario("kill-two", "kill -9 of two of three at the same time")
def kill_two(context: ScenarioContext) -> None:
    *victims, last = context.backends
    context.mark_fault()
    for victim in victims:
        victim.kill()
    context.cluster.wait_whole(living=[last])
    context.wait_answers()
    for victim in victims:
        victim.launch()
    context.wait_redundant(context.backends)


@scenario("hang-one", "SIGSTOP of one of three, then SIGCONT", target=Target(silence_ms=1_000))
def hang_one(context: ScenarioContext) -> None:
    victim, *others = context.backends
    with victim.paused():
        context.mark_fault()
        context.wait_redundant(others)
        context.wait()
    context.cluster.wait_whole(living=context.backends)


@scenario("rolling-restart", "SIGTERM and start, one after the other", target=NONE_FAILED)
def rolling_restart(context: ScenarioContext) -> None:
    for backend in context.backends:
        context.mark_fault()
        status = backend.stop()
        backend.launch()
        context.wait_redundant(context.backends)
        if status != 0:
            raise LocalError(f"{backend.id} ended with {status}")


@scenario("broker-away", "the broker stopped for 30 s", target=NONE_FAILED)
def broker_away(context: ScenarioContext) -> None:
    broker = context.cluster.broker
    broker.stop()
    context.wait(_OUTAGE * context.seconds)
    broker.start()
    context.cluster.wait_whole(living=context.backends)


@scenario("broker-killed", "kill -9 of the broker, and an immediate start", target=NONE_FAILED)
def broker_killed(context: ScenarioContext) -> None:
    broker = context.cluster.broker
    broker.kill()
    broker.start()
    context.wait()
    context.cluster.wait_whole(living=context.backends)


ALL_DETOURED = Setup(detoured=(0, 1, 2))


@scenario("broker-slow", "every answer of the broker a second late", ALL_DETOURED, NONE_FAILED)
def broker_slow(context: ScenarioContext) -> None:
    detour = _detour(context)
    detour.shape(down=Link(delay=1.0))
    context.wait(_OUTAGE * context.seconds)
    detour.heal()
    context.cluster.wait_whole(living=context.backends)


@scenario(
    "broker-cut", "one instance disconnected from the broker, not from others", Setup(detoured=(0,))
)
def broker_cut(context: ScenarioContext) -> None:
    detour = _detour(context)
    context.mark_fault()
    detour.refuse()
    detour.cut()
    context.wait(_OUTAGE * context.seconds)
    detour.heal()
    context.cluster.wait_whole(living=context.backends)


@scenario("broker-silent", "the same, but the broker accepts requests and does not answer",
          Setup(detoured=(0,)))  # fmt: skip
def broker_silent(context: ScenarioContext) -> None:
    detour = _detour(context)
    detour.shape(SILENT, SILENT)
    context.wait(_OUTAGE * context.seconds)
    detour.heal()
    context.cluster.wait_whole(living=context.backends)


GUARDED = Setup(guarded=True)


@scenario("peers-cut", "one instance disconnected from others and nginx, not the broker", GUARDED)
def peers_cut(context: ScenarioContext) -> None:
    guard = context.cluster.guards[0]
    guard.refuse()
    guard.cut()
    context.wait()
    guard.heal()


@scenario("peers-silent", "the same, but it accepts requests and does not answer", GUARDED)
def peers_silent(context: ScenarioContext) -> None:
    guard = context.cluster.guards[0]
    guard.shape(SILENT, SILENT)
    context.wait()
    guard.heal()


@scenario("peers-slow", "the same, but with 2 kB/s and half a second of latency", GUARDED)
def peers_slow(context: ScenarioContext) -> None:
    guard = context.cluster.guards[0]
    guard.shape(Link(delay=0.25, rate=2_000), Link(delay=0.25, rate=2_000))
    context.wait()
    guard.heal()


@scenario("nginx-reload", "nginx reloaded three times", target=NONE_FAILED)
def nginx_reload(context: ScenarioContext) -> None:
    for _ in range(3):
        context.cluster.nginx.reload()
        context.wait(context.seconds / 3)


@scenario("nginx-restart", "nginx stopped and started")
def nginx_restart(context: ScenarioContext) -> None:
    nginx = context.cluster.nginx
    nginx.stop()
    nginx.start()
    context.wait()


@scenario("topic-recreated", "the topic deleted and created again, with other values")
def topic_recreated(context: ScenarioContext) -> None:
    cluster, load = context.cluster, context.load
    admin = quiet_admin(cluster.broker.bootstrap_servers)
    with context.writing.paused():
        former = context.history()
        context.histories.append(lambda: former)
        context.since = time.monotonic()
        context.kept = frozenset()  # the new topic is empty at first
        [future] = admin.delete_topics([cluster.topic], operation_timeout=20).values()
        future.result(20)

        def is_deleted() -> bool:
            try:
                return cluster.topic not in admin.list_topics(timeout=5).topics
            except KafkaException:
                return False

        wait_until(is_deleted, 20, "the topic to be deleted")
        context.writing.confirmed.clear()
        cluster.create_topic()
        cluster.seed()
    load.reset_readers()
    context.wait(_DETECTION)
    context.cluster.wait_whole(living=context.backends)
    load.reset_readers()
    former.until = time.monotonic()
    context.wait()


@scenario("partitions-added", "two partitions added to six; then producers continue")
def partitions_added(context: ScenarioContext) -> None:
    _add_partitions(context, pause=2.0)


@scenario(
    "partitions-unnoticed", "the same, but producers detect it half a second later", heals=False
)
def partitions_unnoticed(context: ScenarioContext) -> None:
    _add_partitions(context, pause=0.0)


def _add_partitions(context: ScenarioContext, pause: float) -> None:
    """`pause`: of the producers, which refresh the metadata twice a second (Kafka's default: every
    five minutes)."""
    cluster = context.cluster
    admin = quiet_admin(cluster.broker.bootstrap_servers)
    with context.writing.paused():
        before = cluster.partitions
        context.since = time.monotonic()
        [future] = admin.create_partitions([NewPartitions(cluster.topic, before + 2)]).values()
        future.result(20)
        cluster.partitions += 2
        context.wait(pause)
    context.mark_fault()
    context.wait_redundant()
    context.wait(_DETECTION)
    until = time.monotonic()

    def former() -> TopicHistory:
        """Includes records that producers wrote later to the old partitions of keys."""
        return topic_history(cluster, context.writing, before, context.kept, until=until)

    context.histories.append(former)
    context.wait()


@scenario("disk-full", "the disk of one instance full for a while", Setup(disk_mb=96, filler=5_000))
def disk_full(context: ScenarioContext) -> None:
    victim = context.backends[0]
    context.mark_fault()
    filler = fill_disk(victim.data_dir)
    context.wait(_OUTAGE * context.seconds)
    victim.wait_log("No space left")
    filler.unlink()
    if not victim.is_running:
        victim.launch()
    context.wait_redundant(context.backends)


@scenario("clock-jumps", "wall clocks jump by hours, both ways, around rebalances",
          Setup(clocks=True))  # fmt: skip
def clock_jumps(context: ScenarioContext) -> None:
    for number, hours in enumerate((5, -5, 0)):
        for clock in context.cluster.clocks[: number + 1]:
            clock.jump(hours * 3_600.0)
        if abs(_clock_of(context, context.backends[0]) - time.time() - hours * 3_600) > 60:
            raise LocalError("the clock has not changed")
        context.wait(context.seconds / 3)
        victim = context.backends[-1]
        context.mark_fault()
        victim.stop()
        victim.launch()
        context.wait_redundant(context.backends)


def _clock_of(context: ScenarioContext, backend: Backend) -> float:
    """The date of an answer that the backend itself served, s since 1970. (For forwarded answers
    gunicorn keeps its last date when the clock is set back.)"""
    answers = (backend.get(key_path(VIEW, key)) for key in context.cluster.keys.kept)
    own = next(a for a in answers if str(a.headers["Served-By"]).startswith(f"{backend.id};"))
    return parsedate_to_datetime(str(own.headers["Date"])).timestamp()


@scenario("files-damaged", "CURRENT, MANIFEST and an SST of one instance damaged while it is away,"
          " then an SST while it runs", Setup(filler=20_000))  # fmt: skip
def files_damaged(context: ScenarioContext) -> None:
    victim = context.backends[0]
    held = sorted(p["partition"] for p in victim.partitions(VIEW))
    context.mark_fault()
    victim.stop()
    for pattern, partition in zip(cycle(("CURRENT", "MANIFEST-*", "*.sst")), held, strict=False):
        damage(largest(victim.data_dir / VIEW / str(partition), pattern))
    victim.launch()
    context.wait_redundant(context.backends)
    victim.wait_log("is rebuilt: RocksDB cannot open it")
    # records written since the start are in no SST before a store is closed
    other = context.backends[1]
    other.stop()
    other.launch()
    context.cluster.wait_whole(living=context.backends)
    active, store = next(_stores_with_files(context, "*.sst"), (None, None))
    if active is None or store is None:
        raise LocalError("no store has an SST")
    damage(largest(store, "*.sst"))
    # an exact count reads every entry, and so detects the damage
    active.get(f"/views/{VIEW}/count?exact=true")
    active.wait_log(f"partition {store.name} is rebuilt: ")
    context.wait(context.seconds / 2)
    context.cluster.wait_whole(living=context.backends)


def _stores_with_files(context: ScenarioContext, pattern: str) -> Iterator[tuple[Backend, Path]]:
    """Pairs of an instance and the folder of a store partition that it is active for."""
    for backend in context.backends:
        for held in backend.partitions(VIEW):
            store = backend.data_dir / VIEW / str(held["partition"])
            if held["role"] == "active" and list(store.glob(pattern)):
                yield backend, store


@scenario("other-views", "an instance of the same group with other views")
def other_views(context: ScenarioContext) -> None:
    deployment = context.cluster.backends
    path = deployment.folder / "other-views.toml"
    topic = context.cluster.topic
    path.write_text(
        views_toml(v={"topic": topic, "retention": "1d"}, w={"topic": topic, "value": "bytes"})
    )
    other = deployment.new("other", views=str(path)).launch()
    other.wait_listening()
    context.wait(_OUTAGE * context.seconds)
    _wait_any_log(context, "view v has 2 definitions in this group")
    status = other.stop()
    deployment.all.remove(other)
    context.cluster.wait_whole(living=context.backends)
    if status != 0:
        raise LocalError(f"{other.id} ended with {status}")


@scenario("other-version", "an additional instance of another version")
def other_version_(context: ScenarioContext) -> None:
    folder = other_version(context.cluster.folder / "other-version")
    newcomer = context.cluster.backends.new("newcomer")
    newcomer.settings["PYTHONPATH"] = str(folder)
    newcomer.cwd = folder
    newcomer.launch().wait_listening()
    context.wait(_OUTAGE * context.seconds)
    _wait_any_log(context, "unsupported user data version")
    newcomer.stop()
    context.cluster.all.remove(newcomer)
    context.cluster.wait_whole(living=context.backends)


COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}


@scenario("transactions", "aborted transactions and a compacted log that one instance reads again",
          Setup(transactional=True, topic=COMPACTED))  # fmt: skip
def transactions(context: ScenarioContext) -> None:
    context.wait()
    victim = context.backends[0]
    context.mark_fault()
    victim.stop()
    shutil.rmtree(victim.data_dir)
    victim.launch()
    context.wait_redundant(context.backends)
    context.wait()


def _wait_any_log(context: ScenarioContext, text: str) -> None:
    """Waits for the text in any log: it shows that the fault was effective."""
    wait_until(lambda: any(text in b.log() for b in context.backends), 10, f"{text!r} in a log")


def _detour(context: ScenarioContext) -> TcpFaults:
    assert context.cluster.detour is not None
    return context.cluster.detour
