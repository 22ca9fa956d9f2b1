"""Three instances with standbys, and nginx before them: what clients get while one is killed."""

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
from tests.conftest import MakeTopic
from tests.proxy.nginx import Nginx
from tests.queryable.asking import Asker, askers
from tests.system.backends import Backend, settle, views_toml
from tests.system.conftest import Deploy
from tests.system.model import Writer

pytestmark = pytest.mark.system

PARTITIONS = 4
# more than what sockets and proxies take while nobody reads
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
def shop(
    module_deploy: Deploy, make_topic: MakeTopic, writer: Writer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Shop]:  # fmt: skip
    topics = {name: make_topic(PARTITIONS) for name in ("rows", "notes", "prices")}
    writer.table(topics["rows"], ROWS)
    views = views_toml(
        rows={"topic": topics["rows"]},
        notes={"topic": topics["notes"], "append": "on"},
        prices={"topic": topics["prices"], "store": "versioned", "retention": "1d"},
        wide={"topic": topics["notes"], "key": "bytes", "value": "bytes"},
    )
    backends = module_deploy(views, standby_replicas="1").start(3)
    addresses = ",".join(f"127.0.0.1:{backend.port}" for backend in backends)
    with Nginx(tmp_path_factory.mktemp("faults") / "nginx", addresses, {}) as nginx:
        nginx.wait_for_map(backends[0].processors()["epoch"])
        yield Shop(nginx, backends, topics)
    for backend in backends:
        assert "Traceback" not in backend.log(whole=True)


@pytest.fixture
def everyone(shop: Shop) -> Iterator[list[Asker]]:
    with askers(shop.nginx.port) as made:
        yield made


def test_errors_are_of_their_classes(shop: Shop, everyone: list[Asker]) -> None:
    for asker in everyone:
        with pytest.raises(NotFound, match="view-not-found"):
            asker.get("nothing", "a")
        with pytest.raises(BadRequest, match="bad-parameter"):
            asker.get("rows", "a", max_lag=-1)
        with pytest.raises(BadRequest, match="unknown-parameter"):
            asker.get("rows", "a", as_of=1)
        with pytest.raises(BadRequest, match="wrong-store"):
            asker.windows("rows")
        with pytest.raises(BadRequest, match="key-too-long"):
            asker.get("rows", "a" * 9000)
        with pytest.raises(BadUse):
            asker.get("rows", 5)
        with pytest.raises(NotFound, match="no-such-resource"):
            asker.append("rows", "a", 1)
    # the active, its standby and the proxy each wait a second for the record
    direct = everyone[2]
    with direct.session() as seen:
        seen.take({shop.topics["rows"]: dict.fromkeys(range(PARTITIONS), 10**6)})
        with pytest.raises(Unavailable, match="not-up-to-offset") as told:
            direct.get("rows", "a", timeout=4)
        assert told.value.more["position"] > 0


def test_what_was_valid_before_the_history(
    shop: Shop, everyone: list[Asker], writer: Writer
) -> None:
    writer.table(shop.topics["prices"], {"a": 1, "b": 2})
    wait_until(lambda: everyone[0].get("prices", "a"), LONG, "the record")
    writer.table(shop.topics["prices"], {"a": 3})
    wait_until(lambda: everyone[0].get("prices", "a").value == 3, LONG, "the record")
    for asker in everyone:
        with pytest.raises(OutsideHistory) as told:
            asker.get("prices", "a", as_of=1000)
        assert told.value.more["history_from"] > 1000


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


def test_changes_of_a_key(shop: Shop, everyone: list[Asker]) -> None:
    for number, asker in enumerate(everyone):
        key = f"changed/{number}"
        [absent] = asker.first(asker.client.changes("notes", key), 1)
        assert absent.is_deleted
        first = asker.append("notes", key, 1)
        second = asker.append("notes", key, {"two": 2})
        with asker.session():
            changes = asker.client.changes("notes", key, after=(first.partition, first.offset))
            [change] = asker.first(changes, 1)
            assert change == Change(key, {"two": 2}, False, second.partition, second.offset)
            # who has seen the change, reads it
            assert asker.get("notes", key).value == {"two": 2}
        asker.append("notes", key)
        with asker.session() as seen:
            seen.take({shop.topics["notes"]: {second.partition: second.offset + 1}})
            assert not asker.get("notes", key)


def test_tables(shop: Shop) -> None:
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


async def opened_at(
    client: AsyncClient, victim: str, begun: asyncio.Event, is_killed: asyncio.Event
) -> list[str]:
    """All keys of a stream that began at the victim and waited until that was killed."""
    for _ in range(100):
        rows = client.scan("rows", stream=True)
        found: list[str] = []
        async for row in rows:
            assert rows.source is not None
            if not found and rows.source.served_by != victim:
                break
            found.append(row.key)
            if len(found) == 1:
                begun.set()
                await is_killed.wait()
        if found:
            return found
    raise AssertionError(f"{victim} is never asked")


