"""Times as other tools write them, in requests."""

from __future__ import annotations

import pytest

from model.times import NOT_A_TIME, WITHOUT_ZONE, parse_instant, parse_time
from tests.vectors import time_cases


@pytest.mark.parametrize(("text", "at"), time_cases.GOOD.items())
def test_the_usual_forms(text: str, at: int) -> None:
    assert parse_instant(text) == at
    assert parse_time(text) == at // 1000


@pytest.mark.parametrize("text", time_cases.WITHOUT_ZONE)
def test_a_time_without_a_zone_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{WITHOUT_ZONE.replace('+', '.')}$"):
        parse_instant(text)
    with pytest.raises(ValueError, match="no time zone"):
        parse_time(text)


@pytest.mark.parametrize("text", time_cases.BAD)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{NOT_A_TIME}$"):
        parse_instant(text)
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)
