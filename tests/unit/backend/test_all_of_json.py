"""JSON that orjson refuses is ingested, read by every query, and looked up as a key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from backend.ingest.batch import build_batch
from model.formats.json_decoder import decode_json
from model.records import is_unreadable
from model.views import View
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.fakes import Rec
from tests.support.in_process.world import World, world
from tests.vectors.json_cases import BAD, GOOD

VALUES = {name.replace(" ", "-"): text for name, text in GOOD.items()}


class DictBatch(dict[bytes, bytes]):
    put = dict.__setitem__
    delete = dict.__delitem__


TIMED = replace(ORDERS, store="versioned")


@pytest.mark.parametrize("of", [ORDERS, TIMED], ids=["latest", "timed"])
def test_all_of_it_is_ingested(of: View) -> None:
    records = [Rec(n, b"%d" % n, text) for n, text in enumerate([*GOOD.values(), *BAD.values()])]
    batch = DictBatch()
    result = build_batch(batch, of, records)
    rejected = [letter.record.offset() for letter in result.dead_letters]
    assert rejected == list(range(len(GOOD), len(records)))
    readable = [stored for stored in batch.values() if not is_unreadable(stored)]
    assert len(readable) == len(GOOD)
    assert all(any(s.endswith(text) for s in readable) for text in GOOD.values())


def test_keys_are_ingested_once_each() -> None:
    of = view(key="json")
    batch = DictBatch()
    records = [Rec(n, text, b"1") for n, text in enumerate(GOOD.values())]
    records.append(Rec(99, rb'"\ud83d\ud83d\ude00"', None))
    result = build_batch(batch, of, records)
    assert not result.dead_letters
    assert len(result.keys) == len(GOOD) + 1
    assert len(batch) == len(GOOD) - 1, "a null value deletes the key"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("orders"), ORDERS) as made:
        made.put_all({name.encode(): text for name, text in VALUES.items()})
        yield made


def test_a_value_is_answered_as_it_was_written(orders: World) -> None:
    for name, text in VALUES.items():
        for instance in ("b1", "b2"):
            answer = orders.ask(f"keys/{quote(name)}", instance)
            assert answer.status == 200
            assert answer.body == b'{"key":"%b","value":%b}' % (name.encode(), text)
    batch = orders.batch(list(VALUES))
    assert all(text in batch.body for text in VALUES.values())
    assert batch.body.count(b'"status":200') == len(VALUES)


def test_queries_of_the_whole_view(orders: World) -> None:
    pages = orders.ask("keys?limit=1000")
    assert all(text in pages.body for text in VALUES.values())
    lines = orders.ask("keys?limit=1000", accept="application/x-ndjson").body
    assert all(b'"value":%b}' % text in lines for text in VALUES.values() if b"\n" not in text)
    assert orders.ask("count?exact=true").json["count"] == len(VALUES)
    top: Any = decode_json(orders.ask("top?by=n").body)
    assert [item["key"] for item in top["items"]] == ["a-number-beyond-double"]
    sums: Any = decode_json(orders.ask("aggregate?value=n&by=name").body)
    assert sums["items"][0]["sum"] == "Infinity" or sums["items"][-1]["sum"] == "Infinity"
    groups = {json.dumps(item["group"]) for item in sums["items"]}
    assert groups == {r'"x\ud83d"', r'"\ude00x"', "null"}


def test_numbers_beyond_double_are_groups_of_their_own(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS) as made:
        texts = [b"1e400", b"-1e400", b"null", b'{"b":1e400}', b'{"b":null}']
        made.put_all({b"%d" % n: b'{"a":%b}' % text for n, text in enumerate(texts)})
        items = made.ask("aggregate?by=a").json["items"]
        assert sorted(json.dumps(item["group"]) for item in items) == sorted(
            ['"Infinity"', '"-Infinity"', "null", '{"b": "Infinity"}', '{"b": null}']
        )


def test_half_an_emoji_is_no_text_key(orders: World) -> None:
    """It fails alone: the body is JSON."""
    said = orders.batch(rb'{"keys":["an-emoji","x\ud83d"]}')
    assert said.status == 200
    first, second = decode_json(said.body)["items"]
    assert first["status"] == 200
    assert second == {"key": "x\ud83d", "status": 400, "code": "key-undecodable"}
    search = orders.ask("search", method="POST", body=rb'{"query":"x\ud83d"}')
    assert (search.status, search.json["code"]) == (400, "key-undecodable")


def test_keys_of_every_form_are_found(tmp_path: Path) -> None:
    with world(tmp_path, view(key="json")) as made:
        keys = [text for text in GOOD.values() if len(text) < 900 and b"\n" not in text]
        made.put_all(dict.fromkeys(keys, b'"found"'))
        for key in keys:
            assert (
                made.ask(f"keys/{quote(key, safe='')}").body == b'{"key":%b,"value":"found"}' % key
            )
            search = made.ask("search", method="POST", body=b'{"query":%b}' % key)
            assert (search.status, search.body) == (200, b'{"key":%b,"value":"found"}' % key)
        batch = made.batch(b'{"keys":[%b]}' % b",".join(keys))
        assert batch.body.count(b'"status":200') == len(keys)
