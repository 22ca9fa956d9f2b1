"""Tests of snapshots: the stream, and the transfer from one instance to another."""

from __future__ import annotations

import asyncio
import io
import random
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.http.routes.snapshots import SnapshotSender
from backend.storage.data_directory import DataDirectory
from backend.wire.snapshot import SnapshotError, end_line, file_header, receive, seconds_left
from model.machine.clock import boot_time
from model.records import ENTRY, entry_head
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, metadata
from tests.support.in_process.instance import Instance
from tests.unit.backend.snapshots import asked, member_of_a_group, question, stream_of

FILES = st.dictionaries(
    st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,20}", fullmatch=True), st.binary(max_size=50),
    max_size=4,
)  # fmt: skip


class InMemoryFile(io.BytesIO):
    """A file whose content can be read after it was closed."""

    def close(self) -> None:
        self.content = self.getvalue()
        super().close()


def received(stream: bytes) -> dict[str, bytes]:
    source, files = io.BytesIO(stream), dict[str, InMemoryFile]()

    def create(name: str) -> InMemoryFile:
        return files.setdefault(name, InMemoryFile())

    receive(source.read, source.readline, create)
    return {name: file.content for name, file in files.items()}


@settings(max_examples=examples(100))
@given(FILES, st.data())
def test_a_truncated_or_corrupt_stream_is_refused(
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
def test_file_names_with_a_path_are_refused(name: str) -> None:
    with pytest.raises(SnapshotError, match="invalid file name or size"):
        received(file_header(name, 0) + bytes(32) + end_line(1, 0))


@pytest.fixture
def instance(tmp_path: Path) -> Any:
    folder = DataDirectory(tmp_path / "b1")
    yield member_of_a_group(folder)
    folder.close()


def test_a_snapshot_is_transferred_to_another_instance(instance: Instance, tmp_path: Path) -> None:
    store_partition = instance.hold(0, {b"a": b"1", b"b": b"2"})
    store_partition.store.write(store_partition.store.new_batch(), 7)
    sent, problem = asked(instance, question())
    assert problem is None
    stream = b"".join(message.get("body", b"") for message in sent)
    assert [message.get("more_body") for message in sent[1:]].count(False) == 1

    other = DataDirectory(tmp_path / "b2")
    snapshot = other.new_snapshot("orders", 0)
    source = io.BytesIO(stream)
    receive(source.read, source.readline, lambda name: (snapshot / name).open("xb"))
    other.install(snapshot, "orders", 0)
    store, rebuilt = other.open("orders", 0)
    assert rebuilt is None
    assert store.position == 7
    assert store.get(ENTRY + ORDERS.key_codec.to_store(b"b")) == entry_head(7, 1) + b"2"
    assert store.metadata is not None
    assert store_partition.metadata.answerable
    assert not store.metadata.answerable, "it must reach the end of the log first"
    store.close()
    other.close()
    leftovers = [path.name for path in (tmp_path / "b1" / "orders").iterdir()]
    assert leftovers == ["0"], "the checkpoint is deleted"


def test_requests_that_are_refused(instance: Instance) -> None:
    instance.hold(0, {b"a": b"1"}, goal=9, answerable=False)
    instance.context.ingest_loop.opening()["orders", 1] = "active"
    for text, code in (
        (question(), "catching-up"),
        (question(partition=1), "catching-up"),  # it is not open yet
        (question(partition=2), "not-here"),
        (question(hash="h"), "not-here"),
        (question(partition=1, hash="h"), "not-here"),
        (question(view="nothing"), "not-here"),
    ):
        sent, problem = asked(instance, text)
        assert (sent, problem.code) == ([], code)
    for body in (b"[]", b"", b"{}", b"\xff"):
        sent, problem = asked(instance, body)
        assert (sent, problem.code) == ([], "bad-request")


def test_a_refusal_says_how_long_catching_up_will_take(instance: Instance) -> None:
    store_partition = instance.hold(0, {b"a": b"1"}, goal=9, answerable=False)
    _, problem = asked(instance, question())
    assert seconds_left(problem.body()) is None, "it has applied nothing yet"
    store_partition.progress.applied(3)
    store_partition.opened_at = boot_time() - 2
    _, problem = asked(instance, question())
    assert 6.0 <= (seconds_left(problem.body()) or 0.0) < 60
    store_partition.waiting_for = cast(Any, "a schema")
    _, problem = asked(instance, question())
    assert seconds_left(problem.body()) is None, "it waits for a schema"
    store_partition.waiting_for = None
    store_partition.progress.position = 9
    _, problem = asked(instance, question())
    assert seconds_left(problem.body()) is None, "its last record is not verified yet"


@pytest.mark.parametrize(
    ("problem", "seconds"),
    [
        (b'{"seconds_left": 1.5}', 1.5),
        (b'{"seconds_left": 2}', 2.0),
        (b'{"seconds_left": -1}', None),
        (b'{"seconds_left": "1"}', None),
        (b'{"seconds_left": true}', None),
        (b'{"seconds_left": null}', None),
        (b'{"code": "catching-up"}', None),
        (b"[]", None),
        (b"", None),
    ],
)
def test_the_seconds_of_a_refusal_are_checked(problem: bytes, seconds: float | None) -> None:
    assert seconds_left(problem) == seconds


@pytest.mark.slow
def test_a_transfer_stays_within_its_bandwidth(tmp_path: Path) -> None:
    """At no time were more bytes sent than allowed, and a chunk is small enough for one second."""
    bandwidth = 100_000
    folder = DataDirectory(tmp_path)
    source = member_of_a_group(folder, bandwidth)
    source.hold(0, {b"a": random.Random(1).randbytes(120_000)})
    sent: list[tuple[float, int]] = []  # s since the start, bytes

    async def send(message: Any) -> None:
        sent.append((time.monotonic() - began, len(message.get("body", b""))))

    began = time.monotonic()
    assert asyncio.run(SnapshotSender(source.context).answer(question(), cast(Any, send))) is None
    chunks = [(at, size) for at, size in sent if size > 1000]  # without headers
    assert sum(size for _, size in chunks) > 120_000
    assert max(size for _, size in chunks) <= bandwidth
    for number, (at, _) in enumerate(chunks):
        assert sum(size for _, size in chunks[:number]) <= bandwidth * at
    source.close()
    folder.close()


def test_a_store_that_may_lack_tombstones_is_not_sent(instance: Instance) -> None:
    """It was created without knowing an earlier number of partitions. A rebuild must help."""
    instance.place(0, 0, 0)
    instance.hold(0, {b"a": b"1"}, made_from=metadata(partitions=3))
    sender = SnapshotSender(instance.context)

    def code() -> str:
        problem = asyncio.run(sender.answer(question(), cast(Any, _discard)))
        return "" if problem is None else problem.code

    assert code() == ""
    instance.hold(1, made_from=metadata(partitions=2))
    assert code() == "repartitioned"


async def _discard(message: Any) -> None:
    pass


def test_at_most_two_snapshots_are_sent_at_once(instance: Instance) -> None:
    instance.hold(0, {b"a": b"1"})
    sender = SnapshotSender(instance.context)

    async def request(send: Any) -> str:
        problem = await sender.answer(question(), send)
        return "" if problem is None else problem.code

    async def receive_now(message: Any) -> None:
        pass

    async def run() -> None:
        started, proceed = asyncio.Semaphore(0), asyncio.Event()

        async def receive_later(message: Any) -> None:
            started.release()
            await proceed.wait()

        async def disconnect_later(message: Any) -> None:
            await receive_later(message)
            raise ConnectionError

        transfers = [
            asyncio.create_task(request(send)) for send in (receive_later, disconnect_later)
        ]
        for _ in transfers:
            await started.acquire()
        assert await request(receive_now) == "overloaded"
        elsewhere = await sender.answer(question(partition=1), receive_now)
        assert elsewhere is not None
        assert elsewhere.code == "not-here", "it is not worth waiting for"
        proceed.set()
        assert await transfers[0] == ""
        with pytest.raises(ConnectionError):
            await transfers[1]
        # both have ended, so two others can start
        assert await asyncio.gather(request(receive_now), request(receive_now)) == ["", ""]

    asyncio.run(run())
    assert [path.name for path in (instance.folder.root / "orders").iterdir()] == ["0"]


def test_a_checkpoint_is_deleted_if_the_client_disconnects_while_it_is_made(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: its files stayed on the disk until the next start."""
    store = instance.hold(0, {b"a": b"1"}).store
    make, begun, proceed = store.checkpoint, threading.Event(), threading.Event()

    def slow() -> Path | None:
        begun.set()
        assert proceed.wait(20)
        return make()

    monkeypatch.setattr(store, "checkpoint", slow)

    async def run() -> None:
        sender = SnapshotSender(instance.context)
        sending = asyncio.create_task(sender.answer(question(), _discard))
        await asyncio.to_thread(begun.wait, 20)
        sending.cancel()
        await asyncio.sleep(0)
        proceed.set()
        with pytest.raises(asyncio.CancelledError):
            await sending
        monkeypatch.undo()
        assert await sender.answer(question(), _discard) is None

    asyncio.run(run())
    assert [path.name for path in (instance.folder.root / "orders").iterdir()] == ["0"]


def test_a_client_that_disconnects_at_the_end_does_not_use_up_a_place(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the worker cancels the request then, and while the checkpoint was deleted, its
    place was lost. After two of them, all copies were refused as overloaded until a restart."""
    store = instance.hold(0, {b"a": b"1"}).store
    drop, begun, proceed = store.drop_checkpoint, threading.Semaphore(0), threading.Event()

    def slow(folder: Path) -> None:
        begun.release()
        assert proceed.wait(20)
        drop(folder)

    async def run() -> None:
        sender = SnapshotSender(instance.context)
        monkeypatch.setattr(store, "drop_checkpoint", slow)
        sending = [asyncio.create_task(sender.answer(question(), _discard)) for _ in range(2)]
        for _ in sending:
            assert await asyncio.to_thread(begun.acquire, timeout=20)
        for each in sending:
            each.cancel()
            with pytest.raises(asyncio.CancelledError):
                await each
        refused = await sender.answer(question(), _discard)
        assert refused is not None
        assert refused.code == "overloaded", "the checkpoints are still on the disk"
        proceed.set()
        deadline = time.monotonic() + 20
        while await sender.answer(question(), _discard) is not None:
            assert time.monotonic() < deadline, "the places are not free again"
            await asyncio.sleep(0.01)

    asyncio.run(run())
    assert [path.name for path in (instance.folder.root / "orders").iterdir()] == ["0"]


def test_a_folder_without_a_store_is_not_installed(tmp_path: Path) -> None:
    folder = DataDirectory(tmp_path)
    snapshot = folder.new_snapshot("orders", 0)
    with pytest.raises(ValueError, match="no metadata"):
        folder.install(snapshot, "orders", 0)
    assert not folder.exists("orders", 0)
    folder.discard(snapshot)
    leftover = folder.new_snapshot("orders", 1)
    folder.close()
    folder = DataDirectory(tmp_path)
    assert not leftover.exists(), "leftovers are deleted at the next start"
    folder.close()
