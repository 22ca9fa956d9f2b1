"""The answers to coalesced reads have few bytes in all; further reads are sent separately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.http.router import Router
from backend.storage.bounded_reads import SLICE
from backend.wire.plain_requests import PlainPost
from backend.wire.point_batch import (
    ALONE,
    LARGE,
    MAX_ANSWER_BYTES,
    Reads,
    encode_reads,
)
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.requests import LOOPBACK
from tests.support.point_batch import decode_answers, groups_of
from tests.unit.backend.http.point_reads.instances import holding

KEYS = [b"key-%d" % n for n in range(200)]
VALUE = b'"%b"' % (b"x" * 60_000)  # 12 MB in all


@pytest.mark.parametrize("value", ["json", "string"])
def test_answers_have_a_limit_in_bytes(tmp_path: Path, value: str) -> None:
    of = view(value=value)
    with holding(tmp_path, of, dict.fromkeys(KEYS, VALUE)) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        before = replace(instance.context.telemetry.counts["orders"])
        size, answered = sent(shell, groups_of(ORDERS, KEYS))
        assert MAX_ANSWER_BYTES - LARGE - 60_000 < size < MAX_ANSWER_BYTES + 60_000
        assert 60 <= answered < 80
        assert instance.context.telemetry.counts["orders"].found - before.found == answered


def sent(shell: Router, groups: Sequence[Reads]) -> tuple[int, int]:
    """The size of the response, and how many of the reads it answers."""
    answer = shell.fast_path.reads_now(PlainPost(None, encode_reads([], groups)), LOOPBACK)
    assert answer.status == 200, answer.body
    decoded = decode_answers(answer.body, groups)
    answered = sum(size != ALONE for _, _, _, sizes, _ in decoded.keys for size in sizes)
    return len(answer.body), answered


class Watched:
    """A store that notes how many bytes each read returns."""

    def __init__(self, of: Any) -> None:
        self._of = of
        self.read: list[int] = []

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._of.get(key)
        self.read.append(len(found or b""))
        return found

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        found: list[bytes | None] = self._of.get_many(keys)
        self.read.append(sum(len(each or b"") for each in found))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


@pytest.mark.parametrize("partitions", [1, 3])
def test_large_values_are_not_all_read(tmp_path: Path, partitions: int) -> None:
    """Regression: the values of all reads were in memory before the limit was applied, also those
    that no response may have. 512 readers of one key can have as many copies of its value."""
    size = 300_000
    keys = KEYS[:20] * 25
    stored = dict.fromkeys(KEYS[:20], b'"%b"' % (b"x" * (size - 2)))
    with holding(tmp_path, ORDERS, stored, partitions) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        watched = []
        for number in range(partitions):
            store_partition = instance.context.store_partitions.get("orders", number)
            assert store_partition is not None
            watched.append(Watched(store_partition.store))
            store_partition.store = watched[-1]  # type: ignore[assignment]
        _, answered = sent(shell, groups_of(ORDERS, keys, partitions))
        assert answered == 0
        read = [each for store in watched for each in store.read]
        assert max(read) <= SLICE * (size + 16)
        most = partitions * (MAX_ANSWER_BYTES // LARGE + SLICE)
        assert sum(read) <= most * (size + 16), "each takes the place of a value of 64 KiB"


@pytest.mark.parametrize("value", ["json", "string"])
def test_a_large_value_among_small_ones(tmp_path: Path, value: str) -> None:
    stored = dict.fromkeys(KEYS, b'"small"') | {KEYS[70]: b'"%b"' % (b"x" * 300_000)}
    with holding(tmp_path, view(value=value), stored, 1) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        _, answered = sent(shell, groups_of(ORDERS, KEYS, 1))
    assert answered == len(KEYS) - 1
