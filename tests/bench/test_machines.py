"""The model of many machines."""

from __future__ import annotations

from typing import Any

import pytest

from bench.models.machines import BATCH, sizes, table
from bench.models.read_cost import batch_share, fit, points_of
from tests.bench.test_model import DOCUMENT


def _topology(instances: int, bytes: int) -> list[dict[str, Any]]:
    name = f"{instances}-instances-{10 * instances}-partitions"
    more = {"instances": instances, "partitions": 10 * instances, "bytes": bytes}
    return [
        {"name": f"leader-{name}", "connections": None, "p50_ms": instances / 10, "more": more},
        {"name": f"nginx-{name}", "connections": None, "rss_mb": instances / 100, "more": more},
    ]


WITH_TOPOLOGIES = {
    **DOCUMENT,
    "rows": [*DOCUMENT["rows"], *_topology(2_000, 40_000), *_topology(20, 400)],
}


def test_reads_follow_the_cost_of_a_read() -> None:
    found = fit(points_of(DOCUMENT))
    ten, hundred, thousand = sizes(DOCUMENT)
    assert (ten.machines, ten.backends) == (10, 20)
    assert ten.alone == pytest.approx(20 / found.cpu_us(1, 1_000_000) * 1e6)
    assert ten.together == pytest.approx(20 / found.cpu_us(BATCH, 1_000_000) * 1e6)
    assert hundred.alone == pytest.approx(10 * ten.alone)
    # 8 readers for each of 2 workers of nginx and 20 backends
    assert ten.connections == pytest.approx(8 * 2 * 20 / batch_share(DOCUMENT))
    assert thousand.placement is None
    assert thousand.groups is None


def test_the_metadata_of_a_group_limits_its_instances() -> None:
    ten, hundred, thousand = sizes(WITH_TOPOLOGIES)
    assert ten.placement is not None
    assert (ten.placement.bytes, ten.placement.leader_ms, ten.groups) == (400, 2.0, 1)
    # the next larger case that was measured
    assert hundred.placement is not None
    assert hundred.placement.instances == 2_000
    # 2,000 copies of 40 kB are 100 times as much as fits: a tenth of the instances in each
    assert thousand.groups == 10


def test_the_table_has_a_line_for_each_size() -> None:
    header, *lines = table(WITH_TOPOLOGIES)
    assert [len(line) for line in lines] == [len(header)] * 3
    assert lines[2][0] == "1,000"
    assert lines[2][-1] == "10"
    assert [line[-1] for line in table(DOCUMENT)[1:]] == [""] * 3
