"""What a derived view is: where it comes from, and the functions that make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from spark.schemas import Decoder


@dataclass(frozen=True, slots=True)
class View:
    """A view topic derived from a raw topic.

    ``decoder`` says what is within the raw topic's records, and which are malformed.
    ``derive`` takes the well-formed ones and returns ``key`` and ``value`` (string or binary; null
    deletes), and ``bare_key`` where the partition is that of a part of the key. Its values are
    absolute, never a change to what was there: a micro-batch that is written twice then changes
    nothing.
    """

    name: str
    description: str
    source: str
    topic: str
    decoder: Decoder
    derive: Callable[[DataFrame], DataFrame]

    def result(self, records: DataFrame) -> DataFrame:
        """RAW_RECORD rows ► the rows of the view topic."""
        return self.derive(self.decoder.well_formed(records))

    def rejected(self, records: DataFrame) -> DataFrame:
        """RAW_RECORD rows ► those that are malformed, with their ``reason``."""
        return self.decoder.malformed(records)
