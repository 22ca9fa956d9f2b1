"""Reads by key in KIQR's dialect follow the rules of all reads by key: forwards, retries, pages."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from backend.http.kiqr import raw_reads
from backend.http.representation import RECORD_VALUES
from model.topology import STANDBY
from model.views import View
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import World, world
from tests.unit.backend.http.kiqr.client import asking
from tests.unit.backend.http.kiqr.stores import b64, long, serdes

WINDOWS: View = view(store="window", value="int64")
SESSIONS: View = view(store="session", value="json")
SPAN = {**serdes("String", "Long"), "from": "0", "to": str(2**63 - 1)}


def windows(count: int, key: bytes = b"a") -> dict[bytes, bytes]:
    return {key + struct.pack(">qi", n, 0): long(n) for n in range(count)}


def ask(client: Any, path: str, parameters: dict[str, str]) -> Any:
    return client.get(f"/api/v1/{path}", query_string=parameters)


def other_owner(made: World, key: bytes) -> str:
    """The instance that does not own the key."""
    return "b1" if made.partition(key) % 2 else "b2"


@pytest.mark.parametrize("at", ["b1", "b2"])
def test_more_windows_than_a_page_come_from_the_owner(tmp_path: Path, at: str) -> None:
    with world(tmp_path, WINDOWS) as made, asking(made, at) as client:
        made.put_all(windows(2500))
        found = ask(client, f"window/orders/{b64(b'a')}", SPAN).json["values"]
        assert found == {str(n): b64(long(n)) for n in range(2500)}
        is_remote = at == other_owner(made, b"a")
        assert len(made.peers.asked) == (3 if is_remote else 0)


@pytest.mark.parametrize("bound", ["MAX_ENTRIES", "MAX_ENTRIES_BYTES"])
def test_windows_of_a_key_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    with world(tmp_path, WINDOWS) as made, asking(made) as client:
        made.put_all(windows(9))
        monkeypatch.setattr(raw_reads, bound, 8)
        answer = ask(client, f"window/orders/{b64(b'a')}", SPAN)
        assert (answer.status_code, answer.json["code"]) == (400, "too-many-entries")


def test_sessions_come_from_another_instance_as_their_record_bytes(tmp_path: Path) -> None:
    with world(tmp_path, SESSIONS) as made:
        made.put(b"a" + struct.pack(">qq", 20, 10), b'{ "n": 1.0 }')
        with asking(made, other_owner(made, b"a")) as client:
            answer = ask(client, f"session/orders/{b64(b'a')}", serdes())
            expected = {"startMs": 10, "endMs": 20, "value": b64(b'{ "n": 1.0 }')}
            assert answer.json == {"values": [expected]}
            assert len(made.peers.asked) == 1


def test_windows_in_several_partitions_are_merged(tmp_path: Path) -> None:
    with world(tmp_path, view(store="window", value="int64", partitioner="none")) as made:
        for partition in range(4):
            made.put(b"a" + struct.pack(">qi", partition, 0), long(partition), partition=partition)
        with asking(made) as client:
            found = ask(client, f"window/orders/{b64(b'a')}", SPAN).json["values"]
            assert found == {str(n): b64(long(n)) for n in range(4)}


def test_a_standby_answers_while_the_active_is_recovering(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS) as made:
        home = made.partition(b"k")
        active, standby = ("b2", "b1") if home % 2 else ("b1", "b2")
        made.place(0, 1, 0, 1, standbys=((1,), (0,), (1,), (0,)))
        made.store_partitions[home].progress.answerable = False
        made.instances[standby].hold(home, {b"k": b"1"}).role = STANDBY
        with asking(made, active) as client:
            found = ask(client, f"kv/orders/values/{b64(b'k')}", serdes())
            assert found.json == {"value": b64(b"1")}
            assert [id_ for id_, _ in made.peers.asked] == [standby]


def test_a_refused_read_is_counted(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS) as made:
        home = made.partition(b"k")
        made.store_partitions[home].progress.answerable = False
        with asking(made, "b2" if home % 2 else "b1") as client:
            answer = ask(client, f"kv/orders/values/{b64(b'k')}", serdes())
            assert (answer.status_code, answer.json["code"]) == (503, "catching-up")
            assert made.owner(home).context.telemetry.counts["orders"].unavailable == 1


def test_json_values_of_an_older_instance_are_not_taken_for_record_bytes(tmp_path: Path) -> None:
    """An instance that does not know the form ignores Accept, and "AAAA" is JSON and base64."""
    with world(tmp_path, view(store="session", value="string")) as made:
        made.put(b"a" + struct.pack(">qq", 20, 10), b"AAAA")
        with asking(made, other_owner(made, b"a")) as client:
            forward = made.peers.forward

            async def older(*args: Any, **options: Any) -> Any:
                kept = [h for h in args[3] if h[1] != RECORD_VALUES]
                return await forward(*args[:3], kept, *args[4:], **options)

            made.peers.forward = older  # type: ignore[method-assign]
            answer = ask(client, f"session/orders/{b64(b'a')}", serdes())
            assert (answer.status_code, answer.json["code"]) == (503, "owner-unreachable")
