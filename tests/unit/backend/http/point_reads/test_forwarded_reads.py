"""Point reads that an instance forwards together: each is answered as if forwarded separately."""

from __future__ import annotations

import asyncio
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.cluster.peer_failures import PeerRefused
from backend.http.forwarding import coalesced_forwards
from backend.http.forwarding.received_keys import KeyRead
from backend.security.authorization import passed_on
from backend.security.client_claims import claimed
from backend.telemetry.tracing import traced
from backend.wire.answer import Answer, Header
from backend.wire.point_batch import READS, Reads, decode_reads
from model.problems import Unavailable
from model.topology import Member
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.tokens import access_control, bearer
from tests.support.in_process.versioned import KEYS as KEYS_OF_VERSIONS
from tests.support.in_process.versioned import two_versions
from tests.support.in_process.world import Said, World, world
from tests.unit.backend.http.point_reads.forwards import (
    KEYS,
    SEPARATELY,
    ask_all,
    batches,
    comparable,
    forwarded,
    respond,
    silent,
)


def test_simultaneous_reads_travel_together(made: World) -> None:
    answers = ask_all(made, KEYS)
    for n, answer in enumerate(answers):
        assert (answer.status, answer.json) == (200, {"key": KEYS[n], "value": {"n": n}})
    assert made.peers.asked == [("b2", READS)]
    counts = made.instances["b1"].context.telemetry.counts["orders"]
    assert counts.forwarded == forwarded(made) > 10


def test_reads_that_arrive_meanwhile_wait_for_the_next_request(made: World) -> None:
    forward = made.peers.forward
    bodies: list[bytes] = []

    async def held(member: Member, *rest: Any, **more: Any) -> Answer:
        bodies.append(rest[3])
        if len(bodies) == 1:
            asking.extend(
                asyncio.ensure_future(made.request("b1", "GET", f"/views/orders/keys/{key}"))
                for key in KEYS
            )
            await asyncio.sleep(0.05)
        return await forward(member, *rest, **more)

    made.peers.forward = held  # type: ignore[method-assign]
    asking: list[asyncio.Future[Said]] = []
    first = next(key for key in KEYS if forwarded(made, [key]))

    async def run() -> list[Said]:
        answer = await made.request("b1", "GET", f"/views/orders/keys/{first}")
        return [answer, *await asyncio.gather(*asking)]

    assert {answer.status for answer in asyncio.run(run())} == {200}
    sizes = [sum(len(group.texts) for group in decode_reads(body)[1]) for body in bodies]
    assert sizes == [1, forwarded(made)]


@settings(max_examples=examples(25))
@given(
    st.lists(
        st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from([*KEYS, "%2F", "a/b"]),
        max_size=30,
    )
)
def test_answers_are_those_of_separate_forwards(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str]
) -> None:
    with world(tmp_path_factory.mktemp("world"), ORDERS) as made:
        made.put_all({key.encode(): b'"%d"' % n for n, key in enumerate(KEYS)})
        quoted = ["".join(f"%{byte:02X}" for byte in key.encode()) or "x" for key in keys]
        quoted += KEYS[:5]
        together = ask_all(made, quoted)
        assert batches(made) == 1
        separately = ask_all(made, quoted, [[SEPARATELY]] * len(quoted))
        assert batches(made) == 1
        for one, other in zip(together, separately, strict=True):
            assert comparable(one) == comparable(other)


def test_a_condition_is_checked_here(made: World) -> None:
    etags = [(b"if-none-match", answer.named[b"etag"]) for answer in ask_all(made, KEYS)]
    answers = ask_all(made, KEYS, [[etag] for etag in etags])
    assert {(answer.status, answer.body) for answer in answers} == {(304, b"")}
    assert made.peers.asked == [("b2", READS)] * 2


def test_other_requests_are_forwarded_separately(made: World) -> None:
    key = next(key for key in KEYS if forwarded(made, [key]))
    for target in (f"{key}?stale=never", f"{key}?stale=allow"):
        made.ask(f"keys/{target}")
    asyncio.run(made.request("b1", "HEAD", f"/views/orders/keys/{key}"))
    asyncio.run(made.request("b1", "GET", f"/views/orders/keys/{key}", accept="application/json"))
    made.ask(f"keys/{key}", accept="application/octet-stream")
    made.ask(f"keys/{key}", headers=[SEPARATELY])
    assert [target == READS for _, target in made.peers.asked] == [
        False, False, False, True, False, False,
    ]  # fmt: skip


