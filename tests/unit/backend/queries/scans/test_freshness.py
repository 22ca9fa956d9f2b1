"""Tests of the bounds of an answer that consists of several responses."""

from __future__ import annotations

import pytest

from backend.queries.routing import ReadOptions
from backend.queries.scans.freshness import Freshness
from backend.wire.scan import ScanResponse
from model.problems import Unavailable


@pytest.mark.parametrize("positions", [(100, 50), (50, 100)])
def test_each_page_includes_the_offset(positions: tuple[int, int]) -> None:
    """Regression: the position of the first page counted. A later page may be from a standby that
    lags, because the active does not answer any more."""
    freshness = Freshness()
    for position in positions:
        freshness.note(ScanResponse(positions={0: position, 1: 7}))
    freshness.check(ReadOptions(min_offsets={0: 49, 1: 6}))
    with pytest.raises(Unavailable) as refused:
        freshness.check(ReadOptions(min_offsets={0: 80}))
    assert (refused.value.code, refused.value.more["position"]) == ("not-up-to-offset", 50)
