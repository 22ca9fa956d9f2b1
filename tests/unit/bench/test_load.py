"""The report of wrk's script, and the records that it reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from bench import load, records
from bench.load import Batches, reads_per_request
from local.errors import LocalError
from local.http import Answer
from model.views_file import parse_views


def test_last_line_of_the_output_counts() -> None:
    report = (
        '{"requests":20000,"duration_us":2000000,"refused":3,"unanswered":1,'
        '"p50_us":900,"p99_us":2500,"p99_9_us":10000}'
    )
    found = load.parse(f"Running 2s test @ http://127.0.0.1:1\n  1 threads\n{report}\n")
    assert found.values == {
        "requests": 20_000, "rps": 10_000, "p50_ms": 0.9, "p99_ms": 2.5, "p99_9_ms": 10.0,
    }  # fmt: skip
    assert found.wrong == ["of 20,000 requests, 3 were answered with an error and 1 not at all"]


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
        ("customers", tables[0].topic, tables[0].path),
        ("some", "bench-some", "/some"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 53, 20_000, 100_000])
def test_each_key_is_written_once(count: int) -> None:
    numbers = [records.number_at(position, count) for position in range(count)]
    assert sorted(numbers) == list(range(count))
    keys = [record.key for record in records.customers(count).records()]
    assert keys == [records.key(number) for number in numbers]


def test_keys_are_not_written_in_key_order() -> None:
    numbers = [records.number_at(position, 20_000) for position in range(20_000)]
    ascending = sum(a < b for a, b in pairwise(numbers))
    assert 0.3 < ascending / len(numbers) < 0.7


@dataclass
class _Proxy:
    """An nginx with these metrics."""

    metrics: str
    name = "proxy-1"

    def get(self, path: str, token: str) -> Answer:
        assert (path, token) == ("/proxy/metrics", "a token")
        return Answer(200, {}, self.metrics.encode())


def test_batches_are_parsed_from_the_metrics_of_nginx() -> None:
    metrics = (
        "# TYPE queryable_proxy_batch_reads histogram\n"
        'queryable_proxy_batch_reads_bucket{le="+Inf"} 3\n'
        "queryable_proxy_batch_reads_sum 70\nqueryable_proxy_batch_reads_count 3\n"
    )
    assert load.batches(cast(Any, _Proxy(metrics)), "a token") == Batches(3, 70)
    with pytest.raises(LocalError, match="proxy-1 does not return its metrics"):
        load.batches(cast(Any, _Proxy("")), "a token")


def test_a_read_outside_batches_counts_as_one_request() -> None:
    before = Batches(10, 100)
    assert reads_per_request(100, before, Batches(14, 196)) == 100 / (4 + 4)
    assert reads_per_request(100, before, before) == 1
    assert reads_per_request(90, before, Batches(15, 200)) == 18  # ten more were in flight
