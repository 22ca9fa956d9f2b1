"""What wrk's script says, and the records that it asks for."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from bench import load, records


def test_last_line_of_the_output_counts() -> None:
    said = (
        '{"requests":20000,"duration_us":2000000,"failed":3,'
        '"p50_us":900,"p99_us":2500,"p999_us":10000}'
    )
    found = load.parse(f"Running 2s test @ http://127.0.0.1:1\n  1 threads\n{said}\n")
    assert found == load.Load(20_000, 2.0, 3, 0.9, 2.5, 10.0)
    assert found.rps == 10_000


@pytest.mark.parametrize("output", ["", "unable to connect to 127.0.0.1:1\n", "{}"])
def test_anything_else_is_refused(output: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        load.parse(output)


@pytest.mark.parametrize("number", [0, 7, 123_456, 999_999])
def test_records_have_a_hundred_bytes_of_json(number: int) -> None:
    key, value = records.key(number), records.value(number)
    assert len(key) + len(value) == records.SIZE
    assert json.loads(value)["id"] == number


@pytest.mark.parametrize("count", [1, 53, 20_000, 100_000])
def test_each_key_comes_once(count: int) -> None:
    numbers = [records.in_log_order(position, count) for position in range(count)]
    assert sorted(numbers) == list(range(count))


def test_keys_do_not_come_in_their_order() -> None:
    numbers = [records.in_log_order(position, 20_000) for position in range(20_000)]
    ascending = sum(a < b for a, b in pairwise(numbers))
    assert 0.3 < ascending / len(numbers) < 0.7
