"""Reads with tokens: on the fast path, and coalesced. An answer needs a verified token with the
scope for its view; any other read is left to the router, which refuses it or verifies its token."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.http.access import AccessControl
from backend.http.router import Router
from backend.security.token_cache import digest_of
from backend.security.tokens import TokenVerifier
from backend.storage.data_directory import DataDirectory
from backend.wire.answer import Answer
from backend.wire.plain_requests import PlainPost
from backend.wire.point_batch import Reads, encode_reads
from model.machine.clock import boot_time
from model.problems import Unauthenticated
from model.records import ENTRY
from model.topology import Epoch, PlacedView, Topology
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import ME, Instance, context
from tests.support.in_process.tokens import Keys, access_control, verify
from tests.support.in_process.tokens import token as token_text
from tests.support.point_batch import decode_answers, whole_answers

PRICES = view(name="prices", path="/prices")
KEYS = ("a", "b", "c d")
OTHER_SECRET = b"another secret, which is also long enough"


def token(*scopes: str, **options: Any) -> bytes:
    return token_text(*scopes, **options).encode()


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """Two views; a value names its view and its key."""
    data = DataDirectory(tmp_path_factory.mktemp("data"))
    made = Instance(data, ORDERS)
    made.context = context([ORDERS, PRICES])
    placed = {of.name: PlacedView(of.description(), of.hash, (0,)) for of in (ORDERS, PRICES)}
    made.context.group.apply_topology(Topology(Epoch(5, 1), (ME,), placed))
    for of in (ORDERS, PRICES):
        made.view = of
        entries = {key.encode(): json.dumps([of.name, key]).encode() for key in KEYS}
        made.hold(0, entries).progress.end_fetched(len(entries), boot_time())
    yield made
    made.close()
    data.close()


def router(instance: Instance, access: AccessControl) -> Router:
    return Router(instance.context, None, access)  # type: ignore[arg-type]


PathsOfToken = tuple[bytes | None, list[bytes]]


def coalesced(
    shell: Router, of_tokens: list[PathsOfToken], mixed: bool = False
) -> list[tuple[int, bytes] | None]:
    """Status and body of each read; None for those that must be sent separately. `mixed`: one group
    for each view, instead of one for each read."""
    tokens = [token for token, _ in of_tokens if token is not None]
    numbers: dict[bytes | None, int] = {token: n for n, token in enumerate(tokens, 1)}
    reads = [
        (PATHS[path], unquote_to_bytes(path.rpartition(b"/")[2]), numbers.get(token, 0))
        for token, paths in of_tokens
        for path in paths
    ]
    grouped: dict[str, list[int]] = {}
    for index, (of, _, _) in enumerate(reads):
        grouped.setdefault(of if mixed else f"{of} {index}", []).append(index)
    groups = [
        Reads(
            b"%b string murmur2 1 0" % reads[indexes[0]][0].encode(),
            [ENTRY + reads[index][1] for index in indexes],
            [reads[index][2] for index in indexes],
        )
        for indexes in grouped.values()
    ]
    answer = shell.fast_path.reads_now(
        PlainPost(None, encode_reads(list(map(digest_of, tokens)), groups)), "127.0.0.1"
    )
    assert answer.status == 200, answer.body
    decoded = decode_answers(answer.body, groups)
    answers: dict[int, tuple[int, bytes] | None] = {}
    for indexes, of_keys in zip(grouped.values(), decoded.keys, strict=True):
        keys = [reads[index][1] for index in indexes]
        for index, whole in zip(indexes, whole_answers(of_keys, keys), strict=True):
            answers[index] = None if whole is None else (whole.status, whole.body)
    return [answers[index] for index in range(len(reads))]


def single(shell: Router, path: bytes, sent: bytes | None) -> tuple[int, bytes] | None:
    answer = shell.fast_path.answer_now(path, sent)
    return None if answer is None else (answer.status, answer.body)


ORDERS_TOKEN, PRICES_TOKEN, ANY_VIEW = token("read:orders"), token("read:prices"), token("read:*")
READABLE = {
    None: (),
    ORDERS_TOKEN: ("orders",),
    PRICES_TOKEN: ("prices", ),
    ANY_VIEW: ("orders", "prices"),
    token("read:orders", "read:prices", "admin"): ("orders", "prices"),
    token("admin", "append:orders", "read:order", "read:orders2"): (),
    token("read:*", seconds=-10): (),
    token("read:*", key=OTHER_SECRET): (),
    ANY_VIEW[:-2]: (),
    b"garbage": (),
}  # fmt: skip
PATHS = {
    **{f"/orders/{key.replace(' ', '%20')}".encode(): "orders" for key in KEYS},
    **{f"/views/prices/keys/{key.replace(' ', '%20')}".encode(): "prices" for key in KEYS},
    b"/prices/nobody": "prices",
    b"/orders/nobody": "orders",
}
GROUPS = st.dictionaries(
    st.sampled_from(list(READABLE)),
    st.lists(st.sampled_from(list(PATHS)), min_size=1, max_size=8),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(150))
@given(reads=GROUPS, known=st.sets(st.sampled_from([ORDERS_TOKEN, PRICES_TOKEN, ANY_VIEW])))
@example(reads={None: [b"/orders/a"]}, known=set())
@example(reads={None: [b"/orders/a"], ANY_VIEW: [b"/orders/a"]}, known=set())
def test_answers_need_the_scope_of_the_token_of_the_read(
    instance: Instance, reads: dict[bytes | None, list[bytes]], known: set[bytes]
) -> None:
    access = access_control()
    for each in known:
        verify(access, each)
    shell, open_to_all = router(instance, access), router(instance, AccessControl(None))
    groups = list(reads.items())
    found = coalesced(shell, groups)
    assert coalesced(shell, groups, mixed=True) == found
    answers = iter(found)
    for sent, paths in groups:
        for path in paths:
            answer = next(answers)
            if PATHS[path] not in READABLE[sent] or sent not in known:
                assert answer is None
                assert single(shell, path, sent) is None
            else:
                assert answer == single(shell, path, sent) == single(open_to_all, path, None)
                assert answer is not None
    assert next(answers, None) is None


@given(reads=GROUPS)
@settings(max_examples=examples(30))
def test_tokens_change_nothing_if_authentication_is_off(
    instance: Instance, reads: dict[bytes | None, list[bytes]]
) -> None:
    shell = router(instance, AccessControl(None))
    groups = list(reads.items())
    paths = [path for _, of_token in groups for path in of_token]
    assert coalesced(shell, groups) == coalesced(shell, [(None, paths)])
    for path in paths:
        assert single(shell, path, b"anything") == single(shell, path, None)


def test_the_fast_path_verifies_no_token(instance: Instance) -> None:
    keys = Keys()
    access = access_control(keys)
    shell = router(instance, access)
    assert shell.fast_path.answer_now(b"/orders/a", ORDERS_TOKEN) is None
    assert keys.verifications == 0
    verify(access, ORDERS_TOKEN)
    assert isinstance(shell.fast_path.answer_now(b"/orders/a", ORDERS_TOKEN), Answer)
    assert shell.fast_path.answer_now(b"/prices/a", ORDERS_TOKEN) is None
    assert keys.verifications == 1


def test_a_batch_verifies_no_token(instance: Instance) -> None:
    keys = Keys()
    access = access_control(keys)
    shell = router(instance, access)
    paths = [b"/orders/a", b"/views/prices/keys/a", b"/orders/c%20d", b"/orders/b"]
    assert coalesced(shell, [(ORDERS_TOKEN, paths)]) == [None] * len(paths)
    assert keys.verifications == 0
    verify(access, ORDERS_TOKEN)
    answers = coalesced(shell, [(ORDERS_TOKEN, paths)])
    assert [answer is not None for answer in answers] == [True, False, True, True]
    assert keys.verifications == 1


def test_a_digest_is_no_token(instance: Instance) -> None:
    """Who learns the digest of a token could otherwise read with it."""
    access = access_control()
    verify(access, ORDERS_TOKEN)
    shell, digest = router(instance, access), digest_of(ORDERS_TOKEN)
    assert single(shell, b"/orders/a", ORDERS_TOKEN) is not None
    assert single(shell, b"/orders/a", digest) is None
    assert coalesced(shell, [(digest, [b"/orders/a"])]) == [None]
    with pytest.raises(Unauthenticated):
        verify(access, digest)


def test_an_expired_token_and_one_of_an_old_key_get_no_answer(instance: Instance) -> None:
    keys, now = Keys(), time.time()
    clock = [now]
    access = AccessControl(TokenVerifier(keys, clock=lambda: clock[0]))
    shell = router(instance, access)
    group: PathsOfToken = (token("read:orders", seconds=60), [b"/orders/a"])

    def answered() -> list[bool]:
        alone = shell.fast_path.answer_now(b"/orders/a", group[0])
        return [alone is not None, coalesced(shell, [group]) != [None]]

    assert answered() == [False, False]
    verify(access, group[0])
    assert answered() == [True, True]
    clock[0] = now + 61
    assert answered() == [False, False]
    clock[0] = now
    assert answered() == [True, True]
    keys.rotate(OTHER_SECRET)
    assert answered() == [False, False]


def test_counts_are_those_of_the_answered_reads(instance: Instance) -> None:
    access = access_control()
    verify(access, ORDERS_TOKEN)
    shell = router(instance, access)
    before = {name: replace(counts) for name, counts in instance.context.telemetry.counts.items()}
    paths = [b"/orders/a", b"/orders/nobody", b"/views/prices/keys/a"]
    coalesced(shell, [(None, paths), (ORDERS_TOKEN, paths)])
    after = instance.context.telemetry.counts
    assert after["orders"].found - before["orders"].found == 1
    assert after["orders"].missed - before["orders"].missed == 1
    assert after["prices"].found == before["prices"].found
