"""A short form of the faults that tell most; `make faults` has all of them, at full length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.kafka.broker import Broker
from tests.faults.cluster import Cluster
from tests.faults.global_scenarios import GLOBAL, SCENARIOS
from tests.faults.stage import Result, perform

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker, tmp_path_factory.mktemp("faults")) as running:
        yield running


@pytest.mark.parametrize("name", ["kill-one", "hang-one"])
def test_no_answer_is_wrong_and_next_to_none_is_missing(cluster: Cluster, name: str) -> None:
    check(perform(SCENARIOS[name], cluster, seconds=1, rate=100))


@pytest.mark.parametrize("name", ["global-kill", "global-kill-two"])
def test_the_last_instance_of_a_global_view_answers_everything(
    tmp_path: Path, broker: Broker, name: str
) -> None:
    with Cluster(broker, tmp_path, GLOBAL) as cluster:
        check(perform(SCENARIOS[name], cluster, seconds=1, rate=100))


def check(result: Result) -> None:
    """No answer was wrong, and next to none is missing."""
    assert result.requests > 200
    assert (result.wrong, result.error) == (0, ""), result
    # several times what `make faults` allows: others use the machine, too
    assert result.failed <= result.requests / 100, result
    assert result.longest_silence_ms < 2_000, result
