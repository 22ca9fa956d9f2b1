"""The kind of store behind a changelog, from record keys and topic configuration."""

from __future__ import annotations

import struct

import pytest

from model.times import DAY
from queryable.cli.inspection.inference import Confidence, Inference
from queryable.cli.inspection.stores import infer_store
from queryable.cli.inspection.view_fields import infer_view
from tests.unit.queryable.cli.inspection.records import (
    BOTH,
    COMPACT,
    HOUR,
    KEYS,
    NOW,
    record,
    sessions,
    windows,
)

# the last bytes of the bare key can look like times
BARE = {
    "text": [key.encode() for key in KEYS],
    "int32": [struct.pack(">i", n) for n in (-1, 0, 5, 1 << 30)],
    "int64": [struct.pack(">q", n) for n in (-1, 0, 5, NOW)],
}


@pytest.mark.parametrize("keys", BARE.values(), ids=BARE)
def test_window_and_session_stores_are_distinguished(keys: list[bytes]) -> None:
    assert infer_store(BOTH, windows(HOUR, HOUR, keys)) == Inference(
        "window", Confidence.CERTAIN, "200 of 200 keys end like those of a window store"
    )
    result = infer_store(BOTH, sessions(keys))
    assert (result.value, result.confidence) == ("session", Confidence.CERTAIN)


def test_topic_configuration_shows_the_other_stores() -> None:
    plain = [record(key.encode()) for key in KEYS]
    assert infer_store(COMPACT, plain).value == "key-value"
    versioned = {**COMPACT, "min.compaction.lag.ms": str(2 * HOUR + DAY)}
    assert infer_store(versioned, plain).value == "versioned"
    assert infer_view(1, versioned, plain)["retention"].value == "2h"
    duplicates = {"cleanup.policy": "delete", "retention.ms": str(3 * HOUR + DAY)}
    points = [record(k.encode() + struct.pack(">qi", NOW, n)) for n, k in enumerate(KEYS)]
    result = infer_view(1, duplicates, points)
    assert (result["store"].value, result["window_size"].value) == ("window", None)
    # the supplier's retention is not in the topic: too short a retention would hide entries
    assert (result["retention"].value, result["retention"].confidence) == (None, Confidence.GUESS)
    assert "is 3h, which is too short if a supplier" in result["retention"].reason
    assert "retention" not in infer_view(1, COMPACT, plain)
