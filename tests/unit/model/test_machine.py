"""The processors and the memory that a process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from model.machine.limits import memory, processors

GIB = 1024**3


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000", 4),
        ("200000 100000", 2),
        ("150000 100000", 1),
        ("50000 100000", 1),
        ("900000 100000", 4),
        ("nonsense", 4),
        ("100000 0", 4),
        (None, 4),
    ],
)
def test_a_container_has_as_many_as_its_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str | None, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota)
    assert processors(tmp_path) == expected


def test_a_system_that_restricts_no_process_has_the_processors_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS: Python has no sched_getaffinity there."""
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert processors(tmp_path) == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processors(tmp_path) == 1


@pytest.mark.parametrize(("quota", "expected"), [("-1", 4), ("200000", 2), ("", 4)])
def test_version_1_of_control_groups_has_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    folder = tmp_path / "cpu"
    folder.mkdir()
    (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert processors(tmp_path) == expected


@pytest.mark.parametrize(
    ("name", "limit", "expected"),
    [
        ("memory.max", f"{2 * GIB}\n", 2 * GIB),
        ("memory.max", "max\n", 8 * GIB),
        ("memory.max", f"{64 * GIB}\n", 8 * GIB),
        ("memory/memory.limit_in_bytes", f"{3 * GIB}\n", 3 * GIB),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", 8 * GIB),
        ("no-limit", "", 8 * GIB),
    ],
)
def test_a_container_has_as_much_memory_as_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: str, expected: int
) -> None:
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 8 * GIB // 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(limit)
    assert memory(tmp_path) == expected
