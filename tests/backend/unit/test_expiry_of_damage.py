"""Deleting what has expired reads the store: damage found there is mended as any other."""

from pathlib import Path
from typing import Any, cast

import pytest

from backend.core.errors import StoreError
from backend.core.progress import Progress
from backend.ingest.held import Held, HeldPartition
from backend.ingest.ingestor import Ingestor
from backend.storage.folder import DataFolder
from tests.backend.unit.examples import identity, view
from tests.backend.unit.fakes import FakeWatcher
from tests.backend.unit.test_waiting import FakeFetcher


@pytest.mark.parametrize("damaged", [True, False])
def test_a_store_that_cannot_be_read_does_not_stop_ingest(tmp_path: Path, damaged: bool) -> None:
    of = view("v", retention=10)
    folder, held = DataFolder(tmp_path), Held((of,))
    store, _ = folder.open("v", 0)
    store.initialise(0, identity(of))
    store.stream_time = 1000

    def scan(*bounds: Any) -> Any:
        raise StoreError("Corruption", damaged=damaged)

    cast(Any, store).scan = scan
    held.add(HeldPartition(of, 0, store, Progress(0, 0, True), identity(of), 0.0))
    ingestor = Ingestor(
        (of,), cast(Any, folder), held, cast(Any, FakeWatcher()), cast(Any, None), {}, 0,
        lambda: 0, lambda: None, 0, cast(Any, None),
    )  # fmt: skip
    ingestor._fetcher = cast(Any, FakeFetcher())
    ingestor._watcher.refresh = lambda: None  # type: ignore[method-assign]
    ingestor._expire()
    assert held.get("v", 0) is None
    assert ingestor.rebuilds == damaged
    assert bool(list((tmp_path / "v").glob("0.aside-*"))) == damaged
    folder.close()
