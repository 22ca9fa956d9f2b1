"""Fixtures of tests of ingest."""

from __future__ import annotations

import pytest

from backend.ingest import read_priority
from backend.ingest.read_priority import ReadPriority


@pytest.fixture(params=["whole runs", "single records"])
def batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingest applies whole runs of records, or small batches, as while reads are served."""
    if request.param == "single records":
        monkeypatch.setattr(ReadPriority, "_notice_reads", lambda _: True)
        monkeypatch.setattr(read_priority, "_BATCH", 1)
        monkeypatch.setattr(read_priority, "_PAUSE", 0)
