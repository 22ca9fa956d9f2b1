"""Streamed answers. Their number is limited. They end when the client or the instance leaves, when
the token of the client expires or is revoked, and early if there is an error."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress

from backend.http.asgi import ENDED_EARLY_EXTENSION, Receive
from backend.http.limits.gates import Gate
from backend.http.request import Request
from backend.telemetry.rate_limited_log import RateLimitedLog
from backend.wire.answer import Answer
from model.problems import Problem, Unavailable

log = RateLimitedLog(logging.getLogger(__name__))


def end_early(request: Request, label: str, error: Exception) -> None:
    """Ends an answer of which a part was sent. The connection is closed before the end of the body,
    so a client never takes the part for the whole. `label`: of the route."""
    subject = label if request.view is None else f"{label} of {request.view.name}"
    kind, why = type(error).__name__, repr(error)
    bug: Exception | None = error
    if isinstance(error, Problem):
        kind, why, bug = error.code, f"{error.code}: {error.detail}", None
    # clients can cause many such errors, but one kind must not hide another kind
    log.warn(f"{subject}: {kind}", f"a stream of {subject} ends early: {why}", bug)
    request.scope.setdefault("extensions", {})[ENDED_EARLY_EXTENSION] = True


class Streams:
    """All streams of an instance; used in the event loop."""

    def __init__(self, limit: int) -> None:
        """`limit`: of concurrent streams."""
        self._gate = Gate("streams", limit)
        self._open: dict[asyncio.Task[None], Request] = {}
        self._draining = False
        self._is_ended: Callable[[Request], bool] = lambda _: False  # of the last `end_where`

    @contextmanager
    def place(self) -> Iterator[None]:
        """Reserves a place for a stream, also while it is being opened. Raises Unavailable."""
        self._check()
        with self._gate:
            yield

    def _check(self) -> None:
        if self._draining:
            raise Unavailable("draining", "This instance is stopping.")

    async def run(self, answer: Answer, chunks: AsyncGenerator[bytes], request: Request) -> None:
        """Send the answer's head, then the chunks as they arrive. Ends after the last chunk, when
        the client disconnects, when its token expires or is revoked, or on `end`. Unavailable, with
        nothing sent, after `end`."""
        self._check()
        identity = request.identity
        seconds = None if identity is None else max(identity.expires_at - time.time(), 0)
        sending = asyncio.create_task(self._send_all(answer, chunks, request), name="stream")
        disconnected = asyncio.create_task(
            _wait_for_disconnect(request.receive), name="stream-client"
        )
        self._open[sending] = request
        try:
            await asyncio.wait(
                (sending, disconnected), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._open.pop(sending, None)
            for task in (sending, disconnected):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    async def _send_all(
        self, answer: Answer, chunks: AsyncGenerator[bytes], request: Request
    ) -> None:
        send = request.send
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        with suppress(asyncio.CancelledError):
            # `end_where` may have been called while the stream was being opened
            if self._is_ended(request):
                chunks = _nothing()
            async with aclosing(chunks) as open_chunks:
                async for chunk in open_chunks:
                    if not request.is_admitted():
                        break
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def end_where(self, condition: Callable[[Request], bool]) -> None:
        """Ends the streams that meet the condition, also while they are being opened. They end
        normally, so their clients may open them again immediately. Called in any thread."""
        self._is_ended = condition
        for task, request in list(self._open.items()):
            if condition(request):
                task.get_loop().call_soon_threadsafe(task.cancel)

    def end(self) -> None:
        """Ends all open streams normally, and refuses new ones."""
        self._draining = True
        for task in list(self._open):
            task.cancel()


async def _nothing() -> AsyncGenerator[bytes]:
    return
    yield


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
