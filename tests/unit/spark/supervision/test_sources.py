"""Options of Spark's Kafka source."""

from __future__ import annotations

from typing import Any, Self

import pytest

from spark.sources import Kafka, raw_records, static_records

WAIT = "kafka.fetch.max.wait.ms"


class Reader:
    """Takes the options of a reader, as Spark's readers do."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.readStream = self.read = self

    def format(self, _: str) -> Self:
        return self

    def options(self, **options: str) -> Self:
        self.given |= options
        return self

    def option(self, name: str, value: Any) -> Self:
        self.given[name] = value
        return self

    def load(self) -> Self:
        return self

    def select(self, *_: str) -> Self:
        return self


@pytest.mark.parametrize(
    ("most", "options", "expected"),
    [(1000, {}, "5"), (1000, {"fetch.max.wait.ms": "50"}, "50"), (None, {}, None)],
    ids=["a task does not wait for later records", "a given value wins", "real-time mode waits"],
)
def test_how_long_the_broker_waits_for_records(
    most: int | None, options: dict[str, str], expected: str | None
) -> None:
    reader: Any = Reader()
    raw_records(reader, "t", Kafka("b:1", options), most)
    assert reader.given.get(WAIT) == expected
    limit = None if most is None else str(most)
    assert reader.given.get("maxOffsetsPerTrigger") == limit


def test_a_batch_job_does_not_wait_for_later_records() -> None:
    reader: Any = Reader()
    static_records(reader, "t", Kafka("b:1"), "{}")
    assert reader.given[WAIT] == "5"
