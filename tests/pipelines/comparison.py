"""Compares two compacted topics, byte for byte. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.topics import Log

Table = dict[tuple[int, bytes], bytes]
"""What remains of a topic after compaction: value by partition and key."""

_MAX_EXAMPLES = 5


def compacted(logs: Sequence[Log]) -> Table:
    """The last value of each key in each partition, without deleted keys."""
    table: Table = {}
    for partition, log in enumerate(logs):
        for _, _, key, value in log.records:
            if value is None:
                table.pop((partition, key), None)
            else:
                table[partition, key] = value
    return table


@dataclass
class Differences:
    """Numbers of keys that differ, and examples."""

    missing: int = 0
    extra: int = 0
    changed: int = 0
    misplaced: int = 0
    examples: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.changed or self.misplaced)

    def __str__(self) -> str:
        names = ("missing", "extra", "changed", "misplaced")
        counts = ", ".join(f"{n} {name}" for name in names if (n := getattr(self, name)))
        return f"{counts}: {'; '.join(self.examples)}" if self else "equal"

    def _example(self, text: str) -> None:
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(text)


def differences(found: Table, wanted: Table) -> Differences:
    """A key in another partition than wanted is misplaced, not missing and extra."""
    result = Differences()
    elsewhere: dict[bytes, list[int]] = {}
    for partition, key in sorted(found.keys() - wanted.keys()):
        elsewhere.setdefault(key, []).append(partition)
    for partition, key in sorted(wanted.keys() - found.keys()):
        if elsewhere.get(key):
            other = elsewhere[key].pop()
            result.misplaced += 1
            result._example(f"{key!r} is in partition {other}, not {partition}")
        else:
            result.missing += 1
            result._example(f"{key!r} of partition {partition} is missing")
    for key, partitions in elsewhere.items():
        for partition in partitions:
            result.extra += 1
            result._example(f"{key!r} of partition {partition} is extra")
    for place in sorted(found.keys() & wanted.keys()):
        if found[place] != wanted[place]:
            result.changed += 1
            result._example(f"{place[1]!r} is {found[place]!r}, not {wanted[place]!r}")
    return result


def went_back(logs: Iterable[Log], rank: Callable[[bytes], object]) -> list[str]:
    """Records whose value is before an earlier value of the same key, by `rank`.

    For views whose values only grow. A later record may hide such a record, but readers saw it.
    """
    found = []
    for partition, log in enumerate(logs):
        highest: dict[bytes, object] = {}
        for offset, _, key, value in log.records:
            if value is None:
                continue
            at = rank(value)
            before = highest.get(key, at)
            if at < before:  # type: ignore[operator]
                found.append(f"{key!r} at {partition}:{offset}: {at!r} after {before!r}")
            else:
                highest[key] = at
    return found


def same_keys(found: Mapping[bytes, object], wanted: Mapping[bytes, object]) -> Differences:
    """Compares the keys alone: of dead letters, which name their records."""
    return differences({(0, key): b"" for key in found}, {(0, key): b"" for key in wanted})
