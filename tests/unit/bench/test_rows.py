"""The pure parts of the rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from backend.instance.settings import Settings
from backend.security.configuration import token_keys
from backend.security.tokens import TokenVerifier
from bench import histograms, records
from bench.batches import Batches, parse, reads_per_request
from bench.http_client import Answer
from bench.plan import FULL, HUGE
from bench.references.redis_asgi import split_replies
from bench.rows import pipelines, tokens, topology
from bench.rows.factors import cases, is_balanced
from bench.rows.ingest import Sample, between
from bench.rows.reads import static_location
from local.errors import LocalError


def test_ingest_is_measured_between_two_samples() -> None:
    samples = [
        Sample(1.0, 0.9, 0, False),  # starting
        Sample(2.0, 1.0, 100, False),
        Sample(3.0, 2.0, 600, False),
        Sample(4.0, 2.5, 1100, True),
        Sample(5.0, 9.0, 1100, True),
    ]
    assert between(samples) == (1000, 2.0, 1.5)


def test_ingest_without_a_sample_under_way_is_an_error() -> None:
    with pytest.raises(ValueError, match="too few"):
        between([Sample(1.0, 0.1, 0, False), Sample(2.0, 0.2, 50, True)])


def test_quotes_of_the_static_answer_are_escaped() -> None:
    answer = Answer(
        200,
        [("content-type", "application/json"), ("etag", '"a-1"'), ("content-length", "3")],
        b'{"a":"it\'s"}',
    )
    assert static_location(answer) == (
        'default_type application/json; add_header etag \'"a-1"\'; return 200 \'{"a":"it\\\'s"}\';'
    )


def test_tokens_of_the_benchmark_are_valid_and_as_large_as_real_ones(tmp_path: Path) -> None:
    made = tokens.create(tmp_path)
    lines = made.many.read_text().splitlines()
    assert len(set(lines)) == tokens.MANY
    assert made.one.read_text() == f"{made.first}\n"
    files = ("JWT_KEY_FILE", "CLUSTER_SECRET_FILE")
    given = {name.lower(): made.backend[f"QUERYABLE_{name}"] for name in files}
    keys = token_keys(Settings(auth="jwt", **given))
    assert keys is not None
    verifier = TokenVerifier(keys)
    for line in lines:
        assert 700 <= len(line) <= 800
        assert verifier.identity(line.encode()).may_read(records.VIEW)


def test_cases_vary_one_factor_of_the_base() -> None:
    base, *others = cases(replace(FULL, huge=HUGE))
    assert base.more() == {
        "backends": 1, "keys": 100_000, "partitions": 6, "value_bytes": 100, "zipf": 0,
    }  # fmt: skip
    assert len({case.name for case in others}) == len(others) == 9
    for case in others:
        differing = {name for name, value in case.more().items() if value != base.more()[name]}
        if case.name == "proxy-values-10000":
            differing.discard("keys")  # documented: a tenth of them
        if case.filled:
            differing.discard("value_bytes")  # 84 bytes; 100 bytes with their key
        assert len(differing) == 1, case.name


def test_partitions_are_balanced_if_no_backend_has_two_more_than_another() -> None:
    def processors(*owned: list[int]) -> dict[str, object]:
        return {"views": {"v": {}}, "processors": [{"topicPartitions": {"v": p}} for p in owned]}

    assert is_balanced(processors([0, 3], [1], [2]))
    assert not is_balanced(processors([0, 3, 1], [], [2]))
    assert not is_balanced({"views": {"v": {}}, "processors": [*processors([0, 1])["processors"],  # type: ignore[misc]
                                                          {"topicPartitions": {}}]})  # fmt: skip


@pytest.mark.parametrize(
    ("received", "values", "left"),
    [
        (b"", [], b""),
        (b"$3\r\nabc\r\n$-1\r\n$0\r\n\r\n", [b"abc", None, b""], b""),
        (b"$1\r\na\r\n$4\r\nab", [b"a"], b"$4\r\nab"),
        (b"$4\r\nab\r\n", [], b"$4\r\nab\r\n"),  # a value may have a line end
        (b"$2", [], b"$2"),
    ],
)
def test_replies_of_redis_may_be_split_anywhere(
    received: bytes, values: list[bytes | None], left: bytes
) -> None:
    assert split_replies(received) == (values, left)


def test_an_error_of_redis_is_raised() -> None:
    with pytest.raises(ValueError, match="LOADING"):
        split_replies(b"-LOADING dataset\r\n")


def test_batches_are_parsed_from_the_metrics_of_nginx() -> None:
    metrics = (
        "# TYPE queryable_proxy_batch_reads histogram\n"
        'queryable_proxy_batch_reads_bucket{le="+Inf"} 3\n'
        "queryable_proxy_batch_reads_sum 70\nqueryable_proxy_batch_reads_count 3\n"
    )
    assert parse(metrics) == Batches(3, 70)
    with pytest.raises(ValueError, match="no queryable"):
        parse("")


def test_a_read_outside_batches_counts_as_one_request() -> None:
    before = Batches(10, 100)
    assert reads_per_request(100, before, Batches(14, 196)) == 100 / (4 + 4)
    assert reads_per_request(100, before, before) == 1
    assert reads_per_request(90, before, Batches(15, 200)) == 18  # ten more were in flight


def test_the_cost_of_a_topology_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "CASES", ((9, 40),))
    stack = cast(Any, SimpleNamespace(folder_of=lambda name: tmp_path))
    first, (leader, nginx) = topology.measure(stack, cast(Any, SimpleNamespace(rounds=2)))
    assert [row.rounds for row in first] == [1, 1]
    assert leader.rounds == nginx.rounds == 2
    assert (leader.name, nginx.name) == (
        "leader-9-instances-40-partitions", "nginx-9-instances-40-partitions",
    )  # fmt: skip
    assert 0 < leader.more["bytes"] < leader.more["metadata_bytes"]
    assert nginx.more["bytes"] > leader.more["bytes"]
    assert nginx.cpu_us is not None
    assert 0 < nginx.cpu_us < 1000
    # members that are left have kept what they had
    members = topology.after_losses(9, 40)
    assert len(members) == 9
    held = [partition for member in members for partition in member.active["orders"]]
    assert len(held) == len(set(held)) < 40


def test_histograms_are_those_of_point_reads_of_all_series() -> None:
    def lines(name: str, labels: str, *counts: tuple[str, int]) -> str:
        return "".join(f'{name}_bucket{{{labels},le="{le}"}} {n}\n' for le, n in counts)

    name = "queryable_proxy_request_duration_seconds"
    counts = histograms.parse(
        lines(name, 'route="key",role="active"', ("0.0001", 3), ("0.0001096", 5), ("+Inf", 6))
        + lines(name, 'route="key",role="standby"', ("0.0001", 1), ("0.0001096", 1), ("+Inf", 1))
        + lines(name, 'route="count",role="active"', ("0.0001", 9), ("+Inf", 9))
        + f'{name}_count{{route="key",role="active"}} 6\n'
    )
    assert counts[:2] == [4, 2]
    assert histograms.quantile_ms([4, 4, *[0] * (len(counts) - 2)], 0.5) == pytest.approx(0.1)


def test_latencies_of_pipelines_are_kept_without_their_reference() -> None:
    def fail() -> list[float]:
        raise LocalError("no result of a record after 20 s")

    found = pipelines.Latencies(pipelines.KINDS[1])
    found.theirs.measure(lambda: [4.0, 5.0])
    assert [row.rounds for row in found.rows()] == [0, 1, 0]
    found.ours.measure(lambda: [100.0, 300.0])
    found.real_time.measure(lambda: [20.0, 30.0])
    ours, theirs, real_time = found.rows()
    assert (ours.p50_ms, theirs.p50_ms, real_time.p50_ms) == (200.0, 4.5, 25.0)
    assert [each.met for each in ours.beside] == [True, None]
    assert [each.met for each in real_time.beside] == [True, None]
    found = pipelines.Latencies(pipelines.KINDS[1])
    found.theirs.measure(fail)
    found.ours.measure(lambda: [100.0, 300.0])
    ours, theirs, _ = found.rows()
    assert theirs.failure == "no result of a record after 20 s"
    assert [each.ratio for each in ours.beside] == [None, None]
    assert [each.met for each in ours.beside] == [True, None]
