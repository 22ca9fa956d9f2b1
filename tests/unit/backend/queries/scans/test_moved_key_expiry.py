"""Retention of keys whose partition has changed because partitions were added to the topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend.queries.scans.partition_scan import PartitionScans
from tests.unit.backend.queries.scans.any_partition import everywhere
from tests.unit.backend.queries.scans.grown_topic import KEYS, Producer, check_all, grown, partition

_IN_NEW = [key for key in KEYS if partition(key, 5) > 2]


def advance_new_partitions(current: Producer) -> dict[bytes, int | None]:
    """Writes a key to each of the two new partitions, when all others have expired in it."""
    found: dict[bytes, int | None] = {}
    for home in (3, 4):
        [key, *_] = [
            key for n in range(100) if partition(key := b"later %d" % n, current.knows) == home
        ]
        current.send(key, b'{"n":9}', 2000)
        found[key] = 9
    return found


@pytest.mark.slow
def test_what_was_newest_has_expired(tmp_path: Path) -> None:
    """The former partition of a key has an older entry, which has not expired there."""
    with grown(tmp_path, retention=1000) as (made, _, current):
        deleted, written, *_ = _IN_NEW
        current.send(deleted, None, 100)
        current.send(written, b'{"n":2}', 101)
        made.settle()
        expected: dict[bytes, int | None] = dict.fromkeys(KEYS, 1)
        check_all(made, expected | {deleted: None, written: 2})
        later = advance_new_partitions(current)
        made.settle()
        # a key of an old partition has its retention from there
        assert len(_IN_NEW) < len(KEYS)
        check_all(made, expected | dict.fromkeys(_IN_NEW) | later)


def test_pages_of_a_view_whose_moved_keys_have_expired(tmp_path: Path) -> None:
    with grown(tmp_path, retention=1000) as (made, _, current):
        for at, key in enumerate(_IN_NEW, 100):
            current.send(key, b'{"n":2}', at)
        later = advance_new_partitions(current)
        made.settle()
        live = sorted(key.decode() for key in {*KEYS, *later} - {*_IN_NEW})
        for order, wanted in (("asc", live), ("desc", live[::-1])):
            for id_ in made.nodes:
                found: list[str] = []
                cursor = ""
                while True:
                    target = f"/views/orders/keys?limit=3&order={order}{cursor}"
                    page = made.ask(id_, "GET", target).json()
                    found += [item["key"] for item in page["items"]]
                    if page["next"] is None:
                        break
                    cursor = f"&cursor={page['next']}"
                assert found == wanted


@pytest.mark.slow
def test_stream_time_that_moves_while_an_instance_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the new time the newer record has expired, so the older one must be judged by it, too."""
    fill = PartitionScans._fill

    async def moving(
        self: PartitionScans, response: Any, view: Any, request: Any, partitions: Any, after: Any
    ) -> None:
        for each in partitions:
            if each.partition > 2:
                each.store.stream_time = 2000
        await fill(self, response, view, request, partitions, after)

    with grown(tmp_path, retention=1000) as (made, _, current):
        written, *_ = _IN_NEW
        current.send(written, b'{"n":2}', 101)
        made.settle()
        monkeypatch.setattr(PartitionScans, "_fill", moving)
        check_all(made, {key: None if key in _IN_NEW else 1 for key in KEYS})


@pytest.mark.parametrize("store", ["window", "session"])
@pytest.mark.slow
def test_moved_windows_and_sessions_that_have_expired(tmp_path: Path, store: str) -> None:
    with grown(tmp_path, store=store, retention=1000) as (made, _, current):
        deleted, written, *_ = _IN_NEW
        current.send(deleted, None, 100, KEYS.index(deleted))
        current.send(written, b'{"n":2}', 101, KEYS.index(written))
        later = advance_new_partitions(current)
        made.settle()
        live = {*KEYS, *later} - {*_IN_NEW}
        for status, page in everywhere(made, f"{store}s?limit=1000"):
            assert (status, {item["key"].encode() for item in page["items"]}) == (200, live)
        for key in (*KEYS, *later):
            name = key.decode().replace(" ", "%20")
            for status, page in everywhere(made, f"keys/{name}/{store}s"):
                assert (status, len(page["items"])) == (200, int(key in live))
