"""Questions for the application, a backend and a replay, with answers in the same form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from tests.support.client import Client
from tests.support.reference.tables import base64url
from tests.system.streams.replay import KeyValues, Sessions, ViewVersions, Windows
from tests.system.streams.shop import ALL_KEYS, HOUR, MINUTE, STAGES, START

Replay = KeyValues | Windows | Sessions | ViewVersions

EVER = (START - 24 * HOUR, START + 24 * HOUR)
UNKNOWN_KEYS = ["no such key", "a\0\0", "key-"]


@dataclass(frozen=True)
class Question:
    store: str
    kind: str
    key: str
    first: int | None = None
    last: int | None = None
    as_of: int | None = None
    horizon: int = 0  # the least time (ms) that the key's store partition retains

    def to_application(self) -> dict[str, Any]:
        kind, first, last = self.kind, self.first, self.last
        if kind == "latest":
            kind = "version"
        if self._is_widened:
            assert first is not None
            first, last = max(first, self.horizon), EVER[1]
        asked = {"from": first, "to": last, "as_of": self.as_of}
        given = {name: time for name, time in asked.items() if time is not None}
        return {"ask": kind, "store": self.store, "key": self.key, **given}

    def from_application(self, answer: Any) -> Any:
        if self.kind == "latest":
            return value_of(answer)
        if self.kind.startswith("all-"):
            return sorted(answer)  # the application's order is arbitrary
        if self._is_widened:
            return [version for version in answer if version[0] <= self.last]
        return answer

    @property
    def _is_widened(self) -> bool:
        """Whether the range must be widened, because Kafka Streams 4.1 answers ranges incorrectly.

        It searches only the store's segments within the range, and segments have versions by their
        end: it misses versions that end later, and returns some that ended before the horizon. Its
        answer for the widest range is right."""
        return self.kind == "versions" and self.last is not None and self.last >= self.horizon

    def to_backend(self, client: Client, page: int) -> Any:
        """Asks a backend; reads lists in pages of `page` items."""
        asked = {"from": self.first, "to": self.last, "as_of": self.as_of}
        given = {name: str(time) for name, time in asked.items() if time is not None}
        if self.kind.startswith("all-"):
            resource = self.kind.removeprefix("all-").replace("values", "keys")
            return self._list(client, f"/views/{self.store}/{resource}", given, max(page, 60))
        key = quote(self.key, safe="")
        if "\0" in self.key:  # a path cannot contain it
            key, given["encoding"] = base64url(self.key.encode()), "base64url"
        path = f"/views/{self.store}/keys/{key}"
        if self.kind in ("value", "latest", "version"):
            return self._single(client, f"{path}?{urlencode(given)}")
        return self._list(client, f"{path}/{self.kind}", given, page)

    def _list(self, client: Client, path: str, given: dict[str, str], page: int) -> Any:
        items: list[list[Any]] = []
        given["limit"] = str(page)
        while True:
            answer = client.get(f"{path}?{urlencode(given)}")
            if answer.status != 200:
                return [answer.status, answer.code]
            document = answer.json()
            assert document.get("key") == (self.key or None)
            assert len(document["items"]) <= page
            items += [[item[name] for name in _FIELDS[self.kind]] for item in document["items"]]
            if document["next"] is None:
                return items
            given["cursor"] = document["next"]

    def _single(self, client: Client, path: str) -> Any:
        answer = client.get(path)
        if answer.status == 404:
            return [] if self.kind == "version" else None
        if answer.status == 410:
            return [OUTSIDE, answer.json()["history_from"]]
        if answer.status != 200:
            return [answer.status, answer.code]
        if self.kind != "version":
            return answer.json()["value"]
        return [[answer.json()[name] for name in _FIELDS["versions"]]]

    def to_replay(self, replay: Replay) -> Any:
        if isinstance(replay, KeyValues):
            return replay.all() if self.kind == "all-values" else replay.value(self.key)
        if isinstance(replay, ViewVersions) and self.kind == "latest":
            return value_of(replay.version(self.key, EVER[1]))
        if isinstance(replay, ViewVersions) and self.kind == "version":
            assert self.as_of is not None
            return replay.version(self.key, self.as_of)
        first, last = (self.first or EVER[0], self.last or EVER[1])
        if isinstance(replay, Windows):
            if self.kind == "all-windows":
                return [[k, *w] for k in replay.all_keys() for w in replay.windows(k, first, last)]
            return replay.windows(self.key, first, last)
        if isinstance(replay, Sessions):
            if self.kind == "all-sessions":
                whole = [(k, s) for k in replay.all_keys() for s in replay.sessions(k, first, last)]
                return [[k, *s] for k, s in whole]
            return replay.sessions(self.key, first, last)
        return replay.versions(self.key, first, last)


def value_of(versions: list[list[Any]]) -> Any:
    """The value of the latest version; None if there is none."""
    return versions[0][2] if versions else None


OUTSIDE = "outside-history"
_FIELDS = {
    "windows": ("start", "sequence", "value"),
    "sessions": ("start", "end", "value"),
    "versions": ("valid_from", "valid_to", "value"),
    "all-values": ("key", "value"),
    "all-windows": ("key", "start", "sequence", "value"),
    "all-sessions": ("key", "start", "end", "value"),
}


def questions(store: str, kind: str, stage: int, replay: Replay) -> Iterator[Question]:
    """All questions of a stage: for each key the whole range and narrow ones, also at the horizon
    of the store; and for all keys together."""
    random = Random(f"{store} {stage}")
    if isinstance(replay, KeyValues):
        yield Question(store, "all-values", "")
    elif isinstance(replay, Windows):
        least = replay.horizon(ALL_KEYS[0])
        for first, last in (EVER, *_ranges(random, stage, least)):
            yield Question(store, "all-windows", "", first, last)
    elif isinstance(replay, Sessions):
        yield Question(store, "all-sessions", "")
    for key in (*ALL_KEYS, *UNKNOWN_KEYS):
        if isinstance(replay, KeyValues):
            yield Question(store, "value", key)
            continue
        horizon = replay.horizon(key)
        if kind == "sessions":
            yield Question(store, kind, key, horizon=horizon)
        for first, last in (EVER, *_ranges(random, stage, horizon)):
            yield Question(store, kind, key, first, last, horizon=horizon)
        if isinstance(replay, ViewVersions):
            yield Question(store, "latest", key, horizon=horizon)
            for moment in _moments(random, stage, replay, key):
                yield Question(store, "version", key, as_of=moment, horizon=horizon)


def _ranges(random: Random, stage: int, horizon: int) -> Iterator[tuple[int, int]]:
    last = STAGES[stage][1]
    for _ in range(1):
        first = last - random.randrange(3 * HOUR) // MINUTE * MINUTE
        yield first, first + random.choice((0, MINUTE, 10 * MINUTE, HOUR))
    if horizon > START:
        yield horizon - HOUR, horizon
        yield horizon - HOUR, horizon - 1
        yield horizon, horizon


def _moments(random: Random, stage: int, replay: ViewVersions, key: str) -> Iterator[int]:
    horizon = replay.horizon(key)
    if horizon > START:
        yield from (horizon - HOUR, horizon - 1, horizon, horizon + 1)
    yield STAGES[stage][1] - random.randrange(2 * HOUR)
    known = replay.versions(key, *EVER)
    for begins, ends, _ in random.sample(known, min(2, len(known))):
        yield from (begins - 1, begins, begins + 1)
        if ends is not None:
            yield from (ends - 1, ends)
