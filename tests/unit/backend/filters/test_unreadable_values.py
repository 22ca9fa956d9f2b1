"""Conditions on entries whose values cannot be read: only keys and times decide about them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import NDJSON, World, world
from tests.unit.backend.unreadable.applied import put as put_record


@pytest.mark.parametrize(
    ("where", "may_be_met"),
    [
        ("n is not null", True),
        ("not (n is null)", True),
        ("coalesce(n, 0) > 5", True),
        ("case when n is null then false else true end", True),
        ("key = 'bad' and n is not null", True),
        ("key = 'good' and n is not null", False),
        ("key = 'good' or n is not null", True),
        ("not (key = 'bad' or n is null)", False),
        ("n = 1 and 1 = 2", False),
        ("key is null", False),
    ],
)
def test_only_the_key_excludes_an_entry(tmp_path: Path, where: str, may_be_met: bool) -> None:
    with world(tmp_path, ORDERS) as made:
        made.put(b"good", b'{"n":7}')
        put_record(made, b"bad", b'{"n":')
        [bad] = made.ask("keys?to=bad").json["items"]
        for instance in ("b1", "b2"):
            answer = made.ask(f"keys?where={quote(where)}", instance)
            assert (bad in answer.json["items"]) is may_be_met
        lines = made.ask(f"keys?where={quote(where)}", accept=NDJSON).body
        assert (b'"bad"' in lines) is may_be_met
        for query in ("count", "aggregate", "top?by=n"):
            mark = "&" if "?" in query else "?"
            answer = made.ask(f"{query}{mark}where={quote(where)}")
            assert answer.json.get("unreadable", 0) == may_be_met, query
        _several(made)
        answer = made.ask(f"keys?where={quote(where)}")
        assert (bad in answer.json["items"]) is may_be_met


def _several(made: World) -> None:
    """From now on, a key may be in several partitions, so the coordinator compares the rows."""
    made.place(0, 1, 0, 1, mispartitioned=True)
