"""How many processors an instance may use, and what follows from it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backend.http.limits.processors import most_reductions, processors


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000", 4),
        ("200000 100000", 2),
        ("150000 100000", 1),
        ("50000 100000", 1),
        ("900000 100000", 4),
        ("nonsense", 4),
        (None, 4),
    ],
)
def test_a_container_has_as_many_as_its_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str | None, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    file = tmp_path / "cpu.max"
    if quota is not None:
        file.write_text(quota)
    assert processors(file) == expected


def test_one_processor_is_left_for_reads_of_keys() -> None:
    assert [most_reductions(count) for count in (1, 2, 3, 4, 5, 64)] == [3, 3, 4, 6, 8, 8]
