"""The pure parts of the rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.instance.settings import Settings
from backend.security.configuration import token_keys
from backend.security.tokens import TokenVerifier
from bench import records
from bench.references.servers import static_location
from bench.rows import pipelines, topology
from bench.rows.catching_up import Sample, between
from bench.rows.reads import TOKENS, create_tokens
from bench.stack import is_balanced
from local.http import Answer


def test_ingest_is_measured_between_two_samples() -> None:
    samples = [
        Sample(1.0, 0.9, 0, False),  # starting
        Sample(2.0, 1.0, 100, False),
        Sample(3.0, 2.0, 600, False),
        Sample(4.0, 2.5, 1100, True),
        Sample(5.0, 9.0, 1100, True),
    ]
    assert between(samples) == {"rps": 500.0, "cpu_us": 1500.0, "seconds": 2.0}


def test_ingest_without_a_sample_under_way_is_an_error() -> None:
    with pytest.raises(ValueError, match="too few"):
        between([Sample(1.0, 0.1, 0, False), Sample(2.0, 0.2, 50, True)])


def test_quotes_of_the_static_answer_are_escaped() -> None:
    answer = Answer(
        200,
        {"content-type": "application/json", "etag": '"a-1"', "content-length": "3"},
        b'{"a":"it\'s"}',
    )
    assert static_location(answer) == (
        'default_type application/json; add_header etag \'"a-1"\'; return 200 \'{"a":"it\\\'s"}\';'
    )


def test_tokens_of_the_benchmark_are_valid_and_as_large_as_real_ones(tmp_path: Path) -> None:
    made = create_tokens(tmp_path)
    lines = made.file.read_text().splitlines()
    assert len(set(lines)) == TOKENS
    assert lines[0] == made.first
    files = ("JWT_KEY_FILE", "CLUSTER_SECRET_FILE")
    given = {name.lower(): made.backend[f"QUERYABLE_{name}"] for name in files}
    keys = token_keys(Settings(auth="jwt", **given))
    assert keys is not None
    verifier = TokenVerifier(keys)
    for line in lines:
        assert 700 <= len(line) <= 800
        assert verifier.identity(line.encode()).may_read(records.VIEW)


def test_partitions_are_balanced_if_no_backend_has_two_more_than_another() -> None:
    def processors(*owned: list[int]) -> dict[str, object]:
        return {"views": {"v": {}}, "processors": [{"topicPartitions": {"v": p}} for p in owned]}

    assert is_balanced(processors([0, 3], [1], [2]))
    assert not is_balanced(processors([0, 3, 1], [], [2]))
    assert not is_balanced({"views": {"v": {}}, "processors": [*processors([0, 1])["processors"],  # type: ignore[misc]
                                                          {"topicPartitions": {}}]})  # fmt: skip


def test_the_cost_of_a_topology_is_measured(tmp_path: Path) -> None:
    leader, nginx = topology.subjects(9, 40, tmp_path / "processors.json")
    for subject in (leader, nginx):
        subject.measure()
    assert (leader.name, nginx.name) == (
        "leader-9-instances-40-partitions", "nginx-9-instances-40-partitions",
    )  # fmt: skip
    of_leader, of_nginx = (subject.row(None, {}).values for subject in (leader, nginx))
    assert 0 < of_leader["bytes"] < of_leader["metadata_bytes"]
    assert of_nginx["bytes"] > of_leader["bytes"]
    assert 0 < of_nginx["cpu_us"] < 1000
    # members that are left have kept what they had
    members = topology.after_losses(9, 40)
    assert len(members) == 9
    held = [partition for member in members for partition in member.active["orders"]]
    assert len(held) == len(set(held)) < 40


def test_only_departures_are_a_real_time_view() -> None:
    assert pipelines.views_toml(real_time=True).count('trigger = "real-time"') == (
        pipelines.views_toml().count('trigger = "real-time"') + 1
    )