def test_each_token_is_checked_for_its_own_reads(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS, access_control()) as made:
        made.put_all({key.encode(): b"1" for key in KEYS})
        readers = [bearer("read:orders", sub=f"reader {n}") for n in range(3)]
        stranger = bearer("read:others")
        headers = [[readers[n % 3]] if n % 4 else [stranger] for n in range(len(KEYS))]
        answers = ask_all(made, KEYS, headers)
        for n, answer in enumerate(answers):
            assert answer.status == (200 if n % 4 else 403)
        assert batches(made) == 1
        # what the token may read is decided at the other instance, too
        keys = [key for key in KEYS if forwarded(made, [key])]
        careless = made.routers["b1"]._access = copy(made.routers["b1"]._access)
        careless.admit_request = lambda *_: None  # type: ignore[method-assign]
        answers = ask_all(made, keys, [[readers[0]], *[[stranger]] * (len(keys) - 1)])
        assert [answer.status for answer in answers] == [200, *[403] * (len(keys) - 1)]


def test_no_header_of_one_client_goes_with_a_request_for_several(made: World) -> None:
    """Its token, the id in the logs, and who it is."""
    together: list[list[Header]] = []
    separately: list[list[Header]] = []
    forward = made.peers.forward

    async def spy(
        member: Member, method: str, target: bytes, headers: list[Header], *rest: Any, **more: Any
    ) -> Answer:
        # what PeerClient adds of the request that it serves
        added = [*passed_on(), *claimed(), *traced()]
        (together if target == READS else separately).append([*headers, *added])
        return await forward(member, method, target, headers, *rest, **more)

    made.peers.forward = spy  # type: ignore[method-assign]
    tokens = [(b"authorization", b"Bearer secret%d" % n) for n in range(len(KEYS))]
    ask_all(made, KEYS, [[token] for token in tokens])
    assert (together, separately) == ([[]], [])
    ask_all(made, KEYS, [[token, SEPARATELY] for token in tokens])
    assert len(separately) == forwarded(made)
    for headers in separately:
        assert {b"authorization", b"traceparent"} <= {name for name, _ in headers}


def test_large_values_are_forwarded_separately(made: World) -> None:
    key = next(key for key in KEYS if forwarded(made, [key]))
    made.put(key.encode(), b'"%b"' % (b"x" * 70_000))
    answers = ask_all(made, KEYS)
    assert {answer.status for answer in answers} == {200}
    assert len(answers[KEYS.index(key)].body) > 70_000
    assert made.peers.asked == [("b2", READS), ("b2", f"/views/orders/keys/{key}".encode())]


