"""The tests of what `make attacks` measures: each kind of harm must be found."""

from __future__ import annotations

from tests.attacks.measuring import (
    FLOOR_MS,
    MAX_GROWTH_MB,
    Result,
    Sample,
    between,
    errors,
    p99_bound,
    p99_ms,
    parse,
    recovered_after,
)

RATE = 100.0


def reads(begin: float, end: float, seconds: float = 0.005, error: str = "") -> list[Sample]:
    """100 reads of keys per second."""
    return [
        Sample("point", begin + n / RATE, seconds, error) for n in range(int((end - begin) * RATE))
    ]


def result(**changes: object) -> Result:
    usual: dict[str, object] = {
        "attack": "proxy/a", "refused": True, "honest_p99_ms": 20.0, "baseline_p99_ms": 4.0,
        "honest_errors": 0, "peak_rss_mb": 500.0, "recovered_s": 0.0,
    }  # fmt: skip
    return Result(**{**usual, **changes})  # type: ignore[arg-type]


def test_lines_of_the_readers_are_parsed() -> None:
    assert parse("point 12.5 0.25 -") == Sample("point", 12.5, 0.25, "")
    assert parse("page 12.5 5.0 TimeoutError") == Sample("page", 12.5, 5.0, "TimeoutError")


def test_the_p99_is_of_the_reads_of_keys() -> None:
    samples = [*reads(0, 0.99), Sample("point", 1, 0.5, ""), Sample("page", 1, 9, "")]
    assert p99_ms(samples) == 5.0
    assert p99_ms([*samples, Sample("point", 1, 0.5, "")]) == 500.0
    assert p99_ms([]) == 0.0


def test_a_request_counts_if_it_was_in_progress() -> None:
    samples = [Sample("point", at, 1.0, "") for at in (0.0, 1.5, 2.5, 4.0)]
    assert between(samples, 2.0, 3.0) == samples[1:3]


def test_the_p99_may_be_five_times_the_baseline_or_a_floor() -> None:
    assert p99_bound(20.0) == 100.0
    assert p99_bound(1.0) == FLOOR_MS


def test_recovery_ends_with_the_last_slow_or_failed_requests() -> None:
    assert recovered_after(reads(10, 13), 10, 13, RATE, 25) == 0.0
    slow = [*reads(10, 11, 0.1), *reads(11, 13)]
    assert recovered_after(slow, 10, 13, RATE, 25) == 1.0
    failed = [*reads(10, 13), Sample("point", 11.3, 0.005, "503-overloaded")]
    assert recovered_after(failed, 10, 13, RATE, 25) == 1.5
    assert errors(failed) == {"503-overloaded": 1}


def test_readers_that_hang_have_not_recovered() -> None:
    """They print nothing until they get an answer."""
    assert recovered_after(reads(10, 11), 10, 13, RATE, 25) == 3.0
    assert recovered_after([], 10, 13, RATE, 25) == 3.0


def test_each_missed_target_is_named() -> None:
    assert result().missed == []
    assert result(refused=False).missed == ["not refused"]
    assert result(honest_errors=2).missed == ["2 honest errors"]
    assert result(honest_p99_ms=25.1).missed == ["honest p99 25 ms > 25"]
    assert result(growth_mb=MAX_GROWTH_MB + 1).missed == ["memory grew by 641 MB"]
    assert result(recovered_s=2.5).missed == ["recovered after 2.5 s"]


def test_the_file_has_the_fields_of_the_table_in_the_documentation() -> None:
    assert list(result().document()) == [
        "attack", "refused", "honest_p99_ms", "baseline_p99_ms", "honest_errors", "peak_rss_mb",
        "recovered_s",
    ]  # fmt: skip
