"""Liveness of instances, and heartbeats between them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import orjson
import pytest

from backend.cluster import heartbeats as heartbeats_module
from backend.cluster.heartbeats import Heartbeats
from backend.cluster.liveness import MISSED_BEFORE_DEAD, Heartbeat, PartitionReport, Peers
from backend.wire.answer import Answer
from model.problems import Unavailable
from model.topology import Epoch, Member, PlacedView, Topology
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import ME, OTHER, context
from tests.support.in_process.virtual_time import run_in_virtual_time

GROUP = "queryable-topics"


def test_the_first_heartbeats_say_that_the_instance_is_running() -> None:
    """Else the others would take it for one that is starting until the next ones."""
    served, states = context([ORDERS]), list[str]()
    served.group.on_topology.append(lambda: states.append(served.group.state))
    placed = PlacedView(ORDERS.description(), ORDERS.hash, (0,))
    served.group.apply_topology(Topology(Epoch(5, 1), (ME, OTHER), {"orders": placed}))
    assert states == ["running"]


def test_an_instance_is_dead_after_four_missed_heartbeats_until_the_next_one() -> None:
    changes: list[int] = []
    peers = Peers(lambda: changes.append(1))
    peers.keep(["b2", "b3"])
    for missed in range(1, MISSED_BEFORE_DEAD + 2):
        peers.missed("b2")
        assert peers.is_suspect("b2") == (missed >= MISSED_BEFORE_DEAD)
    assert peers.states() == {"b2": "dead", "b3": "running"}
    assert len(changes) == 1, "called once per change of state"
    peers.heard("b2", "draining")
    assert peers.states()["b2"] == "draining"
    assert not peers.is_suspect("b2")
    for _ in range(MISSED_BEFORE_DEAD - 1):
        peers.missed("b2")
    peers.heard("b2", "draining")
    peers.missed("b2")
    assert not peers.is_suspect("b2"), "four in a row"
    assert len(changes) == 2
    peers.keep(["b3"])
    assert len(changes) == 3, "an instance that is not tracked counts as running"
    peers.missed("b2")
    assert peers.states() == {"b3": "running"}


def test_a_failed_instance_is_suspected_until_its_next_heartbeat() -> None:
    peers = Peers()
    peers.keep(["b2"])
    peers.failed("b2")
    assert peers.is_suspect("b2")
    assert peers.states() == {"b2": "running"}, "the state does not change"
    peers.heard("b2", "running")
    assert not peers.is_suspect("b2")


class FakePosts:
    """PeerPosts with prepared answers."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []

    async def post(self, member: Member, target: bytes, body: bytes, _: Any) -> Answer:
        assert target == b"/internal/heartbeat"
        self.asked.append(member.id)
        answer = self.answers.get(member.id)
        if answer is None:
            raise Unavailable("owner-unreachable", "no such instance")
        return cast(Answer, answer(body))

    async def close(self) -> None:
        pass


class SilentPosts:
    """PeerPosts for an instance that does not answer."""

    def __init__(self) -> None:
        self.timeouts: list[float] = []

    async def post(self, member: Member, target: bytes, body: bytes, timeout: float) -> Answer:
        self.timeouts.append(timeout)
        await asyncio.sleep(timeout)
        raise Unavailable("owner-unreachable", "silent")

    async def close(self) -> None:
        pass


def placed(*holders: tuple[int, ...]) -> Topology:
    """A topology in which each partition has these members; the first is the active."""
    members = (ME, OTHER, Member("b3", "127.0.0.1", 8083))
    of = PlacedView(
        ORDERS.description(), ORDERS.hash, tuple(each[0] for each in holders),
        standbys=tuple(each[1:] for each in holders),
    )  # fmt: skip
    return Topology(Epoch(5, 1), members, {"orders": of})


async def send_rounds(posts: FakePosts, instance: Any, rounds: int) -> None:
    await beat(Heartbeats(instance.group, cast(Any, posts), 60.0), rounds)


async def beat(heartbeats: Heartbeats, rounds: int = 1) -> None:
    try:
        for _ in range(rounds):
            heartbeats.beat()
            await drained(heartbeats)
    finally:
        await heartbeats.stop()


