from __future__ import annotations

import pytest

from tests.faults.flatness import Usage, growth, quarter

FLAT = Usage(200.0, 100, 40)


def rising(name: str, step: float) -> list[Usage]:
    values = {"memory_mb": 200.0, "handles": 100, "threads": 40}
    return [Usage(**{**values, name: values[name] + step * n}) for n in range(100)]


def test_constant_or_shrinking_usage_is_flat() -> None:
    assert growth([FLAT] * 40) == []
    assert growth([FLAT]) == []
    # a warm-up, and a single peak
    assert growth([Usage(100.0, 50, 20)] * 20 + [FLAT] * 59 + [Usage(500.0, 900, 90)]) == []
    assert growth(rising("memory_mb", -1.0)) == []


@pytest.mark.parametrize(("name", "step"), [("memory_mb", 1.0), ("handles", 0.5), ("threads", 0.1)])
def test_growth_is_reported(name: str, step: float) -> None:
    [grown] = growth(rising(name, step))
    assert grown.startswith(f"{name} grew from ")


def test_quarters_are_medians_and_minima_of_handles() -> None:
    assert quarter(rising("memory_mb", 1.0), 1).memory_mb == 237
    assert quarter(rising("handles", 1.0), 1).handles == 125


def test_temporary_handles_are_flat() -> None:
    faults = [FLAT, Usage(200.0, 300, 40), Usage(200.0, 300, 40)]
    assert growth([FLAT] * 60 + faults * 20) == []
