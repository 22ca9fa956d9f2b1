"""The pure parts of the rows."""

from __future__ import annotations

import pytest

from bench.asking import Answer
from bench.rows.ingest import Sample, between
from bench.rows.proxy import static_location


def test_ingest_counts_between_two_looks() -> None:
    samples = [
        Sample(1.0, 0.9, 0, False),  # starting
        Sample(2.0, 1.0, 100, False),
        Sample(3.0, 2.0, 600, False),
        Sample(4.0, 2.5, 1100, True),
        Sample(5.0, 9.0, 1100, True),
    ]
    assert between(samples) == (1000, 2.0, 1.5)


def test_ingest_that_was_never_seen_under_way_is_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        between([Sample(1.0, 0.1, 0, False), Sample(2.0, 0.2, 50, True)])


def test_nginx_is_told_the_answer_with_its_quotes() -> None:
    answer = Answer(
        200,
        [("content-type", "application/json"), ("etag", '"a-1"'), ("content-length", "3")],
        b'{"a":"it\'s"}',
    )
    assert static_location(answer) == (
        'default_type application/json; add_header etag \'"a-1"\'; return 200 \'{"a":"it\\\'s"}\';'
    )
