"""A view of every kind of store, and the answers that a reader of them must get."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

from model.partitioner import partition_of
from tests.support.client import Response, key_path
from tests.support.plugins.fixtures import MakeTopic
from tests.support.read_loop import Judge
from tests.support.topics import Writer

PARTITIONS = 3
KEYS = ["one", "a/b", "東京", "four", "five", "six"]
MINUTE = 60_000
# brokers delete by record time, so it must not be too long ago
NOW = int(time.time() * 1000) // MINUTE * MINUTE - 60 * MINUTE

# view -> its fields without the topic
VIEWS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "everywhere": {"store": "global"},
    "memory": {"persistence": "memory"},
    "windows": {"store": "window", "window_size": "1m"},
    "sessions": {"store": "session"},
    "versions": {"store": "versioned"},
    "custom": {"store": "backend.storage.bloom_filter:BloomFilter", "persistence": "memory"},
}

_OF_VALUES = ("plain", "everywhere", "memory")


class Stores:
    """The topics of the views. `write` adds a round of records: 1, 2, …

    In views of values, each round also adds a key and deletes that of the round before.
    """

    def __init__(self, make_topic: MakeTopic, writer: Writer) -> None:
        self.writer = writer
        self.topics = {view: make_topic(PARTITIONS) for view in VIEWS}
        self.rounds = 0
        self.write()

    @property
    def views(self) -> dict[str, dict[str, str]]:
        """For views.toml."""
        return {view: {"topic": self.topics[view], **VIEWS[view]} for view in VIEWS}

    def write(self) -> None:
        """Write the next round: new values, and a new window, session and version of each key."""
        self.rounds += 1
        at = _minute(self.rounds)
        for view, topic in self.topics.items():
            records: list[tuple[bytes, bytes | None, int, int]] = []
            for key in KEYS:
                record_key = key.encode()
                if view == "windows":
                    record_key += struct.pack(">qi", at, 0)
                elif view == "sessions":
                    record_key += struct.pack(">qq", at, at)
                records.append((record_key, b"%d" % self.rounds, at, _home(key)))
            if view in _OF_VALUES:
                for key, value in ((_only(self.rounds - 1), None), (_only(self.rounds), b"1")):
                    records.append((key.encode(), value, at, _home(key)))
            self.writer.send_timed(topic, records)

    def expected(self, rounds: int = 0) -> dict[str, Any]:
        """Path -> the document that answers it after so many rounds (default: all); None: 404. The
        number of a count."""
        found: dict[str, Any] = {}
        rounds = rounds or self.rounds
        numbers = range(1, rounds + 1)
        for key in KEYS:
            for view in _OF_VALUES:
                found[key_path(view, key)] = {"key": key, "value": rounds}
            found[key_path("custom", key)] = {"key": key, "value": True}
            windows = [
                {"start": _minute(n), "end": _minute(n + 1), "sequence": 0, "value": n}
                for n in numbers
            ]
            sessions = [{"start": _minute(n), "end": _minute(n), "value": n} for n in numbers]
            versions = [
                {
                    "valid_from": _minute(n),
                    "valid_to": None if n == rounds else _minute(n + 1),
                    "value": n,
                }
                for n in numbers
            ]
            for view, items in (
                ("windows", windows),
                ("sessions", sessions),
                ("versions", versions),
            ):
                path = f"{key_path(view, key)}/{view}"
                found[path] = {"key": key, "items": items, "next": None}
        for view in _OF_VALUES:
            found[f"/views/{view}/count?exact=true"] = len(KEYS) + 1
            for number in range(1, self.rounds + 1):
                key = _only(number)
                is_last = number == rounds
                found[key_path(view, key)] = {"key": key, "value": 1} if is_last else None
        return found

    def judge(self, since: int = 0) -> Judge:
        """Accepts only the answers after round `since` or a later one (default: the last one), and
        503."""
        possible = [self.expected(n) for n in range(since or self.rounds, self.rounds + 1)]

        def wrong(path: str, answer: Response) -> str:
            if answer.status == 503 or any(
                is_answer(answer, expected[path]) for expected in possible
            ):
                return ""
            return f"not {possible[-1][path]}"

        return wrong

    def are_answers(self, get: Callable[[str], Response]) -> bool:
        """Whether `get(path)` has the answers of the last round, for all paths."""
        return all(is_answer(get(path), document) for path, document in self.expected().items())


def is_answer(answer: Response, expected: Any) -> bool:
    """`expected`: of `Stores.expected`."""
    if expected is None:
        return answer.status == 404 and answer.code == "key-not-found"
    if answer.status != 200:
        return False
    document = answer.json()
    return bool(document.get("count", document) == expected)


def _minute(number: int) -> int:
    return NOW + number * MINUTE


def _only(number: int) -> str:
    return f"only {number}"


def _home(key: str) -> int:
    home = partition_of("murmur2")
    assert home is not None
    return int(home(key.encode(), PARTITIONS))