@asynccontextmanager
async def started(
    posts: FakePosts | SilentPosts, instance: Any, interval: float
) -> AsyncIterator[Heartbeats]:
    """Heartbeats that are sent by themselves, for at most 10 s."""
    heartbeats = Heartbeats(instance.group, cast(Any, posts), interval)
    heartbeats.start()
    try:
        async with asyncio.timeout(10):
            yield heartbeats
    finally:
        await heartbeats.stop()


async def drained(heartbeats: Heartbeats) -> None:
    while heartbeats._in_flight:
        await asyncio.sleep(0)


def test_heartbeats_go_only_to_holders_of_the_same_partitions() -> None:
    posts, instance = FakePosts(), context(heartbeat_interval=60)
    instance.group.apply_topology(placed((0, 1), (2, 1)))
    asyncio.run(send_rounds(posts, instance, 1))
    assert posts.asked == ["b2"]
    instance.group.apply_topology(placed((0, 1), (2, 0)))
    asyncio.run(send_rounds(posts, instance, 1))
    assert set(posts.asked[1:]) == {"b2", "b3"}


def test_a_silent_instance_gets_a_heartbeat_in_each_interval_until_it_is_dead() -> None:
    """A heartbeat ends before the next interval, so each interval has one."""
    posts, instance = SilentPosts(), context()
    instance.group.apply_topology(placed((0, 1)))

    async def run() -> None:
        async with started(posts, instance, 0.2):
            while instance.group.peers.states() != {"b2": "dead"}:
                await asyncio.sleep(0.005)

    run_in_virtual_time(run())
    assert len(posts.timeouts) == MISSED_BEFORE_DEAD
    assert all(each < 0.2 for each in posts.timeouts)


def test_only_the_members_own_answer_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # an answer belongs to one heartbeat, even if all are sent within a millisecond
    monkeypatch.setattr(heartbeats_module.time, "time_ns", lambda: 1_800_000_000_000_000_000)
    posts, instance = FakePosts(), context(heartbeat_interval=60)
    instance.group.apply_topology(placed((0, 1)))
    receiver = context(instance_id="b2", heartbeat_interval=60)
    receiver.group.apply_topology(placed((0, 1)))
    receiver.group.set_state("draining")

    async def other(body: bytes) -> Answer:
        heartbeats = Heartbeats(receiver.group, cast(Any, FakePosts()), 60.0)
        try:
            return heartbeats.answer(body)
        finally:
            await heartbeats.stop()

    kept: list[Answer] = []

    def answered(body: bytes) -> Answer:
        kept.append(asyncio.run_coroutine_threadsafe(other(body), loop).result())
        return kept[-1]

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="other")
    thread.start()
    try:
        posts.answers["b2"] = answered
        heartbeats = Heartbeats(instance.group, cast(Any, posts), 60.0)
        asyncio.run(beat(heartbeats))
        assert instance.group.peers.states() == {"b2": "draining"}
        assert receiver.group.peers.states() in ({}, {"b1": "starting"}, {"b1": "running"})

        # a repeated answer is outdated, and the port may belong to another deployment by now
        wrong_answers = [
            lambda _: kept[0],
            other_answer("another", "b2"),
            other_answer(GROUP, "b3"),
            lambda _: Answer(403, [], b""),
            lambda _: Answer(200, [], b""),
        ]
        for wrong in wrong_answers:
            posts.answers["b2"] = wrong
            asyncio.run(beat(heartbeats))
        assert instance.group.peers.states() == {"b2": "dead"}
        assert other_status(loop, other, b"nonsense") == 403
        for group, to in ((GROUP, "b9"), ("another", "b2")):
            not_for_it = Heartbeat(group, "b1", to, "running", 1).encode()
            assert other_status(loop, other, not_for_it) == 403
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def other_answer(group: str, sender: str) -> Any:
    """A program that answers each heartbeat under this name."""

    def answer(body: bytes) -> Answer:
        heard = Heartbeat.decode(body)
        assert heard is not None
        beat = Heartbeat(group, sender, heard.sender, "running", heard.at)
        return Answer(200, [], beat.encode())

    return answer


def other_status(loop: asyncio.AbstractEventLoop, other: Any, body: bytes) -> int:
    return int(asyncio.run_coroutine_threadsafe(other(body), loop).result().status)


