"""A short form of the faults that tell most; `make faults` has all of them, at full length."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.kafka.broker import Broker
from tests.faults.cluster import Cluster
from tests.faults.scenarios import SCENARIOS
from tests.faults.stage import perform

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker, tmp_path_factory.mktemp("faults")) as running:
        yield running


@pytest.mark.parametrize("name", ["kill-one", "hang-one"])
def test_no_answer_is_wrong_and_next_to_none_is_missing(cluster: Cluster, name: str) -> None:
    result = perform(SCENARIOS[name], cluster, seconds=1, rate=100)
    assert result.requests > 200
    assert (result.wrong, result.error) == (0, ""), result
    # several times what `make faults` allows: others use the machine, too
    assert result.failed <= result.requests / 100, result
    assert result.longest_silence_ms < 2_000, result
