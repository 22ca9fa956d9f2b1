"""A topic whose number of partitions has grown, on three instances, and its producers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from model.partitioner import partition_of
from tests.support.in_process.cluster import Cluster
from tests.support.reference.questions import Answer
from tests.support.reference.tables import Record
from tests.unit.backend.queries.scans.any_partition import cluster, everywhere

_TIMES: dict[str, Callable[[int], tuple[int, ...]]] = {
    "window": lambda start: (start, 0),
    "session": lambda start: (start, start),
}
"""Those in a record key, as of `Record.at`."""

KEYS = [b"key %d" % n for n in range(24)]
partition = partition_of("murmur2")


def moves(key: bytes, *counts: int) -> bool:
    return len({partition(key, count) for count in counts}) > 1


class Producer:
    """Writes with the number of partitions that it knows. `at`: one clock for all, in ms."""

    def __init__(self, to: Cluster) -> None:
        self._to = to
        self.knows = len(to.logs)

    def send(self, key: bytes, value: bytes | None, at: int, since: int | None = None) -> int:
        """`since`: the start of the window or session; it has the time `at` if not given."""
        home = partition(key, self.knows)
        self.send_to(home, key, value, at, since)
        return home

    def send_to(
        self, home: int, key: bytes, value: bytes | None, at: int, since: int | None = None
    ) -> None:
        times = _TIMES.get(self._to.view.store, lambda start: ())(at if since is None else since)
        self._to.write(Record(len(self._to.logs[home]), key, times, value, at), home)


def place_all(of: Cluster) -> None:
    of.place([number % 3 for number in range(len(of.logs))])


@contextmanager
def just_added(
    folder: Path, keys: Sequence[bytes] = KEYS, **fields: Any
) -> Iterator[tuple[Cluster, Producer]]:
    """Three partitions became five, and the new ones are not placed yet. The producer knows them.
    All keys were written before, at the times 0 to 23."""
    with cluster(folder, **fields) as made:
        producer = Producer(made)
        for at, key in enumerate(keys):
            producer.send(key, b'{"n":1}', at)
        made.settle()
        made.add_partitions(2)
        producer.knows = 5
        yield made, producer


@contextmanager
def grown(
    folder: Path, keys: Sequence[bytes] = KEYS, **fields: Any
) -> Iterator[tuple[Cluster, Producer, Producer]]:
    """The same after they were placed; one producer knows it, and one does not."""
    with just_added(folder, keys, **fields) as (made, current):
        late = Producer(made)
        late.knows = 3
        place_all(made)
        made.settle()
        yield made, late, current


def check_all(of: Cluster, expected: dict[bytes, int | None]) -> None:
    """Each instance gives these numbers for the keys, on each way."""
    live = {key.decode(): n for key, n in sorted(expected.items()) if n is not None}
    for key, n in expected.items():
        for status, found in everywhere(of, f"keys/{key.decode().replace(' ', '%20')}"):
            assert (status, found.get("value")) == ((404, None) if n is None else (200, {"n": n}))
    for status, page in everywhere(of, "keys?limit=1000"):
        assert (status, {each["key"]: each["value"]["n"] for each in page["items"]}) == (200, live)
    assert everywhere(of, "count?exact=true") == [(200, {"count": len(live), "exact": True})] * 3
    for status, ranked in everywhere(of, "top?by=n&limit=100"):
        assert (status, {each["key"] for each in ranked["items"]}) == (200, set(live))
    for id_ in of.nodes:
        names = b",".join(b'"%b"' % key for key in expected)
        answer = of.ask(id_, "POST", "/views/orders/batch", b'{"keys":[%b]}' % names)
        found = {each["key"]: each.get("value") for each in answer.json()["items"]}
        wanted = {key.decode(): None if n is None else {"n": n} for key, n in expected.items()}
        assert found == wanted


def ask(of: Cluster, id_: str, key: bytes, query: str = "") -> Answer:
    return of.ask(id_, "GET", f"/views/orders/keys/{key.decode().replace(' ', '%20')}{query}")
