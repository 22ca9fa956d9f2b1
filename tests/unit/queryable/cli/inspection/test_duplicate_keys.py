"""Keys with values in several partitions."""

from __future__ import annotations

import struct

from queryable.cli.inspection.duplicate_keys import find_duplicate_keys
from tests.unit.queryable.cli.inspection.records import (
    NOW,
    record_in,
)


def at(key: bytes, *times: int, form: str) -> bytes:
    return key + struct.pack(form, *times)


def test_windows_may_be_in_several_partitions_and_sessions_may_not() -> None:
    apart = [record_in(at(b"a", NOW + n, 0, form=">qi"), n) for n in range(3)]
    assert find_duplicate_keys("window", apart) is None
    assert (
        find_duplicate_keys("window", [*apart, record_in(at(b"a", NOW, 0, form=">qi"), 1)])
        is not None
    )
    sessions = [record_in(at(b"a", NOW + n, NOW, form=">qq"), n) for n in range(2)]
    result = find_duplicate_keys("session", sessions)
    assert result is not None
    assert (result.keys, result.key, result.partitions) == (1, b"a", [0, 1])