def opened_by_thread(client: Client, victim: str) -> Iterator[str]:
    """The same; all keys, as they are asked for."""
    for _ in range(100):
        rows = client.scan("rows", stream=True)
        iterator = iter(rows)
        first = next(iterator)
        assert rows.source is not None
        if rows.source.served_by == victim:
            return keys_of(first.key, iterator, rows, victim)
    raise AssertionError(f"{victim} is never asked")


def keys_of(first: str, more: Iterator[Any], rows: Any, victim: str) -> Iterator[str]:
    yield first
    for row in more:
        yield row.key
    assert rows.source.served_by != victim, "the stream was not cut"


def key_of(client: Client, backend: Backend) -> str:
    """One whose active the backend is."""
    keys = (f"followed {n}" for n in range(1000))
    return next(k for k in keys if client.get("notes", k, stale="never").served_by == backend.id)


def follow(client: Client, key: str, said: queue.Queue[Change]) -> None:
    for change in client.changes("notes", key):
        said.put(change)
        if change.value == "end":
            return


def test_nothing_is_lost_or_repeated_when_an_instance_is_killed(shop: Shop) -> None:
    proxied, direct = Client(shop.url, timeout=LONG), Client(shop.url, timeout=LONG, direct=True)
    with proxied, direct:
        pages = iter(proxied.scan("rows", page=100))
        begun = [next(pages).key for _ in range(150)]
        victim = shop.backends[0]
        key = key_of(direct, victim)
        streamed: list[str] = []
        with proxied.session():
            proxied.append("notes", key, 0)
            assert proxied.get("notes", key).value == 0
        followed: list[queue.Queue[Change]] = [queue.Queue(), queue.Queue()]
        threads = [
            threading.Thread(target=follow, args=(client, key, said), daemon=True)
            for client, said in zip((proxied, direct), followed, strict=True)
        ]
        for thread in threads:
            thread.start()
        for said in followed:
            assert said.get(timeout=LONG).value == 0
        for number in range(1, 15):
            proxied.append("notes", key, number)
        for said in followed:
            assert [said.get(timeout=LONG).value for _ in range(14)] == list(range(1, 15))

        async def as_task() -> list[str]:
            begun_there, is_killed = asyncio.Event(), asyncio.Event()
            async with AsyncClient(shop.url, timeout=LONG) as client:
                reading = asyncio.create_task(opened_at(client, victim.id, begun_there, is_killed))
                await asyncio.wait_for(begun_there.wait(), LONG)
                # at once: the proxy takes as much as it is given, and needs nobody then
                rest = opened_by_thread(proxied, victim.id)
                victim.kill()
                is_killed.set()
                streamed.extend(await asyncio.to_thread(list, rest))
                return await reading

        with direct.session() as seen, proxied.session() as also:
            written = [direct.append("notes", f"note {n}", n) for n in range(40)]
            also.take(seen.snapshot())
            streamed_by_task = asyncio.run(as_task())
            # read back at once, whoever is left to answer
            for client in (direct, proxied):
                answers = [client.get("notes", f"note {n}") for n in range(40)]
                assert [answer.value for answer in answers] == list(range(40))
                assert all(a.position > w.offset for a, w in zip(answers, written, strict=True))
        every = list(ROWS)
        assert [*begun, *(row.key for row in pages)] == every
        assert streamed == every
        assert streamed_by_task == every
        wait_until(
            lambda: {direct.get("rows", key).is_standby for key in every[:40]} == {False},
            LONG, "the direct client to follow the new map",
        )  # fmt: skip
        for number in range(15, 30):
            proxied.append("notes", key, number, timeout=LONG)
        proxied.append("notes", key, "end")
        for thread, said in zip(threads, followed, strict=True):
            thread.join(LONG)
            assert not thread.is_alive()
            seen_changes = [said.get_nowait() for _ in range(said.qsize())]
            assert [change.value for change in seen_changes] == [*range(15, 30), "end"]
            offsets = [change.offset for change in seen_changes]
            assert offsets == sorted(set(offsets))
    victim.launch()
    settle(shop.backends)


def test_a_direct_client_outlives_the_instance_that_it_was_told_of(shop: Shop) -> None:
    keys = list(ROWS)[:50]
    victim = shop.backends[0]
    with Client(f"http://127.0.0.1:{victim.port}", direct=True, timeout=LONG) as client:
        for turn in range(2):
            assert [client.get("rows", key).value["n"] for key in keys] == list(range(50))
            if turn == 0:
                victim.kill()
        wait_until(
            lambda: not any(client.get("rows", key).is_standby for key in keys),
            LONG, "the map of another instance",
        )  # fmt: skip
