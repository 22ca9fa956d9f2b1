"""`route=redirect`: the address of the owner, unless the answer would have too long a header."""

from __future__ import annotations

import pytest

from tests.support.in_process.world import World
from tests.unit.backend.http.point_reads.forwards import ask_all, forwarded

# nginx accepts heads of 16 KiB from instances, and takes one that sends more for broken
MAX_LOCATION = 8192 + 100


@pytest.mark.parametrize(("size", "status"), [(10, 307), (2_700, 307), (2_800, 404), (8_000, 404)])
def test_the_owner_of_a_long_key_is_asked(made: World, size: int, status: int) -> None:
    key = next(key for n in range(100) if forwarded(made, [key := f"{n:03}".ljust(size, "k")]))
    target = "".join(f"%{byte:02x}" for byte in key.encode()) + "?route=redirect"
    [answer] = ask_all(made, [target])
    assert answer.status == status
    if status == 307:
        location = dict(answer.headers)[b"location"]
        assert location.endswith(target.encode())
        assert len(location) < MAX_LOCATION
