"""Tests of a store partition that starts from a snapshot of another instance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.ingest.lifecycle.snapshot_fetcher import SnapshotFetcher, SnapshotTransfer
from backend.storage.data_directory import DataDirectory
from local.waiting import wait_until
from model.topology import Member
from model.views import View
from tests.support.in_process.fakes import Rec
from tests.unit.backend.ingest.test_verification import LAST, LOG, POSITION, VIEW, Process
from tests.unit.backend.storage.data_directories import copy_files


class Copies(SnapshotFetcher):
    """Copies the folder of another instance's store, if it exists, without HTTP."""

    def __init__(self, folder: DataDirectory, store: Path) -> None:
        super().__init__(folder, lambda view, partition: self.others, None, 0)
        self.others = [Member("b2", "127.0.0.1", 1)]
        self._store = store
        self.fetched = 0
        self.start()

    def _fetch_from(
        self, view: View, partition: int, member: Member, transfer: SnapshotTransfer
    ) -> bool:
        self.fetched += 1
        if not self._store.exists():
            return False
        snapshot = self._directory.new_snapshot(view.name, partition)
        copy_files(self._store, snapshot)
        self._directory.install(snapshot, view.name, partition)
        return True

    def wait(self) -> None:
        wait_until(lambda: not self.under_way(), 20, "the end of the transfer", 0.01)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The store of another instance, which has read LOG."""
    process = Process(tmp_path / "b2", POSITION)
    process.turn(LOG, POSITION)
    process.close()
    return process.folder.path("v", 0)


@pytest.fixture
def copies() -> Iterator[list[Copies]]:
    made: list[Copies] = []
    yield made
    for each in made:
        each.stop(20)


def started(root: Path, store: Path, end: int, copies: list[Copies]) -> Process:
    """A new instance, which has a copy of the store. `end`: of the log, before it was copied."""

    def make(folder: DataDirectory) -> Copies:
        copies.append(Copies(folder, store))
        return copies[0]

    process = Process(root, end, snapshots=make)
    copies[0].wait()
    return process


def test_one_that_is_newer_than_the_end_that_was_fetched(
    tmp_path: Path, store: Path, copies: list[Copies]
) -> None:
    """Regression: it was deleted, because the log seemed to end before its position."""
    process = started(tmp_path / "b1", store, 5, copies)
    before = process.watcher.refreshes
    process.turn()
    process.turn()
    assert process.registry.get("v", 0) is None
    assert process.watcher.refreshes == before + 1
    process.watcher.set(POSITION)
    process.turn()
    assert process.opened().progress.position == POSITION
    process.turn([LAST], POSITION)
    assert (process.answers, process.ingest.loop.rebuilds) == (True, 0)
    process.close()


def test_a_store_that_has_answered_is_copied_again_when_it_is_rebuilt(
    tmp_path: Path, store: Path, copies: list[Copies]
) -> None:
    process = started(tmp_path / "b1", store, POSITION, copies)
    process.watcher.set(POSITION)
    process.turn()
    process.turn([LAST], POSITION)
    assert process.answers
    process.opened().damaged = "Corruption"
    process.turn()
    process.watcher.set(POSITION)
    process.turn()
    copies[0].wait()
    assert copies[0].fetched == 2
    process.watcher.set(POSITION)
    process.turn()
    assert process.opened().progress.position == POSITION
    process.close()


@pytest.mark.parametrize(
    ("end", "role", "is_alone", "is_copied"),
    [
        (100, "standby", True, True),
        (100, "active", True, False),
        (20, "standby", True, False),
        (100, "standby", False, False),
    ],
)
def test_one_that_has_just_begun_to_read_as_the_only_instance_is_copied_as_a_standby(
    tmp_path: Path,
    store: Path,
    copies: list[Copies],
    end: int,
    role: str,
    is_alone: bool,
    is_copied: bool,
) -> None:
    """Regression: the first of two new instances read the whole topic if the second one joined the
    group a moment later. One that has read a fifth of the log continues."""

    def make(folder: DataDirectory) -> Copies:
        copies.append(Copies(folder, store if is_alone else tmp_path / "nothing"))
        copies[0].others = [] if is_alone else copies[0].others
        return copies[0]

    process = Process(tmp_path / "b1", end, snapshots=make)
    copies[0].wait()
    process.turn(LOG[:1])
    copies[0].others = [Member("b2", "127.0.0.1", 1)]
    process.ingest.lifecycle.assign({("v", 0): role}, set(), set())
    for _ in range(3):
        process.turn()
        copies[0].wait()
        process.watcher.set(end)
    process.turn()
    assert copies[0].fetched == (not is_alone or is_copied)
    assert process.opened().progress.position == (POSITION if is_copied else LOG[0].at + 1)
    assert process.ingest.loop.rebuilds == 0
    process.turn([LAST], end)
    assert process.answers
    process.close()


def test_a_copy_that_cannot_be_used_is_not_fetched_again(
    tmp_path: Path, store: Path, copies: list[Copies]
) -> None:
    """Else it would be fetched for ever: the other instance may not know yet that its store is
    damaged, or that the log has changed."""
    process = started(tmp_path / "b1", store, POSITION, copies)
    process.watcher.set(POSITION)
    process.turn()
    process.turn([Rec(LAST.at, b"x", b"x")], POSITION)
    process.watcher.set(POSITION)
    process.turn()
    assert (copies[0].fetched, process.fetcher.reads_from) == (1, 0)
    process.close()


@pytest.mark.parametrize("can_be_copied", [True, False])
def test_a_store_that_cannot_be_used_at_the_start_is_copied(
    tmp_path: Path, store: Path, copies: list[Copies], can_be_copied: bool
) -> None:
    """Regression: the topic was read from its start, although another instance had a store."""
    before = Process(tmp_path / "b1", POSITION, views=[replace(VIEW, retention=10**12)])
    before.turn(LOG, POSITION)
    before.close()
    source = store if can_be_copied else tmp_path / "nothing"
    process = started(tmp_path / "b1", source, POSITION, copies)
    assert process.ingest.loop.rebuilds == 1
    for _ in range(2):
        process.turn()
        copies[0].wait()
        process.watcher.set(POSITION)
    process.turn()
    assert (copies[0].fetched, process.ingest.loop.rebuilds) == (1, 1)
    assert process.opened().progress.position == (POSITION if can_be_copied else 0)
    process.turn([LAST] if can_be_copied else LOG, POSITION)
    assert process.answers
    process.close()


def test_a_store_whose_creation_was_interrupted_is_copied(
    tmp_path: Path, store: Path, copies: list[Copies]
) -> None:
    """Regression: the topic was read from its start, although another instance had a store."""
    before = DataDirectory(tmp_path / "b1")
    empty, _ = before.open("v", 0)
    empty.close()
    before.close()
    process = started(tmp_path / "b1", store, POSITION, copies)
    for _ in range(2):
        process.turn()
        copies[0].wait()
        process.watcher.set(POSITION)
    process.turn()
    assert (copies[0].fetched, process.opened().progress.position) == (1, POSITION)
    process.close()
