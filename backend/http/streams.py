"""Endless answers. Their number is bounded; they end when the client or the instance goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress

from backend.http.asgi import Receive, Send
from backend.wire.answer import Answer
from model.problems import Unavailable


class Streams:
    """All streams of an instance; used in the event loop."""

    def __init__(self, most: int) -> None:
        """`most`: how many at once."""
        self._most = most
        self._places = 0
        self._open: set[asyncio.Task[None]] = set()
        self._draining = False

    @contextmanager
    def place(self) -> Iterator[None]:
        """Room for one more stream, also while it is being opened; Unavailable."""
        self._check()
        if self._places >= self._most:
            raise Unavailable("overloaded", f"{self._most} streams are open already.")
        self._places += 1
        try:
            yield
        finally:
            self._places -= 1

    def _check(self) -> None:
        if self._draining:
            raise Unavailable("draining", "This instance is about to stop.")

    async def run(
        self, answer: Answer, chunks: AsyncGenerator[bytes], receive: Receive, send: Send
    ) -> None:
        """Send the answer's head, then the chunks as they come, until there are no more, the client
        has gone, or `end`. Unavailable, with nothing sent, where that was before."""
        self._check()
        pump = asyncio.create_task(self._pump(answer, chunks, send), name="stream")
        gone = asyncio.create_task(_disconnect(receive), name="stream-client")
        self._open.add(pump)
        try:
            await asyncio.wait((pump, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open.discard(pump)
            for task in (pump, gone):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await pump

    async def _pump(self, answer: Answer, chunks: AsyncGenerator[bytes], send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        with suppress(asyncio.CancelledError):
            async with aclosing(chunks) as open_chunks:
                async for chunk in open_chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def end(self) -> None:
        """Open streams end normally, and no new ones begin."""
        self._draining = True
        for task in list(self._open):
            task.cancel()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
