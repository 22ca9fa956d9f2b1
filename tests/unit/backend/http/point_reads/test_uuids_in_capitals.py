"""Record keys that are UUIDs in capitals, as Swift's `uuidString` and SQL Server write them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from model.views import View
from tests.support.in_process.examples import view
from tests.support.in_process.world import World, world

LOWER = [f"{n:08x}-{n:04x}-4abc-8def-{n:012x}" for n in range(0xA0, 0xA8)]
CAPITALS = [text.upper() for text in LOWER]
UUIDS: View = view(key="uuid")
SPAN = "from=0&to=1000000"


@pytest.fixture
def uuids(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, UUIDS) as made:
        yield made


def put(made: World, texts: list[str], form: str) -> None:
    made.put_all({text.encode(): json.dumps([form, text.lower()]).encode() for text in texts})


def other_owner(made: World, text: str) -> str:
    """The instance that does not have the key."""
    return "b1" if made.partition(text.encode()) % 2 else "b2"


@pytest.mark.parametrize("instance", ["b1", "b2"])
def test_each_listed_key_is_found_by_its_text(uuids: World, instance: str) -> None:
    put(uuids, LOWER[:4], "lower")
    put(uuids, CAPITALS[2:], "capitals")
    items = uuids.ask("keys?limit=100", instance).json["items"]
    assert sorted(item["key"] for item in items) == sorted(LOWER[:4] + CAPITALS[2:])
    for item in items:
        assert uuids.ask(f"keys/{item['key']}", instance).json == item
        search = json.dumps({"query": item["key"]}).encode()
        assert uuids.ask("search", instance, method="POST", body=search).json == item
    batch = uuids.batch([item["key"] for item in items], instance).json["items"]
    assert batch == [{"status": 200, **item} for item in items]


@pytest.mark.parametrize("instance", ["b1", "b2"])
def test_capitals_also_find_a_key_in_lower_case(uuids: World, instance: str) -> None:
    put(uuids, LOWER, "lower")
    for lower, text in zip(LOWER, CAPITALS, strict=True):
        expected = {"key": lower, "value": ["lower", lower]}
        for query in ("", "?encoding=text", "?stale=allow"):
            answer = uuids.ask(f"keys/{text}{query}", instance)
            assert (answer.status, answer.json) == (200, expected), query
        search = json.dumps({"query": text}).encode()
        assert uuids.ask("search", instance, method="POST", body=search).json == expected
    batch = uuids.batch(CAPITALS, instance).json["items"]
    assert batch == [{"key": lower, "status": 200, "value": ["lower", lower]} for lower in LOWER]


def test_lower_case_does_not_find_a_key_in_capitals(uuids: World) -> None:
    put(uuids, CAPITALS, "capitals")
    for text in LOWER:
        assert uuids.code(f"keys/{text}", 404) == "key-not-found"


def test_a_key_that_is_in_no_form_is_missing(uuids: World) -> None:
    for instance in ("b1", "b2"):
        for text in CAPITALS:
            assert uuids.code(f"keys/{text}", 404, instance=instance) == "key-not-found"
    items = uuids.batch(CAPITALS).json["items"]
    assert items == [{"key": text, "status": 404} for text in CAPITALS]


def test_a_key_is_undecided_if_its_other_form_is(uuids: World) -> None:
    """404 would be wrong: the instance with the key in lower case does not answer."""
    put(uuids, LOWER, "lower")
    uuids.peers.down = {"b1", "b2"}
    text = next(
        capitals
        for lower, capitals in zip(LOWER, CAPITALS, strict=True)
        if other_owner(uuids, lower) != other_owner(uuids, capitals)
    )
    here = other_owner(uuids, text.lower())
    assert uuids.ask(f"keys/{text}", here).status == 503
    assert uuids.batch([text], here).json["items"][0]["status"] == 503


def test_record_bytes_mean_no_other_key(uuids: World) -> None:
    from model.formats.base64url import to_base64url

    put(uuids, LOWER, "lower")
    encoded = to_base64url(CAPITALS[0].encode()).decode()
    assert uuids.code(f"keys/{encoded}?encoding=base64url", 404) == "key-not-found"


@pytest.mark.parametrize("instance", ["b1", "b2"])
@pytest.mark.parametrize("written", [LOWER, CAPITALS])
def test_changes_of_the_key_that_is_there(uuids: World, instance: str, written: list[str]) -> None:
    put(uuids, written, "written")
    for text, record_key in zip(CAPITALS, written, strict=True):
        if other_owner(uuids, record_key) == instance:
            continue  # another instance's stream needs a network
        assert first_event(uuids, instance, text) == {
            "key": record_key,
            "value": ["written", record_key.lower()],
        }


def first_event(made: World, instance: str, text: str) -> Any:
    async def read() -> bytes:
        chunks: list[bytes] = []
        scope_ended = asyncio.Event()

        async def receive() -> Any:
            await scope_ended.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            chunks.append(message.get("body", b""))
            if b"data:" in b"".join(chunks):
                scope_ended.set()

        scope = {
            "raw_path": f"/views/orders/keys/{text}/changes".encode(),
            "query_string": b"",
            "method": "GET",
            "headers": [],
            "client": ("127.0.0.1", 1),
        }
        await asyncio.wait_for(made.routers[instance](scope, receive, send), 10)
        return b"".join(chunks)

    stream = asyncio.run(read())
    return json.loads(stream.split(b"data: ", 1)[1].split(b"\n", 1)[0])


def record_key(text: str, start: int) -> bytes:
    """Of a window."""
    return text.encode() + start.to_bytes(8, "big") + bytes(4)


@pytest.mark.parametrize("instance", ["b1", "b2"])
@pytest.mark.parametrize("written", [LOWER, CAPITALS])
def test_windows_of_the_key_that_is_there(
    tmp_path: Path, instance: str, written: list[str]
) -> None:
    with world(tmp_path, view(key="uuid", store="window")) as made:
        made.put_all({record_key(text, start): b"1" for text in written for start in range(5)})
        for text, of in zip(CAPITALS, written, strict=True):
            starts = []
            for items in made.pages(f"keys/{text}/windows?limit=2&{SPAN}", instance):
                starts += [item["start"] for item in items]
            assert starts == list(range(5)), of
        missing = CAPITALS[0].replace("A", "B")
        answer = made.ask(f"keys/{missing}/windows", instance).json
        assert answer == {"key": missing, "items": [], "next": None}
