"""Plain reads that an instance forwards as their bytes arrive, without the router."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.telemetry.logs import REQUESTS
from backend.wire.answer import Answer
from backend.wire.point_batch import READS
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.tokens import access_control, bearer, verify
from tests.support.in_process.world import Said, World, world
from tests.unit.backend.http.point_reads.forwards import (
    KEYS,
    SEPARATELY,
    ask_all,
    comparable,
    forwarded,
    respond,
    silent,
)


def forward_now(
    made: World, targets: Sequence[str], token: bytes | None = None
) -> list[Answer | None]:
    """The answers to reads that b1 receives as plain requests; None: the router is needed."""

    async def run() -> list[Answer | None]:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[Answer | None]] = []
        for target in targets:
            future: asyncio.Future[Answer | None] = loop.create_future()
            path = f"/views/orders/keys/{target}".encode()
            router = made.routers["b1"]
            # as a connection does
            answered = router.fast_path.answer_now(path, token) is not None
            if answered or not router.fast_path.forward_now(path, token, future.set_result):
                future.set_result(None)
            waiting.append(future)
        async with asyncio.timeout(10):
            return await asyncio.gather(*waiting)

    return asyncio.run(run())


def test_plain_reads_are_forwarded_without_the_router(made: World) -> None:
    keys = [key for key in KEYS if forwarded(made, [key])] + [f"missing-{n}" for n in range(9)]
    separately = ask_all(made, keys, [[SEPARATELY]] * len(keys))
    asked = len(made.peers.asked)
    counts = made.instances["b1"].context.telemetry.counts["orders"]
    before = counts.forwarded
    latencies = made.instances["b1"].context.telemetry.latencies
    observed = latencies.client_totals()[0]
    answers = forward_now(made, keys)
    assert made.peers.asked[asked:] == [("b2", READS)]
    of_others = [answer for answer in answers if answer is not None]
    assert len(of_others) >= forwarded(made)
    assert counts.forwarded - before == len(of_others)
    assert latencies.client_totals()[0] - observed == len(of_others)
    for key, answer, expected in zip(keys, answers, separately, strict=True):
        assert (answer is not None) == bool(forwarded(made, [key]))
        if answer is not None:
            said = Said(answer.status, answer.headers, answer.body)
            assert comparable(said) == comparable(expected)
            named = dict(answer.headers)
            assert named[b"content-length"] == b"%d" % len(answer.body)
            assert named[b"topology-epoch"] == b"5-1"


def test_what_this_instance_can_decide_is_not_forwarded(made: World) -> None:
    own = [key for key in KEYS if not forwarded(made, [key])]
    other = next(key for key in KEYS if forwarded(made, [key]))
    for targets in (own, ["%zz"], ["a/b"], ["k" * 9000], [f"{other}/changes"]):
        assert forward_now(made, targets) == [None] * len(targets)
    made.place(0, 1, 0, 1, mispartitioned=True)
    assert forward_now(made, KEYS) == [None] * len(KEYS)
    assert made.peers.asked == []


@pytest.mark.parametrize("fault", ["silent", "refuses", "catching-up", "large"])
def test_the_router_decides_if_the_instance_has_no_answer(made: World, fault: str) -> None:
    key = next(key for key in KEYS if forwarded(made, [key]))
    if fault == "silent":
        respond(made, silent)
    elif fault == "refuses":
        respond(made, lambda: Answer(403, [], b""))
    elif fault == "catching-up":
        made.store_partitions[made.partition(key.encode())].progress.answerable = False
    else:
        made.put(key.encode(), b'"%b"' % (b"x" * 70_000))
    assert forward_now(made, [key]) == [None]
    assert made.peers.asked == [("b2", READS)]


@pytest.mark.slow
def test_reads_that_are_counted_logged_or_not_admitted_are_left_to_the_router(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def is_left(of: Any = ORDERS, access: Any = None, token: bytes | None = None) -> bool:
        nonlocal number
        number += 1
        with world(tmp_path / str(number), of, access) as made:
            made.put_all({key.encode(): b"1" for key in KEYS})
            found = forward_now(made, KEYS, token)
            asked = made.peers.asked
            assert len(asked) in (0, 1)
            assert (found == [None] * len(KEYS)) == (not asked)
            return not asked

    number = 0
    assert not is_left()
    assert is_left(replace(ORDERS, quota=100))
    with caplog.at_level("INFO", REQUESTS.name):
        assert is_left()
    mine = bearer("read:orders")[1].removeprefix(b"Bearer ")
    access = access_control()
    assert is_left(access=access, token=mine), "it was not verified yet"
    verify(access, mine)
    assert not is_left(access=access, token=mine)
    assert is_left(access=access)
    other = bearer("read:others")[1].removeprefix(b"Bearer ")
    verify(access, other)
    assert is_left(access=access, token=other)
