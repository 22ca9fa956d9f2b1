"""The answer to a batch has a limit in bytes, and so has what is read for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.queries import batch as batches
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import World, world


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as made:
        yield made


@pytest.mark.slow
def test_keys_beyond_the_largest_answer_are_asked_for_again(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand values of 1 MB each were put together: one request ended an instance."""
    monkeypatch.setattr(batches, "MAX_ANSWER_BYTES", 1_000_000)
    monkeypatch.setattr(batches, "_TURN", 8)
    value = b'"%b"' % (b"x" * 100_000)
    keys = [f"k{number}" for number in range(200)]
    orders.put_all({key.encode(): value for key in keys})
    answer = orders.batch(keys)
    assert answer.status == 200
    # of both instances together
    assert len(answer.body) < 1_000_000 + 4 * 100_100
    left = keys
    for _ in range(20):  # and so on: every key is answered in the end
        items = orders.batch(left).json["items"]
        assert [item["key"] for item in items] == left
        assert {item["status"] for item in items} <= {200, 503}
        assert {item.get("code") for item in items} <= {None, "overloaded"}
        left = [item["key"] for item in items if item["status"] == 503]
        if not left:
            return
    raise AssertionError(f"{len(left)} keys are never answered")


@pytest.mark.parametrize("instance", ["b1", "b2"])
def test_large_values_after_small_ones(
    orders: World, monkeypatch: pytest.MonkeyPatch, instance: str
) -> None:
    """The values of a whole turn were read and sent before they counted: 128 MB of 32 MiB."""
    monkeypatch.setattr(batches, "MAX_ANSWER_BYTES", 1_000_000)
    large, *small = [key for key in map(str, range(999)) if orders.partition(key.encode()) == 0]
    orders.put(large.encode(), b'"%b"' % (b"x" * 100_000))
    store = orders.store_partitions[0].store
    read, sizes = store.get_many, list[int]()

    def get_many(keys: list[bytes]) -> list[bytes | None]:
        found = read(keys)
        sizes.append(sum(len(each or b"") for each in found))
        return found

    store.get_many = get_many  # type: ignore[method-assign]
    answers: list[int] = []
    forward = orders.peers.forward

    async def counted(*asked: Any, **more: Any) -> Any:
        answer = await forward(*asked, **more)
        answers.append(len(answer.body))
        return answer

    monkeypatch.setattr(orders.peers, "forward", counted)
    said = orders.batch([*small[:40], *[large] * 500], instance)
    answers.append(len(said.body))
    items = said.json["items"]
    assert [item["status"] for item in items] == [404] * 40 + [200] * 10 + [503] * 490
    assert {item.get("code") for item in items} == {None, "overloaded"}
    assert max(answers) < 1_200_000  # also that of another instance
    assert max(sizes) <= 16 * 101_000
    assert sum(sizes) < 1_000_000 + 16 * 101_000
