"""All pages can be followed, whatever the size of the keys at which they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from model.views import View
from tests.support.in_process.examples import view
from tests.support.in_process.world import NDJSON, World, world

LINE = 32 << 10
"""Bytes of a request line that gunicorn and nginx accept."""
# keys of up to what Kafka takes by default
KEYS = [b"a", b"b" * 24_000, b"b" * 24_000 + b"c", b"c" * 900_000, b"d"]


def followed(made: World, resource: str, instance: str) -> list[Any]:
    """The items of all pages with one item each."""
    items, cursor = [], None
    for _ in range(len(KEYS) + 1):
        body = json.dumps({"cursor": cursor} if cursor else {}).encode()
        answer = made.ask(f"{resource}?limit=1", instance, method="POST", body=body)
        assert answer.status == 200, answer.body[:200]
        items += answer.json["items"]
        cursor = answer.json["next"]
        if cursor is None:
            return items
    raise AssertionError("too many pages")


@pytest.mark.slow
@pytest.mark.parametrize("instance", ["b1", "b2"])
@pytest.mark.parametrize("store", ["key-value", "versioned", "window", "session"])
def test_all_pages(tmp_path: Path, store: str, instance: str) -> None:
    of: View = view(store=store)
    tail = {"window": bytes(12), "session": bytes(16)}.get(store, b"")
    resource = {"window": "windows", "session": "sessions"}.get(store, "keys")
    with world(tmp_path, of) as made:
        made.put_all({key + tail: b"1" for key in KEYS})
        found = [item["key"].encode() for item in followed(made, resource, instance)]
        assert found == KEYS
        # in a URL
        one = made.ask(f"{resource}?limit=1", instance).json["next"]
        two = made.ask(f"{resource}?limit=1&cursor={one}", instance)
        assert two.json["items"][0]["key"].encode() == KEYS[1]


def test_a_stream_may_have_its_bounds_in_the_body(tmp_path: Path) -> None:
    with world(tmp_path, view()) as made:
        made.put_all(dict.fromkeys(KEYS, b"1"))
        body = json.dumps({"from": KEYS[2].decode()}).encode()
        answer = made.ask("keys", method="POST", body=body, accept=NDJSON)
        lines = [json.loads(line)["key"].encode() for line in answer.body.splitlines()]
        assert lines == KEYS[2:]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "bad-request"),
        (b"[]", 400, "bad-request"),
        (b'{"limit":true}', 400, "bad-request"),
        (b'{"cursor":null}', 400, "bad-request"),
        (b'{"nothing":"x"}', 400, "unknown-parameter"),
        (b'{"limit":2}', 400, "repeated-parameter"),
        (b'{"cursor":"x"}', 400, "cursor-invalid"),
    ],
)
def test_wrong_bodies(tmp_path: Path, body: bytes, status: int, code: str) -> None:
    with world(tmp_path, view()) as made:
        assert made.code("keys?limit=1", status, method="POST", body=body) == code


@pytest.mark.parametrize("instance", ["b1", "b2"])
def test_a_page_of_a_long_key_s_history_fits_into_a_url(tmp_path: Path, instance: str) -> None:
    """The longest key of a request, percent-encoded, leaves little room."""
    key = "é" * 4096
    path = "keys/" + "%C3%A9" * 4096 + "/windows"
    with world(tmp_path, view(store="window")) as made:
        made.put_all({key.encode() + n.to_bytes(8, "big") + bytes(4): b"1" for n in range(5)})
        starts = []
        cursor = ""
        for _ in range(5):
            target = f"{path}?limit=1{cursor}"
            assert len(f"GET /views/orders/{target} HTTP/1.1\r\n") <= LINE
            answer = made.ask(target, instance)
            assert answer.status == 200, answer.body[:200]
            starts += [item["start"] for item in answer.json["items"]]
            cursor = f"&cursor={answer.json['next']}"
        assert starts == list(range(5))
        assert answer.json["next"] is None
        other = made.ask(path.replace("%C3%A9", "%C3%A8") + f"?limit=1{cursor}", instance)
        assert other.status == 400
