"""What waits for the clients of streams is bounded in bytes: of one stream, and of all."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.ingest.change_listeners import Change
from backend.queries import change_backlog as backlog
from backend.queries import changes
from backend.queries.change_backlog import Backlog, BacklogBudget
from backend.queries.changes import Changes
from backend.queries.point import ViewReads
from backend.queries.turns import INSTANCES, Turns, set_sender
from backend.storage.data_directory import DataDirectory
from queryable.client.protocol.stream_decoders import EventDecoder
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import Instance
from tests.support.reference.tables import Record

MB = 1 << 20


def change(offset: int, size: int = 10) -> Change:
    return Change(offset, 0, b'"%b"' % (b"x" * (size - 2)))


def taken(waiting: Backlog) -> list[int | None]:
    """The offsets of what waits, None being the end."""

    async def all_of_it() -> list[int | None]:
        found: list[int | None] = []
        try:
            while (got := await waiting.get(0.001)) is not None:
                found.append(got.offset)
        except TimeoutError:
            return found
        return [*found, None]

    return asyncio.run(all_of_it())


def test_large_changes_end_a_stream_before_they_are_many() -> None:
    """A thousand changes of 1 MB each could wait: 1 GB for one slow client."""
    room = BacklogBudget()
    waiting = Backlog(room)
    assert waiting.put([change(n, MB) for n in range(3)])
    assert not waiting.put([change(3, MB)])
    assert room.left == backlog.MAX_BYTES_OF_ALL, "what waited is let go at once"
    assert taken(waiting) == [None]


def test_one_change_may_be_larger_than_what_a_stream_may_have() -> None:
    waiting = Backlog(BacklogBudget())
    assert waiting.put([change(1, 2 * backlog.MAX_BYTES)])
    assert taken(waiting) == [1]


def test_a_client_that_leaves_when_a_change_arrives_is_noticed() -> None:
    """A lost cancellation would keep the stream, and its place, for ever."""

    async def leave_after(steps: int) -> bool:
        waiting = Backlog(BacklogBudget())
        task = asyncio.create_task(waiting.get(10))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert waiting.put([change(1)])
        for _ in range(steps):
            await asyncio.sleep(0)
        was_waiting = not task.done()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return task.cancelled() or not was_waiting

    assert all(asyncio.run(leave_after(steps)) for steps in range(8))


def test_all_streams_share_their_room() -> None:
    room = BacklogBudget(3 * MB)
    streams = [Backlog(room) for _ in range(4)]
    assert [each.put([change(1, MB - 300)]) for each in streams] == [True, True, True, False]
    assert taken(streams[0]) == [1]
    assert streams[0].put([change(2, MB - 300)]), "what was sent has left its room"
    for each in streams:
        each.close()
    assert room.left == 3 * MB


def test_streams_of_one_client_leave_room_for_those_of_others() -> None:
    """As when a client has many streams, and reads none of them."""
    room, turns = BacklogBudget(4 * MB), Turns()

    def stream_of(client: str) -> Backlog:
        set_sender(turns, client)
        return Backlog(room)

    async def run() -> None:
        one = [stream_of("one") for _ in range(5)]
        another = stream_of("another")
        # changes come from the ingest thread, in no client's task
        set_sender(turns, INSTANCES)
        size = MB - 300
        assert [each.put([change(1, size)]) for each in one] == [True, True, True, False, False]
        assert another.put([change(1, size)])
        assert not another.put([change(2, size)]), "all room is used"
        one[0].close()
        set_sender(turns, "one")
        last = stream_of("one")
        assert not last.admit(size + 600), "the share of the client is used"
        assert last.admit(size)
        for each in (*one, another, last):
            each.close()
        assert room.left == 4 * MB

    asyncio.run(run())


def test_a_change_that_is_being_sent_still_takes_room() -> None:
    async def slowly() -> None:
        room = BacklogBudget(MB)
        waiting = Backlog(room)
        waiting.put([change(1, 600_000)])
        await waiting.get(1)
        assert room.left < MB / 2, "its client has not taken it yet"
        with pytest.raises(TimeoutError):
            await waiting.get(0.001)
        assert room.left == MB

    asyncio.run(slowly())


def test_many_changes_end_a_stream() -> None:
    waiting = Backlog(BacklogBudget())
    assert waiting.put([change(n) for n in range(backlog.MAX_CHANGES + 1)])
    assert not waiting.put([change(5000)])
    assert taken(waiting) == [None]


def test_what_waits_is_told_before_the_partition_is_let_go() -> None:
    waiting = Backlog(BacklogBudget())
    waiting.put([change(1), change(2)])
    waiting.end()
    assert not waiting.put([change(3)])
    assert taken(waiting) == [1, 2, None]


steps = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["put", "get", "end", "close"]),
              st.integers(2, 6000)), max_size=40,
)  # fmt: skip


@given(steps)
def test_no_room_is_lost(done: list[tuple[int, str, int]]) -> None:
    async def run() -> None:
        room = BacklogBudget(20_000)
        streams = [Backlog(room) for _ in range(3)]
        for number, what, size in done:
            if what == "put":
                streams[number].put([change(1, size), change(2, size)])
            elif what == "get":
                with suppress(TimeoutError):
                    await streams[number].get(0)
            elif what == "end":
                streams[number].end()
            else:
                streams[number].close()
            assert 0 <= room.left <= 20_000
        for each in streams:
            each.close()
        assert room.left == 20_000

    asyncio.run(run())


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    folder = DataDirectory(tmp_path)
    made = Instance(folder, ORDERS)
    made.place(0)
    made.hold(0, {b"k": b'"old"'})
    yield made
    made.close()
    folder.close()


def run(
    instance: Instance, room: BacklogBudget, test: Callable[[Changes], Awaitable[None]]
) -> None:
    async def with_stream() -> None:
        await test(Changes(instance.reads, b"k", None, room))

    asyncio.run(with_stream())


def test_a_stream_whose_client_is_slow_ends_and_resumes(instance: Instance) -> None:
    room = BacklogBudget()

    async def slow(stream: Changes) -> None:
        store_partition = instance.context.store_partitions.get(ORDERS.name, 0)
        assert store_partition is not None
        events = stream.events()
        assert b'"old"' in await anext(events)
        for offset in range(1, 9):  # nobody asks for the next event meanwhile
            for tell in list(store_partition.listeners._by_key.get(b"k", ())):
                tell([change(offset, MB)])
            await asyncio.sleep(0)
        assert not store_partition.listeners, "the stream is no longer a listener"
        assert [event async for event in events] == []

    run(instance, room, slow)
    assert room.left == backlog.MAX_BYTES_OF_ALL
    # who comes back gets what is there
    run(instance, room, lambda stream: _first_is_there(stream))


async def _first_is_there(stream: Changes) -> None:
    events = stream.events()
    assert (await anext(events)).startswith(b"id: 0:0\nevent: value\n")
    await events.aclose()


def test_a_stream_without_room_for_what_is_there_ends(instance: Instance) -> None:
    async def at_once(stream: Changes) -> None:
        assert [event async for event in stream.events()] == []

    run(instance, BacklogBudget(10), at_once)


def test_line_breaks_between_the_tokens_of_a_key_and_a_value(tmp_path: Path) -> None:
    """As producers may write JSON; in an event, a line would end the field."""
    view = replace(ORDERS, key="json", value="json")
    cluster = Cluster(tmp_path, view, instances=1, partitions=1)
    cluster.place([0])
    key = b'{\r\n "id": 1\n}'
    cluster.write(Record(0, key, (), b"[\n1\r]", 0), 0)
    cluster.settle()

    async def follow() -> list[bytes]:
        reads = ViewReads(cluster.view, cluster.nodes["b1"].context)
        events = Changes(reads, key, None, BacklogBudget()).events()
        found = [await anext(events)]
        cluster.write(Record(1, key, (), None, 0), 0)
        cluster.settle()
        found.append(await anext(events))
        await events.aclose()
        return found

    decoder = EventDecoder()
    value, deleted = (event for part in asyncio.run(follow()) for event in decoder.feed(part))
    assert json.loads("\n".join(value.data)) == {"key": {"id": 1}, "value": [1]}
    assert (deleted.kind, json.loads("\n".join(deleted.data))) == ("deleted", {"key": {"id": 1}})
    cluster.close()


def test_a_record_that_has_expired_when_it_arrives_is_no_value(tmp_path: Path) -> None:
    """Regression: the event had its value, while a read of the key was 404."""
    cluster = Cluster(tmp_path, replace(ORDERS, retention=60_000), instances=1, partitions=1)
    cluster.place([0])
    now = time.time_ns() // 1_000_000
    cluster.write(Record(0, b"k", (), b"1", now), 0)
    cluster.settle()

    async def follow() -> list[bytes]:
        reads = ViewReads(cluster.view, cluster.nodes["b1"].context)
        events = Changes(reads, b"k", None, BacklogBudget()).events()
        found = [await anext(events)]
        cluster.write(Record(1, b"k", (), b"2", now - 90_000), 0)
        cluster.write(Record(2, b"k", (), b"3", now), 0)
        for most in (1, 1):
            cluster.turn("b1", most)
            found.append(await anext(events))
        await events.aclose()
        return found

    assert asyncio.run(follow()) == [
        b'id: 0:0\nevent: value\ndata: {"key":"k","value":1}\n\n',
        b'id: 0:1\nevent: deleted\ndata: {"key":"k"}\n\n',
        b'id: 0:2\nevent: value\ndata: {"key":"k","value":3}\n\n',
    ]
    cluster.close()


@pytest.mark.parametrize("records", [1, 3])
def test_a_client_of_a_topic_that_was_created_again_gets_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    """Regression: its Last-Event-ID is of the former topic, so it got nothing until the new one had
    as many records."""
    monkeypatch.setattr(changes, "_CHECK_EVERY", 0.01, raising=False)
    cluster = Cluster(tmp_path, ORDERS, instances=1, partitions=1)
    cluster.place([0])
    cluster.write(Record(0, b"k", (), b"1", 0), 0)
    cluster.settle()

    async def follow() -> list[bytes]:
        reads = ViewReads(cluster.view, cluster.nodes["b1"].context)
        events = Changes(reads, b"k", b"0:9", BacklogBudget()).events()
        found = [await anext(events), await anext(events)]
        for offset in range(1, records):
            cluster.write(Record(offset, b"k", (), b"%d" % (offset + 1), 0), 0)
        cluster.settle()  # fetches the end of the topic
        while not (event := await anext(events)).startswith(b"id: 0:"):
            assert event == b": still there\n\n"
        found.append(event)
        await events.aclose()
        return found

    found = asyncio.run(asyncio.wait_for(follow(), 10))
    assert found[:2] == [b": nothing new\n\n", b": still there\n\n"], "the instance may lag"
    assert found[2].startswith(b"id: 0:%d\n" % min(records - 1, 1))
    cluster.close()