@pytest.mark.parametrize("dead", [True, False])
def test_dead_instances_are_asked_last(dead: bool) -> None:
    instance = context()
    instance.group.apply_topology(placed((1, 2)))
    instance.group.peers.keep(["b2", "b3"])
    if dead:
        for _ in range(MISSED_BEFORE_DEAD):
            instance.group.peers.missed("b2")
    expected = ["b3", "b2"] if dead else ["b2", "b3"]
    assert [member.id for member in instance.group.others("orders", 0)] == expected


def test_of_many_replicas_some_are_asked() -> None:
    """A global view may have a hundred: where none can answer, not every read goes to each."""
    members = tuple(Member(f"b{n}", "127.0.0.1", 8080 + n) for n in range(100))
    placed = PlacedView({}, "", (2,), standbys=((*range(2), *range(3, 100)),))
    instance = context(instance_id="b50", port=8130)
    instance.group.apply_topology(Topology(Epoch(5, 1), members, {"orders": placed}))

    def asked() -> list[str]:
        return [member.id for member in instance.group.others("orders", 0)]

    assert asked() == ["b2", "b0", "b1", "b3", "b4"]
    # those that have failed give way to others
    for id_ in ("b2", "b1"):
        instance.group.peers.failed(id_)
    assert asked() == ["b0", "b3", "b4", "b5", "b6"]
    for n in range(100):
        instance.group.peers.failed(f"b{n}")
    assert asked() == ["b2", "b0", "b1", "b3", "b4"]


# decode() of the last release: no further field, in a heartbeat or in its answer
def decoded_before(body: bytes) -> tuple[str, ...]:
    *names, sent_at = orjson.loads(body)
    group, sender, receiver, state = names
    assert type(sent_at) is int
    return group, sender, receiver, state


REPORT = PartitionReport("5-1", {"orders": (0, 2)})


def test_an_answer_to_a_heartbeat_reports_which_partitions_are_not_answerable() -> None:
    posts, instance = FakePosts(), context(heartbeat_interval=60)
    receiver = context(instance_id="b2", heartbeat_interval=60)
    for each in (instance, receiver):
        each.group.apply_topology(placed((0, 1)))

    async def exchange() -> None:
        other = Heartbeats(receiver.group, cast(Any, FakePosts()), 60.0, lambda: REPORT)
        posts.answers["b2"] = other.answer
        await beat(Heartbeats(instance.group, cast(Any, posts), 60.0))

    asyncio.run(exchange())
    assert instance.group.peers.reports() == {"b2": REPORT}
    assert receiver.group.peers.reports() == {}, "the next heartbeat is b2's, and b1 answers it"


def test_instances_of_the_last_release_understand_heartbeats_and_answers() -> None:
    sent: list[bytes] = []
    posts, instance = FakePosts(), context(heartbeat_interval=60)
    instance.group.apply_topology(placed((0, 1)))

    def older(body: bytes) -> Answer:
        sent.append(body)
        group, sender, receiver, _ = decoded_before(body)
        at = orjson.loads(body)[-1]
        return Answer(200, [], orjson.dumps([group, receiver, sender, "running", at]))

    posts.answers["b2"] = older
    asyncio.run(send_rounds(posts, instance, 1))
    assert (len(sent), instance.group.peers.states()) == (1, {"b2": "running"})

    async def answer() -> Answer:
        heartbeats = Heartbeats(instance.group, cast(Any, FakePosts()), 60.0, lambda: REPORT)
        return heartbeats.answer(orjson.dumps([GROUP, "b2", "b1", "running", 7]))

    assert decoded_before(asyncio.run(answer()).body) == (GROUP, "b1", "b2", "running")


@pytest.mark.parametrize(
    "report",
    [["5-1"], ["5-1", {}, 1], [5, {}], ["5-1", {"orders": 3}], ["5-1", {"orders": ["0"]}],
     ["5-1", [1]], ["5-1", None]],
)  # fmt: skip
def test_a_malformed_report_is_refused(report: list[Any]) -> None:
    assert Heartbeat.decode(orjson.dumps([GROUP, "b2", "b1", "running", 7, *report])) is None
