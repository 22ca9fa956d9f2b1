"""Streamed answers. Their number is limited. They end when the client or the instance leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress

from backend.http.asgi import Receive, Send
from backend.http.gates import Gate
from backend.wire.answer import Answer
from model.problems import Unavailable


class Streams:
    """All streams of an instance; used in the event loop."""

    def __init__(self, limit: int) -> None:
        """`limit`: of concurrent streams."""
        self._gate = Gate("streams", limit)
        self._open: set[asyncio.Task[None]] = set()
        self._draining = False

    @contextmanager
    def place(self) -> Iterator[None]:
        """Reserves a place for a stream, also while it is being opened; Unavailable."""
        self._check()
        with self._gate:
            yield

    def _check(self) -> None:
        if self._draining:
            raise Unavailable("draining", "This instance is stopping.")

    async def run(
        self, answer: Answer, chunks: AsyncGenerator[bytes], receive: Receive, send: Send
    ) -> None:
        """Send the answer's head, then the chunks as they arrive. Ends after the last chunk, when
        the client disconnects, or on `end`. Unavailable, with nothing sent, after `end`."""
        self._check()
        sending = asyncio.create_task(self._send_all(answer, chunks, send), name="stream")
        disconnected = asyncio.create_task(_wait_for_disconnect(receive), name="stream-client")
        self._open.add(sending)
        try:
            await asyncio.wait((sending, disconnected), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open.discard(sending)
            for task in (sending, disconnected):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    async def _send_all(self, answer: Answer, chunks: AsyncGenerator[bytes], send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        with suppress(asyncio.CancelledError):
            async with aclosing(chunks) as open_chunks:
                async for chunk in open_chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def end(self) -> None:
        """Ends all open streams normally, and refuses new ones."""
        self._draining = True
        for task in list(self._open):
            task.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
