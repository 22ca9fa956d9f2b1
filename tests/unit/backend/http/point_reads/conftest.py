"""Two instances with half of the keys each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import World, world
from tests.unit.backend.http.point_reads.forwards import KEYS


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as of:
        of.put_all({key.encode(): b'{"n":%d}' % n for n, key in enumerate(KEYS)})
        yield of
