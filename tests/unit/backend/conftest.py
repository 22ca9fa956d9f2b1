"""What several modules' tests share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import World, world

_SUSPENDED = 1_000_000.0  # s


@pytest.fixture(scope="session", autouse=True)
def suspended_machine() -> Iterator[None]:
    """A machine that was suspended long ago: `boot_time` and `time.monotonic` differ for ever."""
    gettime = time.clock_gettime
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "clock_gettime", lambda which: gettime(which) + _SUSPENDED)
        yield


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as made:
        yield made
