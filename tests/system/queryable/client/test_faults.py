"""Three instances with standbys behind nginx: what clients get while one of them is killed."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from local.waiting import wait_until
from queryable import (
    AsyncClient,
    BadRequest,
    BadUse,
    Change,
    Client,
    NotFound,
    OutsideHistory,
    Unavailable,
)
from tests.support.backends import Backend
from tests.support.clients.both_clients import AnyClient, all_clients
from tests.support.deployment import settle, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

PARTITIONS = 4
# more than sockets and proxies buffer while the client does not read
ROWS = {f"k{n:05}": {"n": n, "pad": "x" * 4000} for n in range(6000)}
LONG = 30.0


class Shop(NamedTuple):
    nginx: Nginx
    backends: list[Backend]
    topics: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.nginx.port}"

    def named(self, id_: str | None) -> Backend:
        [found] = [backend for backend in self.backends if backend.id == id_]
        return found


@pytest.fixture(scope="module")
def shop(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> Iterator[Shop]:
    topics = {name: make_topic(PARTITIONS) for name in ("rows", "notes", "prices")}
    writer.table(topics["rows"], ROWS)
    views = views_toml(
        rows={"topic": topics["rows"]},
        notes={"topic": topics["notes"], "append": "on"},
        prices={"topic": topics["prices"], "store": "versioned", "retention": "1d"},
        wide={"topic": topics["notes"], "key": "bytes", "value": "bytes"},
    )
    deployment = module_deploy(views, standby_replicas="1")
    backends = deployment.start(3)
    yield Shop(deployment.proxy(), backends, topics)
    for backend in backends:
        assert "Traceback" not in backend.log(whole=True)


@pytest.fixture
def clients(shop: Shop) -> Iterator[list[AnyClient]]:
    with all_clients(shop.nginx.port) as clients:
        yield clients


def test_errors_have_their_classes(shop: Shop, clients: list[AnyClient]) -> None:
    for client in clients:
        with pytest.raises(NotFound, match="view-not-found"):
            client.get("nothing", "a")
        with pytest.raises(BadRequest, match="bad-parameter"):
            client.get("rows", "a", max_lag=-1)
        with pytest.raises(BadRequest, match="unknown-parameter"):
            client.get("rows", "a", as_of=1)
        with pytest.raises(BadRequest, match="wrong-store"):
            client.windows("rows")
        with pytest.raises(BadRequest, match="key-too-long"):
            client.get("rows", "a" * 9000)
        with pytest.raises(BadUse):
            client.get("rows", 5)
        with pytest.raises(NotFound, match="no-such-resource"):
            client.append("rows", "a", 1)
    # the active, its standby and the proxy each wait a second for the record
    direct = clients[2]
    with direct.session() as seen:
        seen.take({shop.topics["rows"]: dict.fromkeys(range(PARTITIONS), 10**6)})
        with pytest.raises(Unavailable, match="not-up-to-offset") as raised:
            direct.get("rows", "a", timeout=4)
        assert raised.value.more["position"] > 0


def test_as_of_before_the_history_is_an_error(
    shop: Shop, clients: list[AnyClient], writer: Writer
) -> None:
    writer.table(shop.topics["prices"], {"a": 1, "b": 2})
    wait_until(lambda: clients[0].get("prices", "a"), LONG, "the record")
    writer.table(shop.topics["prices"], {"a": 3})
    wait_until(lambda: clients[0].get("prices", "a").value == 3, LONG, "the record")
    for client in clients:
        with pytest.raises(OutsideHistory) as raised:
            client.get("prices", "a", as_of=1000)
        assert raised.value.more["history_from"] > 1000


def test_one_client_serves_many_threads_and_tasks(shop: Shop) -> None:
    keys = list(ROWS)[:400]
    for direct in (False, True):
        with Client(shop.url, direct=direct) as client, ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda key: client.get("rows", key), keys, chunksize=5))
        assert [answer.value["n"] for answer in found] == list(range(400))

        async def ask(direct: bool) -> list[Any]:
            async with AsyncClient(shop.url, direct=direct) as client:
                return await asyncio.gather(*(client.get("rows", key) for key in keys))

        assert [answer.value["n"] for answer in asyncio.run(ask(direct))] == list(range(400))


def test_changes_of_a_key(shop: Shop, clients: list[AnyClient]) -> None:
    for number, client in enumerate(clients):
        key = f"changed/{number}"
        [absent] = client.first(client.client.changes("notes", key), 1)
        assert absent.is_deleted
        first = client.append("notes", key, 1)
        second = client.append("notes", key, {"two": 2})
        with client.session():
            changes = client.client.changes("notes", key, after=(first.partition, first.offset))
            [change] = client.first(changes, 1)
            assert change == Change(key, {"two": 2}, False, second.partition, second.offset)
            # a session that has seen the change reads it
            assert client.get("notes", key).value == {"two": 2}
        client.append("notes", key)
        with client.session() as seen:
            seen.take({shop.topics["notes"]: {second.partition: second.offset + 1}})
            assert not client.get("notes", key)


def test_dataframes(shop: Shop) -> None:
    with Client(shop.url) as client:
        frame = client.scan("rows", limit=30, page=7).to_pandas()
        assert list(frame.columns) == ["key", "n", "pad"]
        assert frame["n"].sum() == sum(range(30))
        table = client.scan("rows", limit=30, stream=True).to_arrow()
        assert table.column_names == ["key", "n", "pad"]
        assert table["key"].to_pylist() == list(ROWS)[:30]

    async def ask() -> Any:
        async with AsyncClient(shop.url) as other:
            return (await other.scan("rows", limit=3).to_arrow()).num_rows

    assert asyncio.run(ask()) == 3


async def read_stream_from(
    client: AsyncClient, victim: str, has_started: asyncio.Event, is_killed: asyncio.Event
) -> list[str]:
    """All keys of a stream that starts at the victim and pauses until the victim is killed."""
    for _ in range(100):
        rows = client.scan("rows", stream=True)
        found: list[str] = []
        async for row in rows:
            assert rows.source is not None
            if not found and rows.source.served_by != victim:
                break
            found.append(row.key)
            if len(found) == 1:
                has_started.set()
                await is_killed.wait()
        if found:
            return found
    raise AssertionError(f"{victim} never answers")


def stream_from(client: Client, victim: str) -> Iterator[str]:
    """The keys of a stream that starts at the victim. They are read on demand."""
    for _ in range(100):
        rows = client.scan("rows", stream=True)
        iterator = iter(rows)
        first = next(iterator)
        assert rows.source is not None
        if rows.source.served_by == victim:
            return keys_of(first.key, iterator, rows, victim)
    raise AssertionError(f"{victim} never answers")


def keys_of(first: str, more: Iterator[Any], rows: Any, victim: str) -> Iterator[str]:
    yield first
    for row in more:
        yield row.key
    assert rows.source.served_by != victim, "the stream did not break"


def key_of(client: Client, backend: Backend) -> str:
    """A key whose active is this backend."""
    keys = (f"followed {n}" for n in range(1000))
    return next(k for k in keys if client.get("notes", k, stale="never").served_by == backend.id)


def follow(client: Client, key: str, changes: queue.Queue[Change]) -> None:
    for change in client.changes("notes", key):
        changes.put(change)
        if change.value == "end":
            return


def test_nothing_is_lost_or_repeated_when_an_instance_is_killed(shop: Shop) -> None:
    proxied, direct = Client(shop.url, timeout=LONG), Client(shop.url, timeout=LONG, direct=True)
    with proxied, direct:
        pages = iter(proxied.scan("rows", page=100))
        first_keys = [next(pages).key for _ in range(150)]
        victim = shop.backends[0]
        key = key_of(direct, victim)
        streamed: list[str] = []
        with proxied.session():
            proxied.append("notes", key, 0)
            assert proxied.get("notes", key).value == 0
        followed: list[queue.Queue[Change]] = [queue.Queue(), queue.Queue()]
        threads = [
            threading.Thread(target=follow, args=(client, key, changes), daemon=True)
            for client, changes in zip((proxied, direct), followed, strict=True)
        ]
        for thread in threads:
            thread.start()
        for changes in followed:
            assert changes.get(timeout=LONG).value == 0
        for number in range(1, 15):
            proxied.append("notes", key, number)
        for changes in followed:
            assert [changes.get(timeout=LONG).value for _ in range(14)] == list(range(1, 15))

        async def as_task() -> list[str]:
            has_started, is_killed = asyncio.Event(), asyncio.Event()
            async with AsyncClient(shop.url, timeout=LONG) as client:
                reading = asyncio.create_task(
                    read_stream_from(client, victim.id, has_started, is_killed)
                )
                await asyncio.wait_for(has_started.wait(), LONG)
                # immediately, because the proxy may buffer the rest and need no backend
                rest = stream_from(proxied, victim.id)
                victim.kill()
                is_killed.set()
                streamed.extend(await asyncio.to_thread(list, rest))
                return await reading

        with direct.session() as seen, proxied.session() as also:
            written = [direct.append("notes", f"note {n}", n) for n in range(40)]
            also.take(seen.snapshot())
            streamed_by_task = asyncio.run(as_task())
            # it can be read at once from any instance
            for client in (direct, proxied):
                answers = [client.get("notes", f"note {n}") for n in range(40)]
                assert [answer.value for answer in answers] == list(range(40))
                assert all(a.position > w.offset for a, w in zip(answers, written, strict=True))
        every = list(ROWS)
        assert [*first_keys, *(row.key for row in pages)] == every
        assert streamed == every
        assert streamed_by_task == every
        wait_until(
            lambda: {direct.get("rows", key).is_standby for key in every[:40]} == {False},
            LONG, "the direct client to use the new topology",
        )  # fmt: skip
        for number in range(15, 30):
            proxied.append("notes", key, number, timeout=LONG)
        proxied.append("notes", key, "end")
        for thread, changes in zip(threads, followed, strict=True):
            thread.join(LONG)
            assert not thread.is_alive()
            seen_changes = [changes.get_nowait() for _ in range(changes.qsize())]
            assert [change.value for change in seen_changes] == [*range(15, 30), "end"]
            offsets = [change.offset for change in seen_changes]
            assert offsets == sorted(set(offsets))
    victim.launch()
    settle(shop.backends)


def test_direct_client_survives_the_instance_of_its_url(shop: Shop) -> None:
    keys = list(ROWS)[:50]
    victim = shop.backends[0]
    with Client(f"http://127.0.0.1:{victim.port}", direct=True, timeout=LONG) as client:
        for turn in range(2):
            assert [client.get("rows", key).value["n"] for key in keys] == list(range(50))
            if turn == 0:
                victim.kill()
        wait_until(
            lambda: not any(client.get("rows", key).is_standby for key in keys),
            LONG, "the topology of another instance",
        )  # fmt: skip
