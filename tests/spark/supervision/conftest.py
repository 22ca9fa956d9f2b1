"""A job whose view gets commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.controlled import ControlledRunner


@pytest.fixture
def runner(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> Iterator[ControlledRunner]:
    runner = ControlledRunner(session, broker.bootstrap_servers, make_topic, tmp_path)
    yield runner
    runner.close()
