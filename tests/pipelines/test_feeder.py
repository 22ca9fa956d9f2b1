"""The records that arrive while the job is killed."""

from __future__ import annotations

import pytest

from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.pipelines.feeder import Feeder
from tests.support.plugins.fixtures import MakeTopic


@pytest.mark.broker
def test_records_do_not_end_with_the_limit(broker: Broker, make_topic: MakeTopic) -> None:
    """Regression: without new records no view has micro-batches, and a long run was stuck."""
    make_topic(3, name="texts")
    feeder = Feeder(broker.bootstrap_servers, ["texts"], seed=1, rate=400, limit=100)
    with feeder:
        wait_until(lambda: feeder.sent >= 100, 10, "the limit")
        at_limit = feeder.sent
        wait_until(lambda: feeder.sent >= at_limit + 4, 20, "further records")
        assert at_limit <= 200
        feeder.paused.set()
