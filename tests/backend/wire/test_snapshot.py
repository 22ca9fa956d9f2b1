"""Copies of store partitions: the stream, and from one data folder to another."""

from __future__ import annotations

import asyncio
import io
import random
import time
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.http.routes.snapshots import SnapshotSender
from backend.storage.data_directory import DataDirectory
from backend.wire.signing import sign
from backend.wire.snapshot import SnapshotError, end_line, file_header, receive
from model.records import ENTRY, entry_head
from tests.backend.snapshots import asked, member_of_a_group, question, stream_of
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import Instance

FILES = st.dictionaries(
    st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,20}", fullmatch=True), st.binary(max_size=50),
    max_size=4,
)  # fmt: skip


class Kept(io.BytesIO):
    """A file that can be looked into once it is closed."""

    def close(self) -> None:
        self.content = self.getvalue()
        super().close()


def received(stream: bytes) -> dict[str, bytes]:
    source, kept = io.BytesIO(stream), dict[str, Kept]()

    def create(name: str) -> Kept:
        return kept.setdefault(name, Kept())

    receive(source.read, source.readline, create)
    return {name: file.content for name, file in kept.items()}


@settings(deadline=None, max_examples=100)
@given(FILES, st.data())
def test_a_stream_is_taken_whole_or_not_at_all(
    files: dict[str, bytes], data: st.DataObject
) -> None:
    stream = stream_of(files)
    assert received(stream) == files
    with pytest.raises(SnapshotError):
        received(stream[: data.draw(st.integers(0, len(stream) - 2))])
    if any(files.values()):
        name, content = next((n, c) for n, c in files.items() if c)
        changed = stream.replace(
            file_header(name, len(content)) + content,
            file_header(name, len(content)) + bytes([content[0] ^ 1]) + content[1:],
        )
        with pytest.raises(SnapshotError, match="checksum"):
            received(changed)


@pytest.mark.parametrize("name", ["../CURRENT", "a/b", "", ".", "..", "a\x00", "x" * 101])
def test_a_file_goes_nowhere_else(name: str) -> None:
    with pytest.raises(SnapshotError, match="invalid file name or size"):
        received(file_header(name, 0) + bytes(32) + end_line(1, 0))


@pytest.fixture
def instance(tmp_path: Path) -> Any:
    folder = DataDirectory(tmp_path / "b1")
    yield member_of_a_group(folder)
    folder.close()


def test_from_one_instance_to_another(instance: Instance, tmp_path: Path) -> None:
    store_partition = instance.hold(0, {b"a": b"1", b"b": b"2"})
    store_partition.store.write(store_partition.store.new_batch(), 7)
    sent, problem = asked(instance, sign(question(), "s"))
    assert problem is None
    stream = b"".join(message.get("body", b"") for message in sent)
    assert [message.get("more_body") for message in sent[1:]].count(False) == 1

    other = DataDirectory(tmp_path / "b2")
    copy = other.new_snapshot("orders", 0)
    source = io.BytesIO(stream)
    receive(source.read, source.readline, lambda name: (copy / name).open("xb"))
    other.install(copy, "orders", 0)
    store, rebuilt = other.open("orders", 0)
    assert rebuilt is None
    assert store.position == 7
    assert store.get(ENTRY + ORDERS.key_codec.to_store(b"b")) == entry_head(7, 1) + b"2"
    assert store.metadata is not None
    assert store_partition.metadata.answerable
    assert not store.metadata.answerable, "it has to reach the end first"
    store.close()
    other.close()
    leftovers = [path.name for path in (tmp_path / "b1" / "orders").iterdir()]
    assert leftovers == ["0"], "the checkpoint is deleted"


def test_who_gets_none(instance: Instance) -> None:
    for body in (question(), sign(question(), "another"), b""):
        sent, problem = asked(instance, body)
        assert (sent, problem.status, problem.code) == ([], 403, "not-a-member")
    instance.hold(0, {b"a": b"1"}, goal=9, answerable=False)
    for text in (question(), question(partition=1), question(hash="h"), question(view="nothing")):
        sent, problem = asked(instance, sign(text, "s"))
        assert (sent, problem.code) == ([], "not-here")
    sent, problem = asked(instance, sign(b"[]", "s"))
    assert (sent, problem.code) == ([], "bad-request")


def test_a_copy_takes_no_more_than_its_bandwidth(tmp_path: Path) -> None:
    """At no moment has more been sent than may have been; however little that is, some of it comes
    every second."""
    bandwidth = 100_000
    folder = DataDirectory(tmp_path)
    giver = member_of_a_group(folder, bandwidth)
    giver.hold(0, {b"a": random.Random(1).randbytes(120_000)})
    sent: list[tuple[float, int]] = []  # s since the beginning, bytes

    async def send(message: Any) -> None:
        sent.append((time.monotonic() - began, len(message.get("body", b""))))

    began = time.monotonic()
    assert (
        asyncio.run(SnapshotSender(giver.context).answer(sign(question(), "s"), cast(Any, send)))
        is None
    )
    pieces = [(at, size) for at, size in sent if size > 1000]  # the rest says which files they are
    assert sum(size for _, size in pieces) > 120_000
    assert max(size for _, size in pieces) <= bandwidth
    for number, (at, _) in enumerate(pieces):
        assert sum(size for _, size in pieces[:number]) <= bandwidth * at
    giver.close()
    folder.close()


def test_no_more_than_two_copies_are_given_at_once(instance: Instance) -> None:
    instance.hold(0, {b"a": b"1"})
    copies = SnapshotSender(instance.context)

    async def ask(send: Any) -> str:
        problem = await copies.answer(sign(question(), "s"), send)
        return "" if problem is None else problem.code

    async def take(message: Any) -> None:
        pass

    async def run() -> None:
        begun, go_on = asyncio.Semaphore(0), asyncio.Event()

        async def take_later(message: Any) -> None:
            begun.release()
            await go_on.wait()

        async def break_off(message: Any) -> None:
            await take_later(message)
            raise ConnectionError

        under_way = [asyncio.create_task(ask(send)) for send in (take_later, break_off)]
        for _ in under_way:
            await begun.acquire()
        assert await ask(take) == "overloaded"
        go_on.set()
        assert await under_way[0] == ""
        with pytest.raises(ConnectionError):
            await under_way[1]
        # both places are free again
        assert await asyncio.gather(ask(take), ask(take)) == ["", ""]

    asyncio.run(run())
    assert [path.name for path in (instance.folder.root / "orders").iterdir()] == ["0"]


def test_what_is_no_store_is_not_adopted(tmp_path: Path) -> None:
    folder = DataDirectory(tmp_path)
    copy = folder.new_snapshot("orders", 0)
    with pytest.raises(ValueError, match="no metadata"):
        folder.install(copy, "orders", 0)
    assert not folder.exists("orders", 0)
    folder.discard(copy)
    left = folder.new_snapshot("orders", 1)
    folder.close()
    folder = DataDirectory(tmp_path)
    assert not left.exists(), "what a crash left is deleted at the next start"
    folder.close()