@pytest.mark.parametrize("limit", ["MAX_READS", "MAX_BYTES"])
def test_a_request_is_bounded(made: World, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(coalesced_forwards, limit, {"MAX_READS": 3, "MAX_BYTES": 130}[limit])
    assert {answer.status for answer in ask_all(made, KEYS)} == {200}
    assert batches(made) == 1
    separately = len(made.peers.asked) - 1
    assert 0 < forwarded(made) - separately <= 3


@pytest.mark.parametrize(("status", "body"), [(400, b""), (404, b""), (500, b""), (200, b"QTR2")])
def test_an_instance_that_refuses_gets_separate_reads_for_a_while(
    made: World, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
) -> None:
    """One of an older version, or with another secret."""
    respond(made, lambda: Answer(status, [], body))
    for _ in range(2):
        assert {answer.status for answer in ask_all(made, KEYS)} == {200}
    assert batches(made) == 1
    monkeypatch.setattr(coalesced_forwards, "PAUSE_S", 0.0)
    made.routers["b1"].keys.coalesced_forwards._paused_until.clear()  # type: ignore[union-attr]
    for _ in range(2):
        assert {answer.status for answer in ask_all(made, KEYS)} == {200}
    assert batches(made) == 3


def test_a_silent_instance_is_asked_separately_if_no_other_has_the_key(made: World) -> None:
    """It may need longer, and then has the whole time."""
    respond(made, silent)
    assert {answer.status for answer in ask_all(made, KEYS)} == {200}
    assert len(made.peers.asked) == 1 + forwarded(made)


def test_the_other_holders_are_asked_instead_of_a_silent_instance(made: World) -> None:
    asked: list[bytes] = []

    async def ask_for_reads(member: Member, body: bytes) -> Answer:
        asked.append(body)
        raise Unavailable("owner-unreachable", "down")

    forwards = coalesced_forwards.CoalescedForwards(
        cast(Any, SimpleNamespace(ask_for_reads=ask_for_reads))
    )
    member = Member("b2", "127.0.0.1", 1)

    async def run() -> list[Any]:
        reads = (forwards.ask(member, n % 2 == 0, read_of(b"k"), None) for n in range(4))
        return await asyncio.gather(*reads, return_exceptions=True)

    found = asyncio.run(run())
    assert [type(each) for each in found] == [Unavailable, type(None)] * 2
    assert len(asked) == 1


def test_an_overloaded_instance_is_asked_together_again(made: World) -> None:
    respond(made, lambda: Answer(503, [], b'{"code":"overloaded"}'))
    for _ in range(3):
        assert {answer.status for answer in ask_all(made, KEYS)} == {200}
    assert batches(made) == 3


@pytest.fixture
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not end within a test, however slow the machine is."""
    monkeypatch.setattr(coalesced_forwards, "PAUSE_S", 3600.0)
    monkeypatch.setattr(coalesced_forwards, "SILENCE_S", 3600.0)


@pytest.mark.usefixtures("long_pauses")
def test_an_instance_that_refuses_is_not_suspected(made: World) -> None:
    """Regression: one of an older version refuses, and then the healthy active was asked last."""

    def refuse() -> Answer:
        raise PeerRefused("owner-unreachable", "another secret")

    respond(made, refuse)
    failed: list[str] = []
    made.instances["b1"].context.group.peers.failed = failed.append  # type: ignore[method-assign]
    for _ in range(3):
        assert {answer.status for answer in ask_all(made, KEYS)} == {200}
    assert (batches(made), failed) == (1, [])


@pytest.mark.usefixtures("long_pauses")
def test_a_silent_instance_costs_one_wait(made: World) -> None:
    respond(made, silent)
    for _ in range(3):
        assert {answer.status for answer in ask_all(made, KEYS)} == {200}
    assert batches(made) == 1


def test_a_slash_after_the_key_is_no_empty_key(made: World) -> None:
    """Regression: the key "" was read instead of the key."""
    made.put(b"", b'"empty"')
    answers = ask_all(made, [f"{key}/" for key in KEYS])
    for n, answer in enumerate(answers):
        assert (answer.status, answer.json) == (200, {"key": KEYS[n], "value": {"n": n}})


def read_of(key: bytes, partition: int = 0) -> KeyRead:
    """A read whose answer does not matter."""
    return KeyRead(cast(Any, None), b"orders string murmur2 9 %d" % partition, key)


class Peer:
    """An Asker that keeps the requests, and answers none."""

    def __init__(self) -> None:
        self.asked: list[tuple[Member, list[Reads]]] = []

    async def ask_for_reads(self, member: Member, body: bytes) -> Answer:
        self.asked.append((member, decode_reads(body)[1]))
        await asyncio.sleep(0)
        return Answer(503, [], b"")


def test_a_restarted_instance_is_asked_at_its_new_address() -> None:
    """Regression: while reads came in, the former address was asked for ever."""
    peer = Peer()
    forwards = coalesced_forwards.CoalescedForwards(cast(Any, peer))
    old, new = Member("b2", "127.0.0.1", 1), Member("b2", "127.0.0.1", 2)

    async def run() -> None:
        reads = [asyncio.create_task(forwards.ask(old, False, read_of(b"1"), None))]
        await asyncio.sleep(0)
        reads += [asyncio.create_task(forwards.ask(new, False, read_of(b"2"), None))]
        await asyncio.gather(*reads)

    asyncio.run(run())
    assert [(m, [t for g in groups for t in g.texts]) for m, groups in peer.asked] == [
        (old, [b"\x011"]), (new, [b"\x012"]),
    ]  # fmt: skip


@pytest.mark.parametrize("distinct", [1, 40, 600])
def test_a_request_has_no_more_reads_than_are_accepted(distinct: int) -> None:
    peer = Peer()
    forwards = coalesced_forwards.CoalescedForwards(cast(Any, peer))
    member = Member("b2", "127.0.0.1", 1)

    async def run() -> None:
        reads = (
            forwards.ask(
                member, False, read_of(b"%d" % n, n % 5), b"t%d" % (n % distinct) if n % 7 else None
            )
            for n in range(600)
        )
        await asyncio.gather(*reads)

    asyncio.run(run())
    [(_, groups)] = peer.asked  # decoded, so it was accepted
    assert sum(len(group.texts) for group in groups) >= 340


def test_a_client_that_disconnects_does_not_disturb_others(made: World) -> None:
    async def run() -> list[Any]:
        tasks = [
            asyncio.create_task(made.request("b1", "GET", f"/views/orders/keys/{key}"))
            for key in KEYS
        ]
        for _ in range(2):
            await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    for n, answer in enumerate(asyncio.run(run())):
        if n % 3:
            assert answer.status == 200
        else:
            assert isinstance(answer, asyncio.CancelledError) or answer.status == 200


def test_closing_ends_the_tasks_and_all_reads(made: World) -> None:
    forwards = made.routers["b1"].keys.coalesced_forwards
    assert forwards is not None

    async def hang(*_: Any, **__: Any) -> Answer:
        await asyncio.sleep(60)
        raise AssertionError

    made.peers.forward = hang  # type: ignore[method-assign]
    member = Member("b2", "127.0.0.1", 1)

    async def run() -> list[Any]:
        not_begun = forwards.enqueue(Member("b3", "127.0.0.1", 1), read_of(b"o"), None)
        await forwards.close()
        assert not_begun is not None
        assert await not_begun is None
        reads = [asyncio.create_task(forwards.ask(member, False, read_of(b"k"), None))]
        await asyncio.sleep(0.01)
        reads.append(asyncio.create_task(forwards.ask(member, False, read_of(b"o"), None)))
        await asyncio.sleep(0.01)
        await forwards.close()
        assert not any(task.get_name().startswith("reads for") for task in asyncio.all_tasks())
        return await asyncio.gather(*reads)

    assert asyncio.run(run()) == [None, None]
    assert not forwards._senders
    assert not forwards._pending


@pytest.mark.parametrize("current", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_a_forwarded_read_is_of_the_version_that_is_current_here(
    tmp_path: Path, current: tuple[int, int]
) -> None:
    with two_versions(tmp_path) as made:
        made.switch(current[0], "b1")
        made.switch(current[1], "b2")

        async def run() -> list[Any]:
            return await asyncio.gather(
                *(made.request("b1", "GET", f"/o/{key}") for key in KEYS_OF_VERSIONS)
            )

        for answer in asyncio.run(run()):
            assert (answer.status, answer.version) == (200, current[0])
            assert answer.json["value"]["v"] == current[0]
        assert made.asked == [("b2", READS.decode())]


def test_all_formats_and_retention(tmp_path: Path) -> None:
    for n, fields in enumerate(({"key": "int64"}, {"retention": 1000}, {"value": "string"})):
        of = replace(ORDERS, **fields)  # type: ignore[arg-type]
        with world(tmp_path / str(n), of) as made:
            keys = [key.to_bytes(8, "big") if "key" in fields else b"%d" % key for key in range(9)]
            made.put_all(dict.fromkeys(keys, b"5"))
            targets = [str(key) for key in range(12)]
            together = ask_all(made, targets)
            assert batches(made) == 1
            separately = ask_all(made, targets, [[SEPARATELY]] * len(targets))
            assert [answer.status for answer in together] == [200] * 9 + [404] * 3
            for one, other in zip(together, separately, strict=True):
                assert comparable(one) == comparable(other)
