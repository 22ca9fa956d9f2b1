"""Coalesced reads of keys: each gets the answer of a single read, or has to be sent separately."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.http import responses
from backend.http.router import Router
from backend.queries.point import State
from backend.security.token_cache import digest_of
from backend.wire.answer import Answer
from backend.wire.plain_requests import PlainPost
from backend.wire.point_batch import ABSENT, MAX_READS, READS, Reads, encode_reads
from model.records import ENTRY, ENTRY_HEAD_SIZE, entry_head, pushed_offset, tombstone_entry
from model.views import View
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import Instance
from tests.support.in_process.requests import LOOPBACK, asked
from tests.support.in_process.tokens import access_control, token, verify
from tests.support.point_batch import decode_answers, encode_keys, groups_of, whole_answers
from tests.unit.backend.http.point_reads.instances import (
    PARTITIONS,
    ageless,
    holding,
    place,
    write,
)


def answers_to(
    shell: Router, groups: list[Reads], tokens: Sequence[bytes] = (), are_text: bool = True
) -> dict[bytes, Answer | None]:
    """The answer to the read of each key; None for those that have to be sent separately.
    `are_text`: whether keys of the view are text."""
    answer = shell.fast_path.reads_now(
        PlainPost(None, encode_reads(list(map(digest_of, tokens)), groups)), LOOPBACK
    )
    assert answer.status == 200, answer.body
    decoded = decode_answers(answer.body, groups)
    found: dict[bytes, Answer | None] = {}
    for group, answers in zip(groups, decoded.keys, strict=True):
        keys = [text[1:] for text in group.texts]
        for key, whole in zip(keys, whole_answers(answers, keys, are_text), strict=True):
            if whole is None:
                found[key] = None
                continue
            more = [
                (b"content-length", b"%d" % len(whole.body)), (b"topology-epoch", decoded.epoch),
            ]  # fmt: skip
            found[key] = Answer(whole.status, [*whole.headers, *more], whole.body)
    return found


def comparable(answer: Answer) -> Answer:
    """Without the age, and with the headers in one order."""
    without_age = ageless(answer)
    return replace(without_age, headers=sorted(without_age.headers), role="")


def assert_as_alone(
    instance: Instance,
    shell: Router,
    of: View,
    keys: Sequence[bytes],
    partitions: int = PARTITIONS,
) -> dict[bytes, Answer | None]:
    counts = instance.context.telemetry.counts[of.name]
    before = replace(counts)
    answers = answers_to(shell, groups_of(of, keys, partitions))
    statuses = [answer.status for answer in answers.values() if answer is not None]
    assert (counts.found - before.found, counts.missed - before.missed) == (
        statuses.count(200),
        statuses.count(404),
    )
    for key, answer in answers.items():
        if answer is not None:
            alone = shell.fast_path.answer_now(b"/views/%b/keys/%b" % (of.name.encode(), key))
            assert alone is not None
            assert comparable(answer) == comparable(alone), key
    return answers


KEYS = st.from_regex(rb"[A-Za-z0-9!$&'()*+,;=:@._~-]{1,8}", fullmatch=True)


@settings(max_examples=examples(25))
@given(st.dictionaries(KEYS, st.integers(), max_size=8), st.sets(KEYS, max_size=60))
def test_each_read_is_answered_as_if_sent_separately(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[bytes, int], more: set[bytes]
) -> None:
    stored = {key: b'{ "n":%d}' % n for key, n in entries.items()}
    with holding(tmp_path_factory.mktemp("data"), ORDERS, stored) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        keys = [*entries, *(more - entries.keys())]
        if keys:
            answers = assert_as_alone(instance, shell, ORDERS, keys)
            assert {key for key, a in answers.items() if a is not None} == set(keys)
            assert {k for k, a in answers.items() if a is not None and a.status == 200} == set(
                entries
            )


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("string", b'a "text"'), ("int32", b"\0\0\0\7"), ("bytes", b"\0\xff"), ("none", b"?"),
        ("float64", b"\x7f\xf0" + b"\0" * 6), ("json", b' {"n": 1} '),
    ],
)  # fmt: skip
def test_values_of_any_format_are_answered(tmp_path: Path, value: str, stored: bytes) -> None:
    of = view(value=value)
    with holding(tmp_path, of, {b"a": stored}) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        answers = assert_as_alone(instance, shell, of, [b"a", b"nobody"])
        assert None not in answers.values()


@pytest.mark.parametrize("retention", [None, 1000])
def test_deleted_expired_and_pushed_entries(tmp_path: Path, retention: int | None) -> None:
    of = replace(ORDERS, retention=retention)
    with holding(tmp_path, of, {b"a": b"1", b"b": b"2"}, partitions=1) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        store_partition = instance.context.store_partitions.get("orders", 0)
        assert store_partition is not None
        pushed = entry_head(5, pushed_offset("push")) + b"[]"
        write(store_partition, {ENTRY + b"b": tombstone_entry(1, 9), ENTRY + b"pushed": pushed})
        answers = assert_as_alone(instance, shell, of, [b"a", b"b", b"pushed"], 1)
        assert [answer and answer.status for answer in answers.values()] == [200, 404, 200]
        if retention is not None:
            store_partition.store.stream_time = 10**6
            answers = assert_as_alone(instance, shell, of, [b"a", b"b", b"pushed"], 1)
            assert {answer and answer.status for answer in answers.values()} == {404}


def test_large_values_are_sent_separately(tmp_path: Path) -> None:
    entries = {b"small": b'"%b"' % (b"x" * 65_000), b"large": b'"%b"' % (b"x" * 66_000)}
    with holding(tmp_path, ORDERS, entries) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        answers = assert_as_alone(instance, shell, ORDERS, [b"small", b"large"])
        assert answers[b"small"] is not None
        assert answers[b"large"] is None


def alone(shell: Router, words: bytes, *keys: bytes) -> bool:
    """Whether the keys of this group have to be sent separately."""
    answers = answers_to(shell, [Reads(words, [ENTRY + key for key in keys])])
    assert len(set(map(type, answers.values()))) == 1
    return None in answers.values()


def test_groups_that_this_instance_sees_differently_are_sent_separately(tmp_path: Path) -> None:
    with holding(tmp_path, ORDERS, {b"a": b"1"}, partitions=1) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        for _ in range(2):  # also when it knows the group
            assert not alone(shell, b"orders string murmur2 1 0", b"a", b"nobody")
            for words in (
                b"orders string murmur2 2 0", b"orders string crc32 1 0",
                b"orders string murmur2 1 1", b"others string murmur2 1 0",
                b"orders string murmur2 1 -1", b"orders string murmur2 x 0",
                b"orders  murmur2 1 0", b"orders string murmur2 1", b"nothing",
                b"orders/x string murmur2 1 0", b"orders bytes murmur2 1 0",
                b"orders string string murmur2 1 0",
            ):  # fmt: skip
                assert alone(shell, words, b"a")
        assert alone(shell, b"orders string murmur2 1 0", b"k" * 8193)
        assert not alone(shell, b"orders string murmur2 1 0", b"k" * 8192)
        instance.place(0, 0)
        assert alone(shell, b"orders string murmur2 1 0", b"a"), "partitions were added"
        instance.place(0, mispartitioned=True)
        assert alone(shell, b"orders string murmur2 1 0", b"a"), "the key may be in any partition"


def test_a_miss_of_a_key_that_may_have_moved_is_sent_separately(tmp_path: Path) -> None:
    """The store was built before partitions were added, and the topology does not say so yet."""
    with holding(tmp_path, ORDERS, {}, partitions=2) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        keys = [b"%d" % n for n in range(20)]
        stayed, moved = ([key for key in keys if place(key, 2) == n] for n in range(2))
        assert moved
        assert stayed
        assert not alone(shell, b"orders string murmur2 2 1", *moved)
        for store_partition in instance.context.store_partitions.all():
            store_partition.metadata = replace(store_partition.metadata, partitions=1)
        assert not alone(shell, b"orders string murmur2 2 0", *stayed)
        assert alone(shell, b"orders string murmur2 2 1", *moved)


def test_reads_that_have_to_wait_or_be_forwarded_are_sent_separately(tmp_path: Path) -> None:
    with holding(tmp_path, ORDERS, {b"a": b"1"}, partitions=1) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        words = b"orders string murmur2 1 0"
        store_partition = instance.context.store_partitions.get("orders", 0)
        assert store_partition is not None
        store_partition.progress.answerable = False
        assert alone(shell, words, b"a")
        store_partition.progress.answerable = True
        assert not alone(shell, words, b"a")
        store_partition.store.close()
        assert alone(shell, words, b"a")
        instance.context.store_partitions.remove(store_partition)
        assert alone(shell, words, b"a")


def test_a_token_must_be_allowed_to_read_the_view(tmp_path: Path) -> None:
    with holding(tmp_path, ORDERS, {b"a": b"1"}, partitions=1) as instance:
        access = access_control()
        shell = Router(instance.context, None, access)  # type: ignore[arg-type]
        tokens = [token("read:prices").encode(), token("read:orders").encode(), b"nonsense"]
        for each in tokens[:2]:
            verify(access, each)
        may_read = [False, False, True, False]  # the first one: without a token
        words, keys = b"orders string murmur2 1 0", [b"a", b"b"]
        for number, is_answered in enumerate(may_read):
            group = Reads(words, [ENTRY + key for key in keys], [number])
            answers = answers_to(shell, [group], tokens)
            assert [answer is not None for answer in answers.values()] == [is_answered] * 2


def test_reads_with_several_tokens_may_be_in_one_group(tmp_path: Path) -> None:
    tokens = [token("read:prices").encode(), token("read:orders").encode()]
    stored = {b"%d" % n: b"%d" % n for n in range(0, 40, 2)}
    with holding(tmp_path, ORDERS, stored, partitions=1) as instance:
        access = access_control()
        for each in tokens:
            verify(access, each)
        shell = Router(instance.context, None, access)  # type: ignore[arg-type]
        numbers = [n % 3 for n in range(40)]
        keys = [b"%d" % n for n in range(40)]
        group = Reads(b"orders string murmur2 1 0", [ENTRY + key for key in keys], numbers)
        answers = answers_to(shell, [group], tokens)
        for key, number in zip(keys, numbers, strict=True):
            answer = answers[key]
            if number != 2:
                assert answer is None
                continue
            alone = shell.fast_path.answer_now(b"/orders/" + key, tokens[1])
            assert answer is not None
            assert alone is not None
            assert comparable(answer) == comparable(alone)
            assert answer.status == (200 if key in stored else 404)
        assert set(answers_to(shell, [group._replace(tokens=[1] * 40)], tokens).values()) == {None}


def test_headers_follow_the_role(tmp_path: Path) -> None:
    with holding(tmp_path, ORDERS, {b"a": b"1"}, partitions=1) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        store_partition = instance.context.store_partitions.get("orders", 0)
        assert store_partition is not None
        for role in ("active", "standby", "active"):
            store_partition.role = role
            [answer] = assert_as_alone(instance, shell, ORDERS, [b"a"], 1).values()
            assert answer is not None
            assert dict(answer.headers)[b"served-by"].endswith(role.encode())


def test_too_many_reads_are_refused(tmp_path: Path) -> None:
    with holding(tmp_path, ORDERS, {b"a": b"1"}) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        answered, refused = (
            shell.fast_path.reads_now(
                PlainPost(None, encode_keys(ORDERS, [b"a"] * count)), LOOPBACK
            )
            for count in (MAX_READS, MAX_READS + 1)
        )
        assert answered.status == 200
        assert (refused.status, json.loads(refused.body)["code"]) == (400, "too-many-keys")


def test_the_route_gives_the_same_answer(tmp_path: Path) -> None:
    """A body that arrives later than its headers is parsed as an ordinary request."""
    with holding(tmp_path, ORDERS, {b"a": b"1"}) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        groups = groups_of(ORDERS, [b"a", b"b"])
        body = encode_reads([], groups)
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "method": "POST", "raw_path": READS, "headers": [], "query_string": b"",
            "client": (LOOPBACK, 1),
        }  # fmt: skip
        asyncio.run(shell(scope, receive, send))
        now = shell.fast_path.reads_now(PlainPost(None, body), LOOPBACK)
        assert sent[0]["status"] == 200
        # the digits of a staleness change its length
        assert [name for name, _ in sent[0]["headers"]] == [name for name, _ in now.headers]
        decoded = decode_answers(sent[1]["body"], groups)
        sizes = {
            text[1:]: size
            for group, answers in zip(groups, decoded.keys, strict=True)
            for text, size in zip(group.texts, answers[3], strict=True)
        }
        assert sizes == {b"a": ENTRY_HEAD_SIZE + 1, b"b": ABSENT}
        assert asked(shell, READS.decode())[0] == 405


def test_headers_of_a_former_version_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread makes a version current while the headers of the former one are formatted."""
    with holding(tmp_path, ORDERS, {b"a": b"1"}, partitions=1) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        format_lines = responses.lines_of
        switched: list[bool] = []

        def lines_of(headers: Any) -> bytes:
            lines = format_lines(headers)
            if not switched:
                switched.append(True)
                headers_of_view = [(b"view-version", b"2")]
                monkeypatch.setattr(
                    instance.context.group, "view_headers", lambda of: headers_of_view
                )
                for use_versions in instance.context.group.on_versions:
                    use_versions()
            return lines

        monkeypatch.setattr(responses, "lines_of", lines_of)
        groups = groups_of(ORDERS, [b"a"], 1)
        versions = []
        for _ in range(2):
            [answer] = answers_to(shell, groups).values()
            assert answer is not None
            versions.append(dict(answer.headers).get(b"view-version"))
        assert switched
        assert versions[1] == b"2"


def test_headers_are_kept_for_the_role_that_they_name(tmp_path: Path) -> None:
    """Another thread changes the role while the headers are formatted."""

    class Changing:
        partition_header, etag_format = b"0", b'"orders-0-%d-%b"'

        def __init__(self, *roles: str) -> None:
            self.roles = itertools.cycle(roles)

        @property
        def role(self) -> str:
            return next(self.roles)

    with holding(tmp_path, ORDERS, {}, partitions=1) as instance:
        of_orders = responses.KeyResponses(instance.reads, instance.context)
        changing: Any = Changing("active", "standby")
        for _ in range(4):
            of_orders.lines(State(changing, 1, 0, 0.0))
        for role in ("active", "standby"):
            fixed, _ = of_orders.lines(State(Changing(role), 1, 0, 0.0))  # type: ignore[arg-type]
            assert f"; {role}\n".encode() in fixed
