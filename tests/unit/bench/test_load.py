"""The report of wrk's script, and the records that it reads."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from bench import load, records
from model.views_file import parse_views


def test_last_line_of_the_output_counts() -> None:
    report = (
        '{"requests":20000,"duration_us":2000000,"refused":3,"unanswered":1,'
        '"p50_us":900,"p90_us":1500,"p99_us":2500,"p99_9_us":10000}'
    )
    found = load.parse(f"Running 2s test @ http://127.0.0.1:1\n  1 threads\n{report}\n")
    assert found == load.LoadResult(20_000, 2.0, 3, 1, 0.9, 1.5, 2.5, 10.0)
    assert found.rps == 10_000


@pytest.mark.parametrize("output", ["", "unable to connect to 127.0.0.1:1\n", "{}"])
def test_other_output_is_an_error(output: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        load.parse(output)


@pytest.mark.parametrize("number", [0, 7, 123_456, 999_999])
def test_records_have_a_hundred_bytes_of_json(number: int) -> None:
    key, value = records.key(number), records.value(number)
    assert len(key) + len(value) == records.SIZE
    assert json.loads(value)["id"] == number


@pytest.mark.parametrize("size", [10, 11, 100, 10_000])
def test_values_have_the_given_size_and_are_json(size: int) -> None:
    table = records.Table("some", 10, value_size=size)
    assert len(table.value(3)) == size
    assert json.loads(table.value(3)) != json.loads(table.value(4))


def test_tables_are_declared_as_views() -> None:
    tables = [records.customers(1), records.Table("some", 10, partitions=64)]
    views = parse_views(records.views_toml(tables), "views.toml", Path.read_text).views
    assert [(view.name, view.topic, view.path) for view in views] == [
        ("customers", records.TOPIC, records.PATH),
        ("some", "bench-some", "/some"),
    ]


@pytest.mark.parametrize("count", [1, 53, 20_000, 100_000])
def test_each_key_is_written_once(count: int) -> None:
    numbers = [records.number_at(position, count) for position in range(count)]
    assert sorted(numbers) == list(range(count))


def test_keys_are_not_written_in_key_order() -> None:
    numbers = [records.number_at(position, 20_000) for position in range(20_000)]
    ascending = sum(a < b for a, b in pairwise(numbers))
    assert 0.3 < ascending / len(numbers) < 0.7
