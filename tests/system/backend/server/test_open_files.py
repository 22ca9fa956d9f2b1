"""The limit of open files, and the connections within it."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from backend.server.open_files import connections_within, raise_limit

RAISED = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
from backend.server.open_files import raise_limit
print(raise_limit(), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_becomes_the_hard_one() -> None:
    """In a process of its own, because a hard limit cannot be raised again."""
    found = subprocess.run(
        [sys.executable, "-c", RAISED], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout == "300 (300, 300)\n"


@pytest.mark.parametrize(("soft", "raised"), [(256, 10_240), (20_000, 20_000)])
def test_without_a_hard_limit_the_soft_one_is_the_largest_of_macos(
    monkeypatch: pytest.MonkeyPatch, soft: int, raised: int
) -> None:
    """setrlimit(2) of macOS: a soft limit above OPEN_MAX is refused."""
    limits = [(soft, resource.RLIM_INFINITY)]

    def set_limit(_: int, limit: tuple[int, int]) -> None:
        if not 0 <= limit[0] <= 10_240:
            raise ValueError("current limit exceeds maximum limit")
        limits.append(limit)

    monkeypatch.setattr(resource, "setrlimit", set_limit)
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    assert raise_limit() == raised


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        (resource.RLIM_INFINITY, 4096),
        (1_048_576, 4096),
        (8192, 4096),
        (1024, 512),
        (1, 1),
    ],
)
def test_connections_use_half_of_the_open_files_at_most(limit: int, allowed: int) -> None:
    assert connections_within(limit, 4096) == allowed
