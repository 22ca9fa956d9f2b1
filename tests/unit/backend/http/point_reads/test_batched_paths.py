"""Coalesced point reads: each is answered as if sent separately, or has to be sent separately."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.http.router import Router
from backend.http.routes import point_batch
from backend.wire.answer import Answer
from backend.wire.plain_requests import PlainPost
from backend.wire.point_batch import (
    ASK_ALONE,
    MAX_READS,
    READS,
    Reads,
)
from model.records import ENTRY, tombstone_entry
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import Instance
from tests.support.in_process.requests import LOOPBACK, asked
from tests.support.point_batch import decode_answers, encode_paths
from tests.unit.backend.http.point_reads.instances import (
    PARTITIONS,
    ageless,
    answers_to_paths,
    holding,
    place,
    whole_answer,
    write,
)


def assert_as_alone(instance: Instance, shell: Router, paths: list[bytes]) -> list[Answer | None]:
    before = replace(instance.reads.counts)
    answers = answers_to_paths(shell, paths)
    counts = instance.reads.counts
    assert counts.found - before.found == sum(a is not None and a.status == 200 for a in answers)
    assert counts.missed - before.missed == sum(a is not None and a.status == 404 for a in answers)
    for path, answer in zip(paths, answers, strict=True):
        alone = shell.fast_path.answer_now(path)
        if answer is None:
            assert alone is None or len(alone.body) >= 65_536
        else:
            assert alone is not None
            assert ageless(answer) == ageless(alone), path
    return answers


KEYS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8) | st.sampled_from(
    ["a", "b", "a/b", "%41", '"', "\\", "ä", " "]
)


@settings(max_examples=examples(25))
@given(
    st.dictionaries(KEYS, st.integers(), max_size=8),
    st.lists(KEYS, max_size=60),
    st.sampled_from(["/orders/", "/views/orders/keys/", "/%6frders/"]),
)
def test_each_read_is_answered_as_if_sent_separately(
    tmp_path_factory: pytest.TempPathFactory,
    entries: dict[str, int],
    more: list[str],
    prefix: str,
) -> None:
    stored = {key.encode(): b'{ "n":%d}' % n for key, n in entries.items()}
    with holding(tmp_path_factory.mktemp("data"), ORDERS, stored) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        paths = [(prefix + quote(key, safe="")).encode() for key in [*entries, *more]]
        odd = [b"/", b"//", b"/orders", b"/orders/a/b", b"/orders/a/changes", b"/x/y", b"/orders/%"]
        answers = assert_as_alone(instance, shell, [*paths, *odd])
        for key, answer in zip(entries, answers, strict=False):
            assert answer is not None
            assert json.loads(answer.body) == {"key": key, "value": {"n": entries[key]}}


@pytest.mark.parametrize(
    ("key", "value", "entries", "texts"),
    [
        ("int64", "string", {(7).to_bytes(8, "big"): b"seven"}, ["7", "8", "x", "07"]),
        ("bytes", "bytes", {b"\xff": b"\x00\xff"}, ["%FF", "a"]),
        ("string", "none", {b"a": b"?"}, ["a", "b"]),
        ("string", "float64", {b"a": b"\x7f\xf0" + b"\0" * 6}, ["a"]),
        ("uuid", "int32", {str(UUID(int=0)).encode(): b"\0\0\0\7"}, [str(UUID(int=0)), "a"]),
        ("float64", "string", {b"?\xf8" + b"\0" * 6: b"?"}, ["1.5", "15e-1", "-0", "NaN", "x"]),
        ("json", "string", {b'{"id":1}': b"?"}, ["%7B%22id%22:1%7D", '{"id":1}', "[1", "1"]),
    ],
)
def test_reads_of_other_formats(
    tmp_path: Path, key: str, value: str, entries: dict[bytes, bytes], texts: list[str]
) -> None:
    of = view(key=key, value=value)
    with holding(tmp_path, of, entries) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        paths = [f"/views/orders/keys/{text}".encode() for text in texts]
        assert any(assert_as_alone(instance, shell, paths))


def test_large_values_are_sent_separately(tmp_path: Path) -> None:
    entries = {b"small": b'"%b"' % (b"x" * 65_000), b"large": b'"%b"' % (b"x" * 66_000)}
    with holding(tmp_path, ORDERS, entries) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        small, large = assert_as_alone(instance, shell, [b"/orders/small", b"/orders/large"])
        assert small is not None
        assert large is None


def test_reads_that_have_to_wait_or_be_forwarded_are_sent_separately(tmp_path: Path) -> None:
    with holding(tmp_path, ORDERS, {b"%d" % n: b"1" for n in range(40)}) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        paths = [b"/orders/%d" % n for n in range(40)]
        instance.place(1, 0, 0)
        instance.context.store_partitions.get("orders", 0).store.close()  # type: ignore[union-attr]
        instance.context.store_partitions.remove(instance.context.store_partitions.get("orders", 0))  # type: ignore[arg-type]
        instance.context.store_partitions.get("orders", 1).progress.answerable = False  # type: ignore[union-attr]
        answers = answers_to_paths(shell, paths)
        for n, answer in enumerate(answers):
            assert (answer is not None) == (place(b"%d" % n, PARTITIONS) == 2)
        # a view whose keys may be in any partition
        instance.place(0, 0, 0, mispartitioned=True)
        assert not any(answers_to_paths(shell, paths))


def test_a_delete_and_a_damaged_store(tmp_path: Path) -> None:
    with holding(tmp_path, ORDERS, {b"a": b"1", b"b": b"2"}, partitions=1) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        store_partition = instance.context.store_partitions.get("orders", 0)
        assert store_partition is not None
        write(store_partition, {ENTRY + b"b": tombstone_entry(1, 9)})
        found, deleted = assert_as_alone(instance, shell, [b"/orders/a", b"/orders/b"])
        assert found is not None
        assert deleted is not None
        assert (found.status, deleted.status) == (200, 404)
        store_partition.store.close()
        assert answers_to_paths(shell, [b"/orders/a", b"/orders/b"]) == [None, None]


def test_too_many_reads_are_refused(tmp_path: Path) -> None:
    with holding(tmp_path, ORDERS, {b"a": b"1"}) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        most = MAX_READS - 1
        assert len(answers_to_paths(shell, [b"/orders/a"] * most)) == most
        refused = shell.fast_path.reads_now(
            PlainPost(None, encode_paths([b"/orders/a"] * MAX_READS)), LOOPBACK
        )
        assert (refused.status, json.loads(refused.body)["code"]) == (400, "too-many-keys")


def test_the_route_gives_the_same_answer(tmp_path: Path) -> None:
    """A body that arrives later than its headers is parsed as an ordinary request."""
    with holding(tmp_path, ORDERS, {b"a": b"1"}) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        body = encode_paths([b"/orders/a", b"/orders/b"])
        sent = []

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, object]) -> None:
            sent.append(message)

        scope = {
            "method": "POST", "raw_path": READS, "headers": [], "query_string": b"",
            "client": (LOOPBACK, 1),
        }  # fmt: skip
        asyncio.run(shell(scope, receive, send))  # type: ignore[arg-type]
        now = shell.fast_path.reads_now(PlainPost(None, body), LOOPBACK)
        assert sent[0]["status"] == 200
        # the digits of a staleness change its length
        assert [n for n, _ in sent[0]["headers"]] == [n for n, _ in now.headers]  # type: ignore[attr-defined]
        body = sent[1]["body"]
        _, _, heads, items = decode_answers(body, [Reads(None, [b"", b""])])  # type: ignore[arg-type]
        assert [heads[head][0] for head, _, _ in items] == [200, 404]
        assert asked(shell, READS.decode())[0] == 405


def test_many_reads_that_take_long_are_answered_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: others waited for up to 30 ms until all keys with percent signs were read."""
    monkeypatch.setattr(point_batch, "STEP_S", 0.0)
    turns: list[None] = []

    async def turn() -> None:
        turns.append(None)

    monkeypatch.setattr(point_batch, "next_turn", turn)
    keys = [f"order {number}" for number in range(1000)]
    paths = [f"/orders/{quote(key)}".encode() for key in keys]
    entries = {key.encode(): b'{"n":%d}' % number for number, key in enumerate(keys)}
    with holding(tmp_path, ORDERS, entries) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        body = encode_paths(paths)
        assert shell.fast_path.reads_now(PlainPost(None, body), LOOPBACK) is None
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "raw_path": READS, "headers": [],
                 "query_string": b"", "client": (LOOPBACK, 1)}  # fmt: skip
        asyncio.run(shell(scope, receive, send))
        assert sent[0]["status"] == 200
        groups = [Reads(None, paths)]
        _, _, heads, items = decode_answers(sent[1]["body"], groups)
        for path, item in zip(paths, items, strict=True):
            assert item != ASK_ALONE
            alone = shell.fast_path.answer_now(path)
            assert alone is not None
            assert ageless(whole_answer(heads[item[0]], item)) == ageless(alone)
    assert len(turns) > 30
