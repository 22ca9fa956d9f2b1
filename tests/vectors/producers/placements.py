"""Where the records of producers are: the files in this folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Placements:
    """The keys of one file, and by partition count the partition of each. `partitioner`: that of
    views which fits. `setting`: the producer's own partitioner, or `default`."""

    producer: str
    version: str
    setting: str
    partitioner: str
    keys: list[bytes]
    partitions: dict[int, list[int]]


@cache
def placements(name: str) -> Placements:
    header, *lines = map(json.loads, (HERE / f"{name}.jsonl").read_text().splitlines())
    texts: dict[str, Any] = {
        name: header[name] for name in ("producer", "version", "setting", "partitioner")
    }
    return Placements(
        **texts,
        keys=[bytes.fromhex(key) for key, _ in lines],
        partitions={
            count: [said[column] for _, said in lines]
            for column, count in enumerate(header["partitions"])
        },
    )
