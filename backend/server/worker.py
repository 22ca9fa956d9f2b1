"""The gunicorn worker: listens, notifies the arbiter, and stops without losing requests.

gunicorn's own ASGI worker leaves idle connections open on SIGTERM and does not enforce
`worker_connections`. It has no timeout for a request or for reading a response, and a request costs
more than a point read. docs/performance.md compares it with others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import Any

import uvloop
from gunicorn.arbiter import Arbiter
from gunicorn.asgi.lifespan import LifespanManager
from gunicorn.workers import base

from backend.server.handshake import connection_factory
from backend.server.server import Limits, Server

log = logging.getLogger("backend.server")

_NOTIFY_INTERVAL = 1.0  # s between two notifications of the arbiter
_SHUTDOWN_TIMEOUT = 10.0  # s for requests in flight when the worker stops


class Worker(base.Worker):  # type: ignore[misc]
    """Runs the server. SIGTERM: drain, close idle connections, finish requests in flight. SIGINT
    and SIGQUIT: stop immediately."""

    loop: asyncio.AbstractEventLoop

    def init_process(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.loop = self._runner.get_loop()
        self._stopping = asyncio.Event()
        self._is_draining = False
        self._is_immediate = False
        super().init_process()

    def init_signals(self) -> None:
        """Called by gunicorn in `init_process`."""
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        self.loop.add_signal_handler(signal.SIGTERM, self._drain)
        for number in (signal.SIGINT, signal.SIGQUIT):
            self.loop.add_signal_handler(number, self._quit)
        self.loop.add_signal_handler(signal.SIGABRT, self._abort)
        self.loop.add_signal_handler(signal.SIGUSR1, self.log.reopen_files)
        self.loop.add_signal_handler(signal.SIGWINCH, lambda: None)

    def run(self) -> None:
        """Called by gunicorn at the end of `init_process`."""
        with self._runner:
            self._runner.run(self._serve())

    def _drain(self) -> None:
        """Continue to answer until proxies and peers use other instances. A second signal stops at
        once."""
        if self._is_draining:
            self._stop()
            return
        self._is_draining = True
        self.loop.call_later(self.wsgi.drain(), self._stop)

    def _stop(self) -> None:
        self.alive = False
        self._stopping.set()

    def _quit(self) -> None:
        self._is_immediate = True
        if self.alive:
            self.cfg.worker_int(self)
        self._stop()

    def _abort(self) -> None:
        self.alive = False
        self.cfg.worker_abort(self)
        sys.exit(1)

    async def _serve(self) -> None:
        lifespan = LifespanManager(self.wsgi, self.log)
        try:
            await lifespan.startup()
        except Exception as error:
            log.critical("the application cannot start: %s", error)
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
        cfg = self.cfg
        limits = Limits(
            keepalive=cfg.keepalive,
            worker_connections=cfg.worker_connections,
            limit_request_line=cfg.limit_request_line,
            limit_request_fields=cfg.limit_request_fields,
            limit_request_field_size=cfg.limit_request_field_size,
        )
        server = Server(self.wsgi, limits, self.loop)
        listeners = [await self._listen(server, sock) for sock in self.sockets]
        await self._wait_for_stop()
        for listener in listeners:
            listener.close()
        await self._close_connections(server)
        if not self._is_immediate:
            await lifespan.shutdown()

    async def _listen(self, server: Server, sock: Any) -> asyncio.Server:
        listener = await self.loop.create_server(
            connection_factory(server, self.wsgi.certificates.listening),
            sock=sock.sock,
            backlog=self.cfg.backlog,
        )
        self.log.info("listening on %s", sock)
        return listener

    async def _wait_for_stop(self) -> None:
        self._check()
        await self._stopping.wait()

    def _check(self) -> None:
        """Notify the arbiter, again and again until the worker stops. If the arbiter has ended, the
        worker stops, too."""
        if not self.alive or self.ppid != os.getppid():
            self._stop()
            return
        self.loop.call_later(_NOTIFY_INTERVAL, self._check)
        self.notify()
        self.wsgi.certificates.refresh()

    async def _close_connections(self, server: Server) -> None:
        """Close idle connections, and abort the others if they do not end within the timeout."""
        server.keeps_connections = False
        for connection in list(server.connections):
            if connection.is_idle:
                connection.close()
        deadline = self.loop.time() + min(_SHUTDOWN_TIMEOUT, self.cfg.graceful_timeout)
        while server.connections and not self._is_immediate and self.loop.time() < deadline:
            self.notify()
            await asyncio.sleep(0.05)
        for connection in list(server.connections):
            connection.abort()
