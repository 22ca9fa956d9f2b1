"""Changelogs of joins and of suppress."""

from __future__ import annotations

import pytest

from queryable.cli.inspection.internal_stores import internal_store
from queryable.cli.inspection.samples import SampledRecord
from tests.unit.queryable.cli.inspection.records import (
    NOW,
    SUBSCRIPTION,
    record,
)

PENDING = (b"\0\0\1\xa2\0A\x98\xca\1key-15", b"\1\0\0\0\1\0\0\0\3\1v0")


@pytest.mark.parametrize("pair", [SUBSCRIPTION, PENDING], ids=["foreign-key", "shared"])
def test_internal_stores_are_recognized_by_their_records(
    pair: tuple[bytes, bytes],
) -> None:
    """The records come from a real application (Kafka Streams 4.1)."""
    records = [record(pair[0], value=pair[1]), SampledRecord(0, NOW, pair[0], None, {})]
    assert "in an internal format" in internal_store("mine", records)
    other = record(b"a", value=b"x")
    assert internal_store("mine", [*records, other]) == ""
    assert internal_store("mine", []) == ""


@pytest.mark.parametrize("value", [(17).to_bytes(8, "big"), b"\0\1", b"\0\0\0\0\5" + bytes(13)])
def test_store_of_numbers_is_not_internal(value: bytes) -> None:
    """The keys are of `Serdes.Long()`; the values are counts, flags or short framed values."""
    records = [record((n + 1).to_bytes(8, "big"), value=value) for n in range(20)]
    assert internal_store("totals", records) == ""
