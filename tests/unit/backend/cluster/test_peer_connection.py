"""How one answer of an instance is read."""

from __future__ import annotations

import asyncio
import itertools

from hypothesis import given
from hypothesis import strategies as st

from backend.cluster.peer_connection import PeerConnection, RawAnswer


@given(st.binary(max_size=300), st.lists(st.integers(1, 400), max_size=12))
def test_an_answer_may_arrive_in_pieces(body: bytes, cuts: list[int]) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nServed-By:  b2\t\r\n\r\n"
    data = head % len(body) + body
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    answer, transport = asyncio.run(answered(pieces))
    assert answer.body == body
    assert answer.headers[1] == (b"served-by", b"b2")
    assert transport.is_aborted


class Transport:
    """Keeps nothing of what is sent."""

    is_aborted = False

    def is_closing(self) -> bool:
        return self.is_aborted

    def write(self, data: bytes) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


async def answered(pieces: list[bytes]) -> tuple[RawAnswer, Transport]:
    """After an answer that arrives in these pieces, and a byte that nobody has asked for."""
    loop, transport = asyncio.get_running_loop(), Transport()
    connection = PeerConnection(loop, None, lambda _: None)
    connection.connection_made(transport)
    asked = asyncio.create_task(connection.post(b"x", 60.0, loop.time() + 60))
    await asyncio.sleep(0)
    for number, piece in enumerate(pieces, 1):
        connection.data_received(piece)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asked.done() is (number == len(pieces))
    connection.data_received(b"x")
    answer = await asked
    connection.connection_lost(None)
    return answer, transport
