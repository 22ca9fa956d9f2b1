"""Versions of keys whose partition has changed because partitions were added to the topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.backend.queries.scans.any_partition import everywhere
from tests.unit.backend.queries.scans.grown_topic import KEYS, grown, moves

_NUMBERS = [n.to_bytes(8, "big") for n in range(len(KEYS))]


@pytest.mark.parametrize(("keys", "form"), [(KEYS, "string"), (_NUMBERS, "int64")])
@pytest.mark.slow
def test_two_versions_from_the_same_time(tmp_path: Path, keys: list[bytes], form: str) -> None:
    """A version is corrected, or retracted, in the partition that the key has got later."""
    with grown(tmp_path, keys, store="versioned", key=form) as (made, late, current):
        moving = [key for key in keys if moves(key, 3, 5)]
        retracted = set(moving[::2])
        for key in moving:
            late.send(key, b'{"n":2}', 100)
            current.send(key, None if key in retracted else b'{"n":3}', 100)
        made.settle()
        for key in moving:
            first = keys.index(key)
            text = key.decode().replace(" ", "%20") if form == "string" else str(first)
            for status, found in everywhere(made, f"keys/{text}"):
                assert (status, found.get("value")) == (
                    (404, None) if key in retracted else (200, {"n": 3})
                )
            for status, found in everywhere(made, f"keys/{text}?as_of=100"):
                assert (status, found.get("value")) == (
                    (404, None) if key in retracted else (200, {"n": 3})
                )
            versions = [{"valid_from": first, "valid_to": 100, "value": {"n": 1}}]
            if key not in retracted:
                versions.append({"valid_from": 100, "valid_to": None, "value": {"n": 3}})
            for status, found in everywhere(made, f"keys/{text}/versions"):
                assert (status, found["items"]) == (200, versions)
