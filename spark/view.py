"""A derived view: its topics, and the functions that compute it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark.errors import JobError
from spark.formats.decoders import Decoder
from spark.triggers import REAL_TIME, milliseconds

OUTPUT_MODES = ("update", "append")


@dataclass(frozen=True, slots=True)
class Source:
    """A topic that a view reads, and the decoder of its records.

    A topic is read as a stream. With ``static``, ``derive`` gets a table that does not change: all
    records that the topic had when the view was started for the first time. If the topic gets
    another record, the view fails: its results would depend on when they were computed. To follow
    the changes of a topic with reference data, use ``spark.joins``.
    """

    topic: str
    decoder: Decoder
    static: bool = False

    @property
    def lateness_s(self) -> int | None:
        """How many seconds an event may be late, so that state can be freed. None if any event
        counts, and for records without an event time."""
        bounds = self.decoder.event_time
        return None if self.static or bounds is None else bounds.before


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view topic derived from raw topics, or from other views' topics.

    ``source`` and ``decoder`` name its topic; a view of several topics has ``sources`` instead.
    ``derive`` gets the well-formed records of each source, in the order of the sources. It returns
    ``key`` and ``value`` (string or binary; a null value deletes the key), and ``bare_key`` if a
    part of the key determines the partition. Values are absolute, never increments, so writing a
    micro-batch twice gives the same view.

    ``name`` and ``topic``: as in the view's entry in views.toml, if it has one. Otherwise the name
    of the file, and the name of the view. ``partitions`` and ``topic_config`` are for a topic that
    does not exist yet. ``output_mode``: Spark's; ``append`` is for joins of two streams.
    ``trigger``: ``"real-time"`` for Spark's real-time mode (``spark.realtime``), or the least time
    between two micro-batches, such as ``"5 seconds"``; by default the job's ``--trigger``.
    ``revision``: a number that you raise when the view's results change. A checkpoint of another
    revision is refused. Without a revision, a checkpoint is refused if the view's code was edited.
    ``module``: the name of the module that has the view, and ``table``: the normal form of its
    table in views.toml; ``spark.discovery`` sets one of them.
    """

    name: str = ""
    description: str = ""
    source: str = ""
    decoder: Decoder | None = None
    sources: tuple[Source, ...] = ()
    topic: str = ""
    derive: Callable[..., DataFrame]
    partitions: int = 3
    topic_config: Mapping[str, str] = field(default_factory=dict)
    output_mode: str = "update"
    revision: int | None = None
    trigger: str = ""
    module: str = ""
    table: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if bool(self.sources) == bool(self.source and self.decoder):
            raise ValueError("a view needs either source and decoder, or sources")
        if self.output_mode not in OUTPUT_MODES:
            raise ValueError(f"output_mode {self.output_mode!r}: use {' or '.join(OUTPUT_MODES)}")
        if self.trigger not in ("", REAL_TIME) and milliseconds(self.trigger) is None:
            raise ValueError(f'trigger {self.trigger!r}: use "real-time" or "5 seconds"')
        if self.revision is not None and (type(self.revision) is not int or self.revision < 1):
            raise ValueError(f"revision {self.revision!r}: use a whole number from 1")
        topics = [source.topic for source in self.inputs]
        if len({*topics}) < len(topics):
            raise ValueError("two sources have the same topic; derive may use one source twice")
        if all(source.static for source in self.inputs):
            raise ValueError("all sources are static; at least one must be a stream")

    @property
    def inputs(self) -> tuple[Source, ...]:
        """All sources, as a tuple even if there is only one."""
        if self.sources or self.decoder is None:
            return self.sources
        return (Source(self.source, self.decoder),)

    @property
    def streams(self) -> tuple[Source, ...]:
        """The sources that are streams."""
        return tuple(source for source in self.inputs if not source.static)

    @property
    def has_watermark(self) -> bool:
        """Whether the job frees state of the view that no record can change any more."""
        return any(source.lateness_s is not None for source in self.inputs)

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The topics of all sources."""
        return tuple(source.topic for source in self.inputs)

    def result(self, *records: DataFrame) -> DataFrame:
        """RAW_RECORD rows of each source ► the rows of the view topic."""
        pairs = zip(self.inputs, records, strict=True)
        return self.derive(*(source.decoder.well_formed(rows) for source, rows in pairs))

    def rejected(self, *records: DataFrame) -> DataFrame:
        """RAW_RECORD rows of each source ► the malformed ones of streams, with their ``reason``."""
        pairs = zip(self.inputs, records, strict=True)
        malformed = [source.decoder.malformed(rows) for source, rows in pairs if not source.static]
        return reduce(DataFrame.unionByName, malformed)


def derived_rows(view: View, records: Sequence[DataFrame]) -> DataFrame:
    """As ``View.result``. Raises ``JobError`` if the function of the view raises, so that other
    views continue; errors of Spark are passed on."""
    with only_of_view(view, "derive"):
        return view.result(*records)


@contextmanager
def only_of_view(view: View, what: str) -> Iterator[None]:
    """Raises ``JobError`` if the view's own code raises an error that is not Spark's."""
    try:
        yield
    except (PySparkException, Py4JError, JobError):
        raise
    except Exception as error:
        raise JobError(f"{view.name}: {what}: {type(error).__name__}: {error}") from error
