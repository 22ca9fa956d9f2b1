"""Cursors that no instance has sent: anybody can make one, but it does not leave its query."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from backend.wire.cursor import encode_cursor
from backend.wire.scan import Query
from model.records import ENTRY
from tests.support.in_process.examples import HISTORIES, view
from tests.support.in_process.world import World, world

_OUTSIDE = (b"", b"\0", b"\0position", b"\2", b"\2\xff")
"""Keys of a store that are no entries."""


def is_refused(of: World, target: str) -> bool:
    return {of.code(target, 400, instance=id_) for id_ in of.instances} == {"cursor-invalid"}


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("store", ["key-value", "versioned"])
def test_a_page_of_keys_stays_within_its_bounds(tmp_path: Path, store: str, order: str) -> None:
    of = view(store=store)
    with world(tmp_path, of) as made:
        made.put_all({b"k%d" % number: b"1" for number in range(6)})

        def forged(query: Query, key: bytes) -> str:
            return encode_cursor(query.question(of, "keys"), key)

        backwards = order == "desc"
        for key in _OUTSIDE:
            cursor = forged(Query(backwards=backwards), key)
            assert is_refused(made, f"keys?order={order}&cursor={cursor}")
        low, high = of.layout.prefix_range(b"k3")
        prefix = Query(low, high, backwards)
        for key in (ENTRY + b"k1", ENTRY + b"k5", high):
            target = f"keys?prefix=k3&order={order}&cursor={forged(prefix, key)}"
            assert is_refused(made, target), key
        within = forged(prefix, ENTRY + b"k3")
        assert made.ask(f"keys?prefix=k3&order={order}&cursor={within}").status == 200


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("store", HISTORIES)
def test_a_history_has_the_entries_of_its_key_only(tmp_path: Path, store: str, order: str) -> None:
    of = view(store=store)
    form = {"window": ">qi", "session": ">qq", "versioned": ""}[store]
    times = struct.pack(form, 1, 0) if form else b""
    resource = of.kind.history
    with world(tmp_path, of) as made:
        partition = made.partition(b"b")
        for key in (b"a", b"b", b"c"):
            made.put(key + times, b'"%b"' % key, partition=partition)
        question = (of.hash, resource, b"b".hex(), None, None, order == "desc")
        target = f"keys/b/{resource}?order={order}"
        own, *others = [of.layout.stored_key(key + times, 7) for key in (b"b", b"a", b"c")]
        for key in (*others, *_OUTSIDE):
            assert is_refused(made, f"{target}&cursor={encode_cursor(question, key)}"), key
        rest = made.ask(f"{target}&cursor={encode_cursor(question, own)}")
        assert (rest.status, rest.json["items"]) == (200, [])


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_cursor_without_times_is_a_position_as_any_other(tmp_path: Path, order: str) -> None:
    of = view(store="session", same_key="partial", partitioner="none")
    with world(tmp_path, of) as made:
        made.put(b"a" + struct.pack(">qq", 1, 0), b"1")
        question = Query(backwards=order == "desc").question(of, "sessions")
        answer = made.ask(f"sessions?order={order}&cursor={encode_cursor(question, ENTRY)}")
        assert (answer.status, len(answer.json["items"])) == (200, int(order == "asc"))
