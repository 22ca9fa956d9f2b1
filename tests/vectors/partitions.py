"""The vectors of the partitioners: the files next to this one."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent


@cache
def vectors(name: str) -> tuple[list[int], list[bytes], list[list[int]]]:
    """Partition counts, keys, and each key's partition for each count."""
    text = (VECTORS / f"{name}.jsonl").read_text()
    lines: list[Any] = [json.loads(line) for line in text.splitlines()]
    keys = [
        bytes.fromhex(written)
        if isinstance(written, str)
        else bytes.fromhex(written["repeat"]) * written["times"]
        for written, _ in lines[1:]
    ]
    return lines[0]["partitions"], keys, [said for _, said in lines[1:]]
