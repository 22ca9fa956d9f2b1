"""A derived view: its topics, and the functions that compute it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from spark.formats.decoders import Decoder


@dataclass(frozen=True, slots=True)
class View:
    """A view topic derived from a raw topic.

    ``decoder`` reads the records of ``source``. ``derive`` gets the well-formed ones and returns
    ``key`` and ``value`` (string or binary; a null value deletes the key), and ``bare_key`` if a
    part of the key determines the partition. Values are absolute, never increments, so writing a
    micro-batch twice gives the same view. ``partitions``: the number of partitions of the view
    topic if the local stack creates it. ``state_version``: raise it if the state of earlier
    checkpoints must not be used. Such a checkpoint is refused, as with an edited rule.
    """

    name: str
    description: str
    source: str
    topic: str
    decoder: Decoder
    derive: Callable[[DataFrame], DataFrame]
    partitions: int = 3
    state_version: int = 1

    def result(self, records: DataFrame) -> DataFrame:
        """RAW_RECORD rows ► the rows of the view topic."""
        return self.derive(self.decoder.well_formed(records))

    def rejected(self, records: DataFrame) -> DataFrame:
        """RAW_RECORD rows ► the malformed ones, with their ``reason``."""
        return self.decoder.malformed(records)
