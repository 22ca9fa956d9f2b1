"""Results of calls: values, their source and their freshness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

# The types of keys and values in rows. Without `client.view(…, value=…)` both are Any. Python 3.13
# has defaults of type variables. Type checkers know them from typing_extensions, which need not be
# installed.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")


class Source:
    """The origin of an answer, and its freshness.

    The properties are read from the response headers on access.
    """

    __slots__ = ("_headers",)

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def _number(self, name: str) -> int | None:
        text = self._headers.get(name, "")
        return int(text) if text.isdecimal() else None

    @property
    def partition(self) -> int | None:
        """The partition that was read; None if several partitions were read."""
        return self._number("partition")

    @property
    def position(self) -> int | None:
        """The next offset that the instance will apply: the answer includes all records before."""
        return self._number("offset")

    @property
    def lag(self) -> int | None:
        """Records behind the end of the log; the maximum of several partitions. None: unknown."""
        return self._number("lag")

    @property
    def staleness(self) -> timedelta | None:
        """Time since the instance was last known to be caught up with the log; None: unknown."""
        ms = self._number("staleness")
        return None if ms is None else timedelta(milliseconds=ms)

    @property
    def plan(self) -> str | None:
        """How the entries of a query of a whole view were found, such as "index by-dest"."""
        return self._headers.get("plan")

    @property
    def examined(self) -> int | None:
        """The number of entries that were read for a query of a whole view."""
        return self._number("examined")

    @property
    def positions(self) -> str | None:
        """The next offset of each partition that was read, such as "0:454,1:422"; None if the query
        did not ask for them."""
        return self._headers.get("offsets")

    @property
    def pipeline_lag(self) -> int | None:
        """Records in the source topics that the pipeline has not processed yet; None: unknown, or
        the view does not name its pipeline."""
        return self._number("pipeline-lag")

    @property
    def pipeline_staleness(self) -> timedelta | None:
        """Time since the pipeline was last caught up; None: see `pipeline_lag`."""
        ms = self._number("pipeline-staleness")
        return None if ms is None else timedelta(milliseconds=ms)

    @property
    def pipeline_state(self) -> str | None:
        """starting, running, failed, stopped or unknown; None if the view names no pipeline."""
        return self._headers.get("pipeline-state")

    @property
    def version(self) -> int | None:
        """The version of the view; None if the view is not declared with versions."""
        return self._number("view-version")

    @property
    def definition(self) -> str | None:
        """The hash of the view's definition with which the answer was made."""
        return self._headers.get("view-definition")

    @property
    def served_by(self) -> str | None:
        """The instance that answered; the first of several. The instance that received the request
        is first if it read a partition."""
        return next(iter(self.instances), None)

    @property
    def instances(self) -> tuple[str, ...]:
        """All instances that answered, as far as the response names them. For a stream: those that
        answered its beginning."""
        return tuple(dict.fromkeys(instance for instance, _ in self._instances_and_roles()))

    @property
    def is_standby(self) -> bool:
        """Whether any instance answered as a standby."""
        return any(role == "standby" for _, role in self._instances_and_roles())

    def _instances_and_roles(self) -> list[tuple[str, str]]:
        """The pairs in the header `Served-By`, such as `b1; active, b2; standby, +3`."""
        parts = [part.strip() for part in self._headers.get("served-by", "").split(",")]
        pairs = [part.partition(";") for part in parts if part and not part.startswith("+")]
        return [(instance.strip(), role.strip()) for instance, _, role in pairs]

    @property
    def epoch(self) -> str | None:
        """The epoch of the instance's topology."""
        return self._headers.get("topology-epoch")

    @property
    def etag(self) -> str | None:
        return self._headers.get("etag")

    def __repr__(self) -> str:
        shown = ("partition", "position", "lag", "staleness", "served_by")
        return f"Source({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


Header = tuple[str, bytes | None]
"""The name and the value of a header of a record."""


class Answer(Source):
    """The answer to a point read: `key`, `value` and `found`. It is falsy if the key was not found.

    `valid_from` and `valid_to` (epoch ms) are set if the read was `as_of` a time.
    `timestamp` (epoch ms): the timestamp of the value's record; None if the record has none, or if
    it was not asked for in a batch. `headers`: the headers of the record, if they were asked for;
    None if the topic no longer has the record.
    """

    __slots__ = ("found", "headers", "key", "timestamp", "valid_from", "valid_to", "value")

    def __init__(
        self,
        headers: Mapping[str, str],
        key: Any,
        found: bool,
        value: Any = None,
        valid_from: int | None = None,
        valid_to: int | None = None,
        timestamp: int | None = None,
        record_headers: list[Header] | None = None,
    ) -> None:
        self._headers = headers
        self.key = key
        self.found = found
        self.value = value
        self.valid_from = valid_from
        self.valid_to = valid_to
        self.timestamp = self._number("record-timestamp") if timestamp is None else timestamp
        self.headers = record_headers

    def __bool__(self) -> bool:
        return self.found

    def __repr__(self) -> str:
        result = f"value={self.value!r}" if self.found else "not found"
        return f"Answer(key={self.key!r}, {result}, {super().__repr__()})"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The value of a row whose record is not in the view's format: the position of the record, and
    the reason. A read of the key alone raises ValueUnreadable."""

    partition: int
    offset: int
    reason: str

    @staticmethod
    def from_json(report: Mapping[str, Any]) -> Unreadable:
        return Unreadable(report["partition"], report["offset"], str(report["reason"]))

    def to_json(self) -> dict[str, Any]:
        return {"partition": self.partition, "offset": self.offset, "reason": self.reason}


class Entry(NamedTuple, Generic[K, V]):
    """A row of a scan or a ranking."""

    key: K
    value: V


class DatedEntry(NamedTuple):
    """A row of a scan with the timestamp of its record (epoch ms; None: the record has none)."""

    key: Any
    value: Any
    timestamp: int | None


class Ranking(list[Entry]):
    """Entries in the order of their rank. `unreadable`: the number of entries without a rank
    because their values cannot be read."""

    def __init__(self, entries: Iterable[Entry], source: Source, unreadable: int = 0) -> None:
        super().__init__(entries)
        self.source = source
        self.unreadable = unreadable


class Window(NamedTuple, Generic[K, V]):
    """Times are epoch ms; `end` is None if the view has no window size."""

    key: K
    start: int
    end: int | None
    sequence: int
    value: V


class Session(NamedTuple, Generic[K, V]):
    """Times are epoch ms."""

    key: K
    start: int
    end: int
    value: V


class Version(NamedTuple, Generic[K, V]):
    """A version of a key's value. Times are epoch ms; `valid_to` is None if it is still valid."""

    key: K
    valid_from: int
    valid_to: int | None
    value: V


class Change(NamedTuple, Generic[K, V]):
    """A key's new value, or its deletion. The value may be Unreadable.

    `partition` and `offset` are those of the record; offset -1: the partition was empty. `version`:
    the version of the view; None if the view is not declared with versions. `push`: the id of the
    push that the view's values were made from; None if there was no push. `timestamp` (epoch ms):
    the timestamp of the record, if timestamps were asked for and it has one.
    """

    key: K
    value: V
    is_deleted: bool
    partition: int
    offset: int
    version: int | None = None
    push: str | None = None
    timestamp: int | None = None


class Appended(NamedTuple):
    """The partition and the offset at which a record was written."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Count:
    """The number of entries; an estimate unless `is_exact`. `unreadable`: how many of an exact
    number have a value that cannot be read."""

    count: int
    is_exact: bool
    source: Source
    unreadable: int = 0

    def __int__(self) -> int:
        return self.count
