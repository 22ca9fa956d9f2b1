"""The partitioner, inferred from keys that Java and librdkafka have partitioned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from queryable.cli.inspection.inference import Confidence
from queryable.cli.inspection.partitioners import infer_partitioner

VECTORS = Path(__file__).parents[4] / "vectors"


@pytest.mark.parametrize("name", ["murmur2", "crc32", "fnv1a"])
@pytest.mark.parametrize("column", [1, 2, 3])
def test_partitioners_of_java_and_librdkafka(name: str, column: int) -> None:
    lines = (VECTORS / f"{name}.jsonl").read_text().splitlines()
    partitions = json.loads(lines[0])["partitions"][column]
    placed = [
        (of[column], bytes.fromhex(key))
        for key, of in map(json.loads, lines[2:])
        if isinstance(key, str)
    ]
    assert infer_partitioner(placed[:200], partitions).value == name
    assert infer_partitioner(placed[:200], partitions).confidence is Confidence.CERTAIN
    # librdkafka's default partitioner puts the empty key into any partition
    assert infer_partitioner([*placed[:200], (0, b""), (1, b"")], partitions).value == name
    moved = [((placed[0][0] + 1) % partitions, placed[0][1]), *placed[1:200]]
    assert infer_partitioner(moved, partitions).value == "none"
    assert infer_partitioner(placed[:3], partitions).confidence is Confidence.GUESS
