"""A view of a deployment that `diff` or `compare` compares: rows, a sample of them, freshness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any

from model.kinds.registry import kind_of
from queryable import BadUse, Client, Entry, QueryableError, Source
from queryable.cli.diff.matching import Row, identity_of, is_ordered
from queryable.cli.diff.sampling import random_key
from queryable.cli.queries import listing_of

_SMALL = 100_000
"""A view with up to this many entries is sampled by reading all of it, in less than a second."""

_RANGES = 100
"""Number of positions from which the sample of a larger view is read."""


class DiffSource:
    """A view of a deployment. All methods raise QueryableError; its text begins with the label."""

    def __init__(self, url: str, client: Client, view: str, by_name: bool = False) -> None:
        """`by_name`: the label is the name of the view, not the URL of the deployment."""
        self.label = view if by_name else url
        self._field = "view" if by_name else "url"
        self._client = client
        with self._labelled():
            self.view = client.view(view)
        self._is_timed = not kind_of(self.view.store).has_points
        self._query = listing_of(client, self.view)
        if kind_of(self.view.store).is_custom:
            raise BadUse(f"{self.label}: view {view} has a custom store, which cannot be compared.")
        self._lag: int | None = 0
        self._staleness: timedelta | None = timedelta(0)

    @contextmanager
    def _labelled(self) -> Iterator[None]:
        try:
            yield
        except QueryableError as error:
            error.args = (f"{self.label}: {error}",)
            raise

    def _note_freshness(self, source: Source | None) -> None:
        """Keeps the worst values; None (unknown) is worse than any number."""
        if source is None:
            return
        lag, staleness = source.lag, source.staleness
        self._lag = None if lag is None or self._lag is None else max(lag, self._lag)
        is_unknown = staleness is None or self._staleness is None
        self._staleness = None if is_unknown else max(staleness, self._staleness)  # type: ignore[type-var]

    def freshness(self) -> dict[str, Any]:
        """The label, and the greatest lag and staleness of the rows read so far."""
        ms = None if self._staleness is None else self._staleness // timedelta(milliseconds=1)
        return {self._field: self.label, "lag": self._lag, "staleness_ms": ms}

    # --- rows

    def rows(self, **options: Any) -> Iterator[Row]:
        """All rows, in the order of their keys; `options` are those of the client's method."""
        with self._labelled():
            rows = self._query(self.view.name, **{"stream": True, **options})
            for n, row in enumerate(rows):
                if n % 1000 == 0:
                    self._note_freshness(rows.source)
                yield row
            self._note_freshness(rows.source)

    def read_again(self, rows: Sequence[Row]) -> list[Row | None]:
        """The current rows; None for a deleted row."""
        with self._labelled():
            if not self._is_timed:
                answers = self._client.get_many(self.view.name, [row.key for row in rows])
                return [Entry(a.key, a.value) if a.found else None for a in answers]
            return [self._read_timed(row) for row in rows]

    def _read_timed(self, row: Row) -> Row | None:
        times = {"from_": row.start, "to": row.start}
        if self.view.store == "session":
            times["to"] = row.end
        rows = self._query(self.view.name, row.key, **times)
        return next((other for other in rows if identity_of(other) == identity_of(row)), None)

    # --- samples

    def sample(self, count: int, random: Random, on_row: Callable[[], None]) -> list[Row]:
        """`count` rows, or all if there are fewer.

        In a small view, or one whose keys cannot be ordered here, all rows are equally likely. In a
        larger one, a few consecutive rows are read from each of several random positions between
        the first and the last key.
        """
        with self._labelled():
            entries = int(self._client.count(self.view.name))
        if entries <= max(_SMALL, 10 * count) or not is_ordered(self.view):
            return _reservoir_sample(self.rows(), count, random, on_row)
        ranges = min(count, _RANGES)
        rows_per_range = -(-count // ranges)
        page = min(rows_per_range, 1000)
        ends = [
            [row.key for row in self.rows(order=order, limit=100, stream=False)]
            for order in ("asc", "desc")
        ]
        known_keys = [key for keys in ends for key in keys]
        start_option = "key_from" if self._is_timed else "from_"
        sampled = {}
        for _ in range(ranges if known_keys else 0):
            start = random_key(ends[0][0], ends[1][0], known_keys, random)
            options = {start_option: start, "limit": rows_per_range, "stream": False, "page": page}
            for row in self.rows(**options):
                sampled[identity_of(row)] = row
                on_row()
        return list(sampled.values())[:count]


def _reservoir_sample(
    rows: Iterable[Row], count: int, random: Random, on_row: Callable[[], None]
) -> list[Row]:
    """Algorithm R of Vitter, "Random Sampling with a Reservoir" (1985)."""
    reservoir: list[Row] = []
    for n, row in enumerate(rows):
        on_row()
        if n < count:
            reservoir.append(row)
        elif (index := random.randrange(n + 1)) < count:
            reservoir[index] = row
    return reservoir
