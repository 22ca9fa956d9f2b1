"""The answers to coalesced reads have few bytes in all; further reads are sent separately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from backend.http.router import Router
from backend.wire.plain_requests import PlainPost
from backend.wire.point_batch import (
    ALONE,
    ASK_ALONE,
    LARGE,
    MAX_ANSWER_BYTES,
    Reads,
    encode_reads,
)
from tests.backend.http.point_reads.instances import holding
from tests.backend.http.point_reads.test_batched_keys import groups_of
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.requests import LOOPBACK
from tests.support.point_batch import decode_answers

KEYS = [b"key-%d" % n for n in range(200)]
VALUE = b'"%b"' % (b"x" * 60_000)  # 12 MB in all


def quoted(key: bytes) -> bytes:
    return key.replace(b"-", b"%2D")


READS = {
    "keys": groups_of(ORDERS, KEYS),
    "paths": [Reads(None, [b"/views/orders/keys/" + key for key in KEYS])],
    "one by one": [Reads(None, [b"/views/orders/keys/" + quoted(key) for key in KEYS[:100]])],
    "both": [*groups_of(ORDERS, KEYS[:50]),
             Reads(None, [b"/views/orders/keys/" + key for key in KEYS[50:]])],
}  # fmt: skip


@pytest.mark.parametrize("form", list(READS))
@pytest.mark.parametrize("value", ["json", "string"])
def test_answers_have_a_limit_in_bytes(tmp_path: Path, form: str, value: str) -> None:
    of = view(value=value)
    with holding(tmp_path, of, dict.fromkeys(KEYS, VALUE)) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        before = replace(shell._context.counts["orders"])
        groups = READS[form]
        size, answered = sent(shell, groups)
        assert MAX_ANSWER_BYTES - LARGE - 60_000 < size < MAX_ANSWER_BYTES + 60_000
        assert 60 <= answered < 80
        assert shell._context.counts["orders"].found - before.found == answered


def sent(shell: Router, groups: Sequence[Reads]) -> tuple[int, int]:
    """The size of the response, and how many of the reads it answers."""
    answer = shell.reads_now(PlainPost(None, encode_reads([], groups)), LOOPBACK)
    assert answer is not None
    assert answer.status == 200, answer.body
    decoded = decode_answers(answer.body, groups)
    of_keys = sum(size != ALONE for _, _, _, sizes, _ in decoded.keys for size in sizes)
    return len(answer.body), of_keys + sum(item != ASK_ALONE for item in decoded.items)
