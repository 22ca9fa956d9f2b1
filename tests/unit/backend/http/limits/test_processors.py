"""How many reductions an instance runs at once."""

from __future__ import annotations

from backend.http.limits.processors import max_reductions


def test_one_processor_is_left_for_reads_of_keys() -> None:
    assert [max_reductions(count) for count in (1, 2, 3, 4, 5, 64)] == [3, 3, 4, 6, 8, 8]
