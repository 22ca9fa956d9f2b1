"""The model of many machines."""

from __future__ import annotations

from typing import Any

import pytest

from bench.models.machines import BATCH, sizes, table
from bench.models.read_cost import batch_share, fit, points_of
from tests.unit.bench.test_model import DOCUMENT


def _topology(instances: int, metadata_bytes: int) -> list[dict[str, Any]]:
    name = f"{instances}-instances-{10 * instances}-partitions"
    more = {"instances": instances, "partitions": 10 * instances, "metadata_bytes": metadata_bytes}
    return [
        {"name": f"leader-{name}", "connections": None, "p50_ms": instances / 10, "more": more},
        {"name": f"nginx-{name}", "connections": None, "rss_mb": instances / 100, "more": more},
    ]


WITH_TOPOLOGIES = {
    **DOCUMENT,
    "rows": [*DOCUMENT["rows"], *_topology(2_000, 1_000_000), *_topology(20, 14_000)],
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
    assert thousand.record_bytes is None


def test_the_record_of_a_group_grows_with_its_instances() -> None:
    ten, hundred, thousand = sizes(WITH_TOPOLOGIES)
    assert ten.placement is not None
    assert (ten.placement.metadata_bytes, ten.placement.leader_ms) == (14_000, 2.0)
    assert ten.record_bytes == 20 * (700 + 350)
    # the next larger case that was measured
    assert hundred.placement is not None
    assert hundred.placement.instances == 2_000
    assert thousand.record_bytes == 2_000 * (500 + 350)


def test_the_table_has_a_line_for_each_size() -> None:
    header, *lines = table(WITH_TOPOLOGIES)
    assert [len(line) for line in lines] == [len(header)] * 3
    assert lines[2][0] == "1,000"
    assert lines[2][-1] == "1.70 MB"
    assert [line[-1] for line in table(DOCUMENT)[1:]] == [""] * 3
