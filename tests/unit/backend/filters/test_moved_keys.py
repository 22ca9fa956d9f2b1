"""Conditions after partitions were added: the newest row of a moved key is compared, if any."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.backend.queries.scans.grown_topic import KEYS, grown, partition
from tests.unit.backend.queries.scans.test_moved_key_expiry import advance_new_partitions

IN_NEW = [key for key in KEYS if partition(key, 5) > 2]


def listed(made: Any, where: str, more: str) -> list[str]:
    """The keys of all pages, which are the same from all instances."""
    by_instance = []
    for id_ in made.nodes:
        keys: list[str] = []
        cursor = ""
        for _ in range(200):
            target = f"/views/orders/keys?where={quote(where)}&{more}{cursor}"
            page = made.ask(id_, "GET", target).json()
            keys += [item["key"] for item in page["items"]]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        else:
            raise AssertionError("too many pages")
        by_instance.append(keys)
    assert all(keys == by_instance[0] for keys in by_instance)
    return by_instance[0]


@pytest.mark.slow
@pytest.mark.parametrize("retention", [None, 1000])
def test_an_older_row_in_the_former_partition_is_not_compared(
    tmp_path: Path, retention: int | None
) -> None:
    with grown(tmp_path, retention=retention) as (made, _, current):
        deleted, written, *_ = IN_NEW
        current.send(deleted, None, 100)
        current.send(written, b'{"n":2}', 101)
        made.settle()
        others = sorted(key.decode() for key in {*KEYS} - {deleted, written})
        for order, sign in (("asc", 1), ("desc", -1)):
            for more in ("limit=1", "limit=3&max_examined=1", "limit=1000"):
                more = f"{more}&order={order}"
                assert listed(made, "n = 1", more) == others[::sign]
                assert listed(made, "n <> 1", more) == [written.decode()]
                assert listed(made, f"key = '{written.decode()}' and n = 1", more) == []
        for id_ in made.nodes:
            for where, count in (("n = 1", len(others)), ("n = 2", 1), ("n is null", 0)):
                answer = made.ask(id_, "GET", f"/views/orders/count?where={quote(where)}")
                assert answer.json()["count"] == count


@pytest.mark.slow
def test_an_older_row_does_not_count_after_the_newest_has_expired(tmp_path: Path) -> None:
    with grown(tmp_path, retention=1000) as (made, _, current):
        for at, key in enumerate(IN_NEW, 100):
            current.send(key, b'{"n":2}', at)
        advance_new_partitions(current)
        made.settle()
        live = sorted(key.decode() for key in {*KEYS} - {*IN_NEW})
        assert listed(made, "n = 1 and key is not null", "limit=2") == live
        assert listed(made, "n = 2", "limit=2") == []
