"""A TCP proxy on 127.0.0.1 that injects faults: cut, refuse, silence, delay, limit the rate.

It binds its port at once and keeps it; the target can be set later.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

_CHUNK = 64 * 1024
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s: close(2) sends RST instead of FIN

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Link:
    """The faults of one direction. `delay` is in s, `rate` in bytes/s (0: no limit). `silent`:
    bytes are accepted and wait until the link changes, as if a cable was pulled."""

    delay: float = 0.0
    rate: float = 0.0
    silent: bool = False


PLAIN = Link()
SILENT = Link(silent=True)


class TcpFaults:
    """Forwards `port` to `target` (ports of 127.0.0.1), in its own thread and event loop."""

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self._socket: socket.socket | None = _listening(0)
        self.port = int(self._socket.getsockname()[1])
        self._up = PLAIN  # what clients send
        self._down = PLAIN  # what the target answers
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-faults")

    def __enter__(self) -> TcpFaults:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def shape(self, up: Link = PLAIN, down: Link = PLAIN) -> None:
        """Sets the faults of all connections, including open ones. PLAIN heals."""
        self._call(self._shape(up, down))

    def cut(self) -> None:
        """Resets all open connections; new ones are accepted."""
        self._call(self._cut())

    def refuse(self) -> None:
        """New connections are refused; open ones stay."""
        self._call(self._close())

    def accept(self) -> None:
        """Ends `refuse`."""
        self._call(self._listen())

    def heal(self) -> None:
        """Ends all faults, for new and open connections."""
        self.shape()
        self.accept()

    @property
    def connections(self) -> int:
        """The number of open connections of clients."""
        return len(self._writers) // 2

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        if self._server is None:
            listening = self._socket or _listening(self.port)
            self._socket = None
            self._server = await asyncio.start_server(self._accepted, sock=listening)

    async def _close(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            # asyncio leaves a connection open that it has accepted, but not yet given to the server
            for listening in server.sockets:
                self._loop.remove_reader(listening.fileno())
            for _ in range(3):
                await asyncio.sleep(0)
            server.close()

    async def _shape(self, up: Link, down: Link) -> None:
        self._up, self._down = up, down
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _cut(self) -> None:
        for writer in list(self._writers):
            _reset(writer)

    async def _end(self) -> None:
        await self._close()
        await self._cut()
        pumps = list(self._pumps)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _accepted(
        self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        this = asyncio.current_task()
        assert this is not None
        self._pumps.add(this)
        target: asyncio.StreamWriter | None = None
        try:
            target_reader, target = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers |= {client, target}
            both = [
                asyncio.ensure_future(self._pump(client_reader, target, lambda: self._up)),
                asyncio.ensure_future(self._pump(target_reader, client, lambda: self._down)),
            ]
            self._pumps.update(both)
            try:
                await asyncio.gather(*both)
            finally:
                for pump in both:
                    pump.cancel()
                self._pumps.difference_update(both)
            # both sides have closed the connection
            client.close()
            target.close()
        except (OSError, asyncio.CancelledError):
            _reset(client)
            if target is not None:
                _reset(target)
        finally:
            self._writers.discard(client)
            if target is not None:
                self._writers.discard(target)
            self._pumps.discard(this)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Callable[[], Link]
    ) -> None:
        while True:
            chunk = await reader.read(_CHUNK)
            if link().delay:
                await asyncio.sleep(link().delay)
            while True:
                while link().silent:
                    await self._changed.wait()
                if not chunk:
                    break
                # ten pieces per second, so that a slow link is slow and does not pause
                rate = link().rate
                piece = chunk[: max(1, int(rate / 10))] if rate else chunk
                chunk = chunk[len(piece) :]
                writer.write(piece)
                await writer.drain()
                if rate:
                    await asyncio.sleep(len(piece) / rate)
            if reader.at_eof():
                with contextlib.suppress(OSError):
                    writer.write_eof()
                return


def _listening(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    made.listen(128)
    return made


def _reset(writer: asyncio.StreamWriter) -> None:
    under = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        under.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
