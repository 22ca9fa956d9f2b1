"""The time for all instances that hang together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, cast

import pytest

from backend.queries.retry import Asker, Rounds
from backend.wire.answer import Answer as Sent
from model.problems import Unavailable
from model.topology import Member
from tests.support.in_process.instance import context


class Hanging:
    """A PeerClient of instances that hang: the clock goes on by as long as it waits for each."""

    def __init__(self, clock: list[float], forward_timeout: float) -> None:
        self._clock = clock
        self._forward_timeout = forward_timeout
        self.asked: list[str] = []

    def _wait(self, member: Member, timeout: float | None, within: float | None) -> Unavailable:
        self.asked.append(member.id)
        limits = (timeout, within, self._forward_timeout)
        self._clock[0] += min(limit for limit in limits if limit is not None)
        return Unavailable("owner-unreachable", "It hangs.")

    async def forward(
        self,
        member: Member,
        *_: Any,
        timeout: float | None = None,
        within: float | None = None,
    ) -> Sent:
        raise self._wait(member, timeout, within)

    @asynccontextmanager
    async def stream(
        self,
        member: Member,
        target: bytes,
        headers: Any,
        timeout: float | None = None,
        within: float | None = None,
    ) -> AsyncIterator[tuple[Sent, Any]]:
        raise self._wait(member, timeout, within)
        yield


@pytest.mark.parametrize("holders", [1, 2, 3, 5])
@pytest.mark.parametrize("forward_timeout", [0.5, 2.0, 3.0])
@pytest.mark.parametrize("is_stream", [False, True])
def test_all_that_hang_have_one_deadline(
    clock: list[float], holders: int, forward_timeout: float, is_stream: bool
) -> None:
    """Regression: with three holders that hang, an instance waited for 2.8 s. nginx waits for 2.5 s
    for its answer, so it seemed to hang, too."""
    peer_client = Hanging(clock, forward_timeout)
    asker = Asker(context(forward_timeout=forward_timeout), cast(Any, peer_client))
    members = [Member(f"h{n}", "127.0.0.1", 1) for n in range(holders)]

    async def stream() -> None:
        async with AsyncExitStack() as stack:
            await asker.begin_stream(stack, 0, members, b"/", [])

    async def ask() -> None:
        rounds = asker.rounds()

        async def attempt() -> bool:
            with suppress(Unavailable):
                await asker.ask(rounds.turn(0, members), "GET", b"/", [])
            return True

        await rounds.repeat(attempt)
        raise Unavailable("owner-unreachable", "")

    with pytest.raises(Unavailable):
        asyncio.run(stream() if is_stream else ask())
    assert set(peer_client.asked) == {member.id for member in members}, "each is asked"
    assert peer_client.asked[:holders] == [member.id for member in members]
    took = clock[0] - 100
    assert took <= max(forward_timeout, 2.0) + 1e-6
    if holders == 1:
        assert took >= forward_timeout


def test_nobody_is_asked_for_whom_too_little_time_is_left(clock: list[float]) -> None:
    """It would be suspected, although it does not hang."""

    async def ask() -> None:
        rounds: Rounds[str] = Rounds(0.2, limit=2.0)
        rounds.refused("not-up-to-offset")
        assert rounds.turn(0, ["a", "b"]).ends == 102
        clock[0] = 101.85
        assert not await rounds.again()

    asyncio.run(ask())
