"""Batches: their size, and keys that fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.queries.key_bodies import MAX_KEYS, parse_batch
from model.limits import MAX_BATCH_BYTES
from queryable import BadUse, ServerError
from queryable.client.protocol.calls import batch
from queryable.client.protocol.calls.batch import split_into_batches
from queryable.client.protocol.transport import Response
from queryable.client.typed_views import TypedView
from tests.support.clients.scripted_transport import (
    VALUE,
    ok,
    orders,
)


def test_get_many_splits_batches_and_rereads_unavailable_keys() -> None:
    def items(first: int, last: int) -> Response:
        return ok(
            {"items": [{"key": str(n), "status": 200, "value": n} for n in range(first, last)]}
        )

    driver = orders(items(0, 1000), items(1000, 1001))
    answers = driver.call(batch.get_many, "orders", [str(n) for n in range(1001)])
    assert [answer.value for answer in answers] == list(range(1001))
    mixed = ok(
        {"items": [{"key": "x", "status": 404}, {"key": "a", "status": 503, "code": "nobody"}]}
    )
    driver = orders(mixed, VALUE)
    answers = driver.call(batch.get_many, "orders", ["x", "a"])
    assert [(answer.found, answer.value) for answer in answers] == [(False, None), (True, 1)]


def test_rejected_key_of_a_batch_keeps_its_status() -> None:
    item = {"items": [{"key": "a", "status": 500, "code": "store-failed"}]}
    with pytest.raises(ServerError) as raised:
        orders(ok(item)).call(batch.get_many, "orders", ["a"])
    assert raised.value.code == "store-failed"


small = st.sampled_from([b"7", b'"k"', b"[1,2,3]"])


large = st.sampled_from([b'"%b"' % (b"x" * 300_000), b"[%b]" % b",".join([b"[]"] * 5000)])


@given(st.lists(small | large, max_size=30), st.integers(0, 2100))
def test_batches_fit_the_limits_and_contain_every_key_once(keys: list[bytes], more: int) -> None:
    keys += [b'"k"'] * more
    batched: list[object] = []
    for start, end, body in split_into_batches(keys):
        assert start == len(batched)
        assert len(body) <= MAX_BATCH_BYTES
        found = parse_batch(body)
        assert 0 < len(found) == end - start <= MAX_KEYS
        batched += [key for key, _ in found]
    assert batched == [orjson.loads(key) for key in keys]


@dataclass
class Name:
    first: str


def test_keys_that_a_dict_cannot_have_are_refused_before_the_read() -> None:
    driver = orders()
    for kind, key in ((Name, Name("a")), (dict[str, str], {"first": "a"}), (list[str], ["a"])):
        typed = TypedView[Any, Any](driver, "orders", kind, dict)
        with pytest.raises(BadUse, match="get_many returns a dict"):
            typed.get_many([key])
    assert driver.requests == []
