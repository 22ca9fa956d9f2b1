"""`make up` and `make demo` create and load nothing in the user's own Kafka by default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from local.commands import demo
from local.errors import LocalError
from local.kafka.connection import deployment_of
from local.settings import REPOSITORY, StackSettings
from local.spark_views import derived_views

OWN = "broker.example:9092"
IN_ORDER = tuple(
    entry.name for entry in deployment_of(REPOSITORY / "views.toml").views if entry.spark_view
)


@pytest.mark.parametrize(
    ("settings", "has_demo", "spark_views"),
    [
        ({}, True, IN_ORDER),
        ({"bootstrap_servers": OWN}, False, ()),
        ({"bootstrap_servers": OWN, "demo_data": "no"}, False, ()),
        ({"bootstrap_servers": OWN, "demo_data": "yes"}, True, IN_ORDER),
        ({"bootstrap_servers": OWN, "spark_views": "visits"}, False, ("visits",)),
    ],
)
def test_the_demos_data_are_for_the_embedded_kafka_or_by_setting(
    settings: Mapping[str, Any], has_demo: bool, spark_views: tuple[str, ...]
) -> None:
    given = StackSettings.model_validate(settings)
    assert given.has_demo == has_demo
    assert tuple(derived_views(given)) == spark_views


def test_the_demo_is_an_error_with_instructions(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    settings = StackSettings(bootstrap_servers=OWN, run_dir=run_dir)
    with pytest.raises(LocalError, match="QUERYABLE_DEMO_DATA=yes") as error:
        demo(settings, once=True)
    assert OWN in str(error.value)
    assert "make up" in str(error.value)
    assert not run_dir.exists()
