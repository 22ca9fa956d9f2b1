"""Continuous reads, evenly distributed over the partitions. Each is recorded and checked later.

This is an open load: a request is sent at its time, even if earlier ones have no answer yet, so
requests that hang delay no others. Half of the requests, sent one by one, come from readers with
monotonic reads: they send the position that they have seen as `min_offset`. The others are sent
many at a time, so that nginx coalesces them.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from tests.faults.checking import Read
from tests.support.background import Background
from tests.support.client import key_path

TIMEOUT = 5.0  # s, of a client
_STALL = 0.05  # s between two ticks after which this process or its machine has stalled
_CROWD = 24  # simultaneous plain reads


class _Sessions:
    """GETs on kept connections, without a limit, because requests that hang must not delay others.

    A GET whose kept connection is closed without an answer is sent again on a new one, as HTTP
    clients do (RFC 9112, 9.3.1): nginx closes idle connections when it stops or is reloaded, also
    while a request arrives on them. aiohttp sends it again as well, but may take another kept
    connection that nginx has closed. A new connection that fails is an error.
    """

    async def __aenter__(self) -> _Sessions:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_kept)
        trace.on_connection_create_end.append(_note_new)
        self._kept = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=timeout, trace_configs=[trace]
        )
        self._new = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True), timeout=timeout
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._kept.close()
        await self._new.close()

    async def get(self, url: URL) -> tuple[int, CIMultiDictProxy[str], bytes]:
        """The status, the headers and the body."""
        connection = {"is kept": False}
        try:
            async with self._kept.get(url, trace_request_ctx=connection) as answer:
                return answer.status, answer.headers, await answer.read()
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            if not connection["is kept"]:
                raise
        async with self._new.get(url) as answer:
            return answer.status, answer.headers, await answer.read()


async def _note_kept(_: object, context: SimpleNamespace, __: object) -> None:
    context.trace_request_ctx["is kept"] = True


async def _note_new(_: object, context: SimpleNamespace, __: object) -> None:
    context.trace_request_ctx["is kept"] = False


class ReadLoad(Background):
    """Reads keys of `view` from `port` while it is entered. `keys`: partition -> keys."""

    _patience = 2 * TIMEOUT

    def __init__(
        self, port: int, view: str, keys: Mapping[int, Sequence[str]], rate: float = 300.0
    ) -> None:
        super().__init__("load")
        self._port = port
        self._paths = {
            partition: [(key, key_path(view, key)) for key in of_it]
            for partition, of_it in keys.items()
        }
        self._rate = rate
        self._positions: dict[int, int] = {}  # seen by the monotonic readers, by partition
        self._records: dict[str, int] = {}  # seen by the monotonic readers, by key
        self._random = random.Random(20130101)
        self.reads: list[Read] = []
        self.began = 0.0
        self.ended = 0.0
        # when this process stalled, and neither sent nor received: from, to
        self.stalls: list[tuple[float, float]] = []

    def reset_readers(self) -> None:
        """Clears the positions of the monotonic readers, because the topic was recreated."""
        self._positions = {}
        self._records = {}

    def good_since(self, moment: float) -> set[int]:
        """Partitions that gave a good answer to a request sent after `moment`."""
        found = set()
        for read in reversed(self.reads):
            if read.answered < moment:
                break
            if read.good and read.sent >= moment:
                found.add(read.home)
        return found

    def _work(self, number: int) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        async with _Sessions() as sessions:
            under_way: set[asyncio.Task[None]] = set()
            partitions = sorted(self._paths)
            self.began = due = last = time.monotonic()
            sent = 0
            while not self._stop.is_set():
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                now = time.monotonic()
                if now - last > _STALL:
                    self.stalls.append((last, now))
                last = now
                numbers = [(sent, True)]
                if sent % _CROWD == 0:
                    numbers += [(number, False) for number in range(_CROWD)]
                for number, follows in numbers:
                    partition = partitions[number % len(partitions)]
                    task = asyncio.create_task(self._ask(sessions, partition, follows))
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
                sent += 1
                due += 2 / self._rate
            self.ended = time.monotonic()
            if under_way:
                await asyncio.wait(under_way)

    async def _ask(self, sessions: _Sessions, partition: int, follows: bool) -> None:
        key, path = self._random.choice(self._paths[partition])
        floor, seen = -1, -1
        positions, records = self._positions, self._records
        if follows:
            floor = positions.get(partition, -1)
            seen = records.get(key, -1)
            if floor > 0:
                path += f"?min_offset={partition}:{floor - 1}"
        url = URL(f"http://127.0.0.1:{self._port}{path}", encoded=True)
        sent = time.monotonic()
        try:
            status, headers, body = await sessions.get(url)
            answered = time.monotonic()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            code = type(error).__name__
            self.reads.append(Read(sent, time.monotonic(), key, partition, 0, code))
            return
        read = Read(
            sent=sent,
            answered=answered,
            key=key,
            home=partition,
            status=status,
            code="" if status == 200 else _code(body),
            body=body if status == 200 else b"",
            partition=int(headers.get("Partition", -1)),
            offset=int(headers.get("Offset", -1)),
            record=_record(headers.get("ETag", "")),
            staleness=_seconds(headers.get("Staleness", "")),
            retry_after="Retry-After" in headers,
            served_by=headers.get("Served-By", ""),
            floor=floor,
            seen=seen,
        )
        self.reads.append(read)
        if follows and read.good and read.partition == partition:
            positions[partition] = max(positions.get(partition, -1), read.offset)
            records[key] = max(records.get(key, -1), read.record)


def _code(body: bytes) -> str:
    try:
        return str(json.loads(body)["code"])
    except (ValueError, KeyError, TypeError):
        return repr(body[:40])


def _record(etag: str) -> int:
    """The record offset in the ETag `"view-hash-partition-offset-form"`; -1 if there is none."""
    parts = etag.strip('"').rsplit("-", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else -1


def _seconds(ms: str) -> float:
    return int(ms) / 1000 if ms.isdecimal() else -1.0
