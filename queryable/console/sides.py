"""One of the deployments that `diff` compares: its rows, all or some, and how fresh they were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any

from queryable import BadUse, Client, Entry, QueryableError, Rows, Source
from queryable.console.differences import Row, identity_of, is_ordered
from queryable.console.places import between

STORES = ("key-value", "versioned", "window", "session")
_SMALL = 100_000
"""Entries of a view that is read as a whole to sample it: it takes less than a second."""

_PLACES = 100


class Side:
    """`about`: the view as this deployment describes it. All methods raise QueryableError, with
    the deployment's URL before what it says."""

    def __init__(self, url: str, client: Client, view: str) -> None:
        self.url = url
        self._client = client
        with self._named():
            self.about = client.view(view)
        read: dict[str, Callable[..., Rows[Any]]] = {
            "window": client.windows,
            "session": client.sessions,
        }
        self._is_timed = self.about.store in read
        self._read: Callable[..., Rows[Any]] = read.get(self.about.store, client.scan)
        if self.about.store not in STORES:
            raise BadUse(f"{url}: view {view} has a store of one's own, which cannot be compared.")
        self.lag: int | None = 0
        self.staleness: timedelta | None = timedelta(0)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except QueryableError as error:
            error.args = (f"{self.url}: {error}",)
            raise

    def note(self, source: Source | None) -> None:
        """The worst of all counts; None (unknown) is worse than any."""
        if source is None:
            return
        lag, staleness = source.lag, source.staleness
        self.lag = None if lag is None or self.lag is None else max(lag, self.lag)
        unknown = staleness is None or self.staleness is None
        self.staleness = None if unknown else max(staleness, self.staleness)  # type: ignore[type-var]

    def freshness(self) -> dict[str, Any]:
        ms = None if self.staleness is None else self.staleness // timedelta(milliseconds=1)
        return {"url": self.url, "lag": self.lag, "staleness_ms": ms}

    # --- rows

    def rows(self, **how: Any) -> Iterator[Row]:
        """In the order of their keys."""
        with self._named():
            rows = self._read(self.about.name, **{"stream": True, **how})
            for n, row in enumerate(rows):
                if n % 1000 == 0:
                    self.note(rows.source)
                yield row
            self.note(rows.source)

    def now(self, rows: Sequence[Row]) -> list[Row | None]:
        """What is there by now in their places."""
        with self._named():
            if not self._is_timed:
                answers = self._client.get_many(self.about.name, [row.key for row in rows])
                return [Entry(a.key, a.value) if a.found else None for a in answers]
            return [self._timed(row) for row in rows]

    def _timed(self, row: Row) -> Row | None:
        times = {"from_": row.start, "to": row.start}
        if self.about.store == "session":
            times["to"] = row.end
        found = self._read(self.about.name, row.key, **times)
        return next((each for each in found if identity_of(each) == identity_of(row)), None)

    # --- some of them

    def sample(self, count: int, dice: Random, read: Callable[[], None]) -> list[Row]:
        """So many, or all if there are fewer. Of small views, and of keys without an order that
        can be named: each with the same chance; else some in a row from places between the first
        key and the last."""
        with self._named():
            entries = int(self._client.count(self.about.name))
        if entries <= max(_SMALL, 10 * count) or not is_ordered(self.about):
            return _reservoir(self.rows(), count, dice, read)
        places = min(count, _PLACES)
        each = -(-count // places)
        page = {"stream": False, "page": min(each, 1000)}
        ends = [
            [row.key for row in self.rows(order=order, limit=100, stream=False)]
            for order in ("asc", "desc")
        ]
        keys = [key for some in ends for key in some]
        first = "key_from" if self._is_timed else "from_"
        found = {}
        for _ in range(places if keys else 0):
            place = between(ends[0][0], ends[1][0], keys, dice)
            for row in self.rows(**{first: place}, limit=each, **page):
                found[identity_of(row)] = row
                read()
        return list(found.values())[:count]


def _reservoir(
    rows: Iterable[Row], count: int, dice: Random, read: Callable[[], None]
) -> list[Row]:
    """Vitter's algorithm R: "Random Sampling with a Reservoir" (1985)."""
    kept: list[Row] = []
    for n, row in enumerate(rows):
        read()
        if n < count:
            kept.append(row)
        elif (place := dice.randrange(n + 1)) < count:
            kept[place] = row
    return kept
