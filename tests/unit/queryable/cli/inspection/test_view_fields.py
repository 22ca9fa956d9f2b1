"""Window sizes and other fields of a view, from the records of a changelog."""

from __future__ import annotations

import struct
from random import Random

import pytest

from model.times import DAY, duration_text
from queryable.cli.inspection.inference import Confidence
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.inspection.view_fields import infer_view
from tests.unit.queryable.cli.inspection.records import (
    BOTH,
    COMPACT,
    HOUR,
    MINUTE,
    NOW,
    record,
    windows,
)


def test_fields_of_an_empty_topic_are_uncertain() -> None:
    for config in (COMPACT, BOTH):
        result = infer_view(3, config, [])
        unsure = {
            name for name, each in result.items() if each.confidence is not Confidence.CERTAIN
        }
        assert {"key", "value", "partitioner"} <= unsure
    assert result["store"].confidence is Confidence.GUESS


@pytest.mark.parametrize(
    ("size", "advance", "expected"),
    [(10 * MINUTE, 10 * MINUTE, "10m"), (30 * MINUTE, 10 * MINUTE, "30m"), (DAY, HOUR, "1d")],
)
def test_window_size(size: int, advance: int, expected: str) -> None:
    result = infer_view(1, BOTH, windows(size, advance, [b"a"], 1000))["window_size"]
    assert (result.value, result.confidence) == (expected, Confidence.LIKELY)


def sliding(difference: int, count: int = 200) -> list[SampledRecord]:
    """As in a real application: each record ends a window, and is in windows of later records."""
    random = Random(7)
    times = sorted(NOW + random.randrange(30 * difference) for _ in range(count))
    result = []
    for number, time in enumerate(times):
        result.append(record(b"a" + struct.pack(">qi", time - difference, 0), time))
        for before in times[max(0, number - 5) : number]:
            if before + 1 + difference >= time:
                result.append(record(b"a" + struct.pack(">qi", before + 1, 0), time))
    return result


@pytest.mark.parametrize("difference", [3 * MINUTE, 1500, HOUR])
def test_size_of_sliding_windows_is_their_time_difference(difference: int) -> None:
    result = infer_view(1, BOTH, sliding(difference))["window_size"]
    assert (result.value, result.confidence) == (duration_text(difference), Confidence.LIKELY)


def test_window_size_below_a_second() -> None:
    result = infer_view(1, BOTH, windows(500, 500, [b"a"], 1000))["window_size"]
    assert result.value == "500ms"


def test_points_in_time_have_no_window_size() -> None:
    points = [record(b"k" + struct.pack(">qi", NOW + n, 0), NOW + n) for n in range(30)]
    assert infer_view(1, BOTH, points)["window_size"].value is None
