"""Reads that one instance forwards to another, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from backend.wire.answer import Answer, Header
from backend.wire.point_batch import READS
from model.problems import Unavailable
from model.topology import Member
from tests.support.in_process.world import Said, World

KEYS = [f"key-{n}" for n in range(40)]
# A request for several reads has no headers of a single one: this read is forwarded separately.
SEPARATELY: Header = (b"traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01")


def ask_all(
    made: World, targets: Sequence[str], headers: Sequence[Sequence[Header]] = ()
) -> list[Said]:
    """The answers of b1 to simultaneous reads of keys."""

    async def ask() -> list[Said]:
        each = headers or [()] * len(targets)
        reads = (
            made.request("b1", "GET", f"/views/orders/keys/{target}", headers=of)
            for target, of in zip(targets, each, strict=True)
        )
        return await asyncio.gather(*reads)

    return asyncio.run(ask())


def comparable(answer: Said) -> Answer:
    omitted = (b"staleness", b"topology-epoch", b"content-length")
    headers = sorted(header for header in answer.headers if header[0] not in omitted)
    return Answer(answer.status, headers, answer.body)


def batches(made: World) -> int:
    return made.peers.asked.count(("b2", READS))


def forwarded(made: World, keys: Sequence[str] = KEYS) -> int:
    """How many of the keys b1 has to forward."""
    return sum(made.partition(key.encode()) % 2 for key in keys)


Respond = Callable[[], Answer]


def silent() -> Answer:
    raise Unavailable("owner-unreachable", "down")


def respond(made: World, to_batches: Respond) -> None:
    """Makes b2 answer batches with `to_batches`, and other requests as usual."""
    forward = made.peers.forward

    async def answer(member: Member, method: str, target: bytes, *rest: Any, **more: Any) -> Answer:
        if target != READS:
            return await forward(member, method, target, *rest, **more)
        made.peers.asked.append((member.id, target))
        await asyncio.sleep(0)
        return to_batches()

    made.peers.forward = answer  # type: ignore[method-assign]
