"""Durations in the syntax of views.toml."""

from __future__ import annotations

from model.times import parse_duration
from queryable.cli.inspection.durations import DAY, duration_text
from tests.unit.queryable.cli.inspection.records import (
    HOUR,
)


def test_durations_are_valid_in_views_toml() -> None:
    for ms in (1, 999, 1000, 90_000, HOUR, 36 * HOUR, DAY):
        assert parse_duration(duration_text(ms)) == ms
    # durations in views.toml have nine digits at most: longer ones are rounded up
    assert parse_duration(duration_text(1_234_567_891)) == 1_234_568_000
