"""A fetcher, and its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.ingest.lifecycle import snapshot_fetcher
from backend.ingest.lifecycle.snapshot_fetcher import SnapshotFetcher
from backend.storage.data_directory import DataDirectory
from model.topology import Member
from tests.unit.backend.cluster.snapshots.sources import (
    ENTRIES,
    SILENCE,
    AddSource,
    Setup,
    Source,
)
from tests.unit.backend.snapshots import asked, member_of_a_group, question


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A complete snapshot, as an instance sends it."""
    folder = DataDirectory(tmp_path_factory.mktemp("source"))
    source = member_of_a_group(folder)
    source.hold(0, ENTRIES)
    sent, problem = asked(source, question())
    assert problem is None
    source.close()
    folder.close()
    return b"".join(message.get("body", b"") for message in sent)


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """For `pytest.mark.usefixtures`: the fetcher has one thread."""
    monkeypatch.setattr(snapshot_fetcher, "_THREADS", 1)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    folder, snapshot_sources, in_several = DataDirectory(tmp_path), list[Member](), set[str]()
    fetcher = SnapshotFetcher(
        folder,
        lambda view, partition: snapshot_sources,
        None,
        50,
        SILENCE,
        may_be_in_several=lambda view: view.name in in_several,
    )
    fetcher.start()
    yield Setup(folder, fetcher, snapshot_sources, in_several)
    fetcher.stop(20)
    folder.close()


@pytest.fixture
def add_source(setup: Setup, stream: bytes) -> Iterator[AddSource]:
    """`add_source(respond)`: adds a source, to be asked last."""
    made: list[Source] = []

    def start(respond: Callable[[Any, bytes], None]) -> Source:
        made.append(Source(f"b{len(made) + 2}", stream, respond))
        setup.snapshot_sources.append(made[-1].member)
        return made[-1]

    yield start
    for source in made:
        source.stop()
