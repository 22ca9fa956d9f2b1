"""Stores that fail while ingest works on them: it goes on with them, or without."""

from pathlib import Path
from typing import Any, cast

import pytest

from backend.core.errors import StoreError
from backend.core.progress import Progress
from backend.core.views import View
from backend.ingest.held import Held, HeldPartition
from backend.ingest.ingestor import Ingestor
from backend.storage.folder import DataFolder
from tests.backend.unit.examples import identity, view
from tests.backend.unit.fakes import FakeWatcher
from tests.backend.unit.test_waiting import FakeFetcher


def ingestor_of(of: View, folder: DataFolder, held: Held) -> Ingestor:
    made = Ingestor(
        (of,), cast(Any, folder), held, cast(Any, FakeWatcher()), cast(Any, None), {}, 0,
        lambda: 0, lambda: None, 0, cast(Any, None),
    )  # fmt: skip
    made._fetcher = cast(Any, FakeFetcher())
    made._watcher.refresh = lambda: None  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize("damaged", [True, False])
def test_a_store_that_cannot_be_read_does_not_stop_ingest(tmp_path: Path, damaged: bool) -> None:
    of = view("v", retention=10)
    folder, held = DataFolder(tmp_path), Held((of,))
    store, _ = folder.open("v", 0)
    store.initialise(0, identity(of))
    store.stream_time = 1000

    def scan(*bounds: Any, **how: Any) -> Any:
        raise StoreError("Corruption", damaged=damaged)

    cast(Any, store).scan = scan
    held.add(HeldPartition(of, 0, store, Progress(0, 0, True), identity(of), 0.0))
    ingestor = ingestor_of(of, folder, held)
    ingestor._expire()
    assert held.get("v", 0) is None
    assert ingestor.rebuilds == damaged
    assert bool(list((tmp_path / "v").glob("0.aside-*"))) == damaged
    folder.close()


def test_a_store_that_cannot_be_closed_properly_does_not_stop_ingest(tmp_path: Path) -> None:
    """RocksDB says so when it could not flush, on a full disk; it is closed all the same."""
    of = view("v")
    folder, held = DataFolder(tmp_path), Held((of,))
    for partition in (0, 1):
        store, _ = folder.open("v", partition)
        store.initialise(0, identity(of))
        close = store.close

        def fail(close: Any = close) -> None:
            close()
            raise OSError("No space left on device")

        cast(Any, store).close = fail
        held.add(HeldPartition(of, partition, store, Progress(0, 0, True), identity(of), 0.0))
    ingestor = ingestor_of(of, folder, held)
    first = held.get("v", 0)
    assert first is not None
    ingestor._failed(first, StoreError("No space left on device", damaged=False))
    ingestor._stop.set()
    ingestor._client_settings = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    ingestor._work()
    assert held.all() == []
    for partition in (0, 1):
        store, reason = folder.open("v", partition)
        assert reason is None
        store.close()
    folder.close()
