"""Short versions of the most important scenarios; `make faults` runs all, at full length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.kafka.broker import Broker
from tests.faults.cluster import Cluster
from tests.faults.global_scenarios import GLOBAL, SCENARIOS
from tests.faults.runner import Result, run_on


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker, tmp_path_factory.mktemp("faults")) as running:
        yield running


@pytest.mark.parametrize("name", ["kill-one", "hang-one"])
def test_no_answer_is_wrong_and_few_requests_fail(cluster: Cluster, name: str) -> None:
    check(run_on(SCENARIOS[name], cluster, seconds=1, rate=100))


@pytest.mark.parametrize("name", ["global-kill", "global-kill-two"])
def test_the_last_instance_of_a_global_view_answers_everything(
    tmp_path: Path, broker: Broker, name: str
) -> None:
    with Cluster(broker, tmp_path, GLOBAL) as cluster:
        check(run_on(SCENARIOS[name], cluster, seconds=1, rate=100))


def check(result: Result) -> None:
    """No answer is wrong, and few requests failed."""
    assert result.requests > 200
    assert (result.wrong, result.error) == (0, ""), result
    # several times the targets of `make faults`, because other processes use the machine
    assert result.failed <= result.requests / 100, result
    assert result.longest_silence_ms < 2_000, result
