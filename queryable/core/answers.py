"""What comes back: values, with where they are from and how fresh they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple


class Source:
    """Where an answer is from, and how fresh it is; read from the answer's headers when asked."""

    __slots__ = ("_headers",)

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def _number(self, name: str) -> int | None:
        text = self._headers.get(name, "")
        return int(text) if text.isdecimal() else None

    @property
    def partition(self) -> int | None:
        """None where all partitions were asked."""
        return self._number("partition")

    @property
    def position(self) -> int | None:
        """The next offset that the partition will apply: all before is in the answer."""
        return self._number("offset")

    @property
    def lag(self) -> int | None:
        """Records behind the end of the log (of several partitions the greatest); None: unknown."""
        return self._number("lag")

    @property
    def staleness(self) -> timedelta | None:
        """Since it last was at a freshly fetched end of the log; None: unknown."""
        ms = self._number("staleness")
        return None if ms is None else timedelta(milliseconds=ms)

    @property
    def pipeline_lag(self) -> int | None:
        """Records in the view's source topics that are not in the view's topic yet; None: unknown,
        or the view does not name its pipeline."""
        return self._number("pipeline-lag")

    @property
    def pipeline_staleness(self) -> timedelta | None:
        """Since the pipeline had read all there was; None: as above."""
        ms = self._number("pipeline-staleness")
        return None if ms is None else timedelta(milliseconds=ms)

    @property
    def pipeline_state(self) -> str | None:
        """starting, running, failed, stopped or unknown; None where the view names no pipeline."""
        return self._headers.get("pipeline-state")

    @property
    def served_by(self) -> str | None:
        """The instance that has read; of several the first, which is the one that was asked if it
        has read anything itself."""
        return next(iter(self.instances), None)

    @property
    def instances(self) -> tuple[str, ...]:
        """All instances that have read, as far as the answer names them; of a stream those that
        have read its beginning."""
        return tuple(dict.fromkeys(instance for instance, _ in self._served_by()))

    @property
    def is_standby(self) -> bool:
        """Whether any of them has read as a standby."""
        return any(role == "standby" for _, role in self._served_by())

    def _served_by(self) -> list[tuple[str, str]]:
        """Instances and their roles, of `b1; active, b2; standby, +3`."""
        parts = [part.strip() for part in self._headers.get("served-by", "").split(",")]
        pairs = [part.partition(";") for part in parts if part and not part.startswith("+")]
        return [(instance.strip(), role.strip()) for instance, _, role in pairs]

    @property
    def epoch(self) -> str | None:
        """Of the map that the instance knows."""
        return self._headers.get("topology-epoch")

    @property
    def etag(self) -> str | None:
        return self._headers.get("etag")

    def __repr__(self) -> str:
        shown = ("partition", "position", "lag", "staleness", "served_by")
        return f"Source({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


class Answer(Source):
    """What a point read found: `key`, `value`, and whether it is there. False if it is not there.

    Of a versioned view asked `as_of` a time also from when to when it was valid (epoch ms).
    """

    __slots__ = ("found", "key", "valid_from", "valid_to", "value")

    def __init__(
        self,
        headers: Mapping[str, str],
        key: Any,
        found: bool,
        value: Any = None,
        valid_from: int | None = None,
        valid_to: int | None = None,
    ) -> None:
        self._headers = headers
        self.key = key
        self.found = found
        self.value = value
        self.valid_from = valid_from
        self.valid_to = valid_to

    def __bool__(self) -> bool:
        return self.found

    def __repr__(self) -> str:
        what = f"value={self.value!r}" if self.found else "not there"
        return f"Answer(key={self.key!r}, {what}, {super().__repr__()})"


class Entry(NamedTuple):
    """Of a scan or a ranking."""

    key: Any
    value: Any


class Ranking(list[Entry]):
    """Entries, the first one first."""

    def __init__(self, entries: Iterable[Entry], source: Source) -> None:
        super().__init__(entries)
        self.source = source


class Window(NamedTuple):
    """Times in epoch ms; `end` is None where the view does not say how long windows are."""

    key: Any
    start: int
    end: int | None
    sequence: int
    value: Any


class Session(NamedTuple):
    """Times in epoch ms."""

    key: Any
    start: int
    end: int
    value: Any


class Version(NamedTuple):
    """Valid from (epoch ms), and until; None: still."""

    key: Any
    valid_from: int
    valid_to: int | None
    value: Any


class Change(NamedTuple):
    """A key's new value, or that it was deleted; `partition` and `offset` are the record's (offset
    -1: nothing was there yet)."""

    key: Any
    value: Any
    is_deleted: bool
    partition: int
    offset: int


class Appended(NamedTuple):
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Count:
    """How many entries; an estimate unless `is_exact`."""

    count: int
    is_exact: bool
    source: Source

    def __int__(self) -> int:
        return self.count
