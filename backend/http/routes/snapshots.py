"""Sends another instance a copy of a store partition: a checkpoint of RocksDB, file by file.

A checkpoint is hard links; making it flushes memtables, for which the binding holds the interpreter
lock a while, so a standby is asked rather than the active.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from pathlib import Path
from typing import BinaryIO

import orjson

from backend.http.asgi import Send
from backend.instance_context import InstanceContext
from backend.wire.signing import verified
from backend.wire.snapshot import PIECE, end_line, file_header
from model.problems import BadRequest, Forbidden, Problem, Unavailable

log = logging.getLogger(__name__)

_AT_ONCE = 2


class SnapshotSender:
    """Answers `POST /internal/copy`, signed: `{"view", "hash", "partition"}`."""

    def __init__(self, context: InstanceContext) -> None:
        self._context = context
        self._under_way = 0
        self._bandwidth = context.settings.copy_bandwidth
        # at any bandwidth a piece is sent every second: the receiver gives up on silence
        self._piece = max(1, min(PIECE, int(self._bandwidth)))

    async def answer(self, body: bytes, send: Send) -> Problem | None:
        """Sends the copy, or returns the problem. If the client stops reading, the worker closes
        the connection, as for any client, and cancels this."""
        text = verified(body, self._context.topology.secret)
        if text is None:
            return Forbidden("not-a-member", "The request is not signed by a member of this group.")
        if self._under_way >= _AT_ONCE:
            return Unavailable("overloaded", f"{_AT_ONCE} copies are being sent already.")
        try:
            asked = orjson.loads(text)
            view, hash_, partition = asked["view"], asked["hash"], asked["partition"]
        except (ValueError, KeyError, TypeError):
            view = hash_ = partition = None
        if type(view) is not str or type(hash_) is not str or type(partition) is not int:
            return BadRequest("bad-request", "The request names no store partition.")
        store_partition = (
            self._context.store_partitions.get(view, partition)
            if view in self._context.views
            else None
        )
        if (
            store_partition is None
            or store_partition.view.hash != hash_
            or not store_partition.progress.answerable
        ):
            return Unavailable("not-here", f"Partition {partition} of {view} is not complete here.")
        self._under_way += 1
        folder: Path | None = None
        began = time.monotonic()
        try:
            folder = await asyncio.to_thread(store_partition.store.checkpoint)
            if folder is None:
                return Unavailable("not-here", f"View {view} has no files that can be copied.")
            size = await self._send(folder, send)
            log.info(
                "view %s, partition %d: a copy of %d bytes was sent in %.1f s",
                view, partition, size, time.monotonic() - began,
            )  # fmt: skip
        finally:
            self._under_way -= 1
            if folder is not None:
                await asyncio.to_thread(store_partition.store.drop_checkpoint, folder)
        return None

    async def _send(self, folder: Path, send: Send) -> int:
        kind = (b"content-type", b"application/octet-stream")
        await send({"type": "http.response.start", "status": 200, "headers": [kind]})
        files = total = 0
        began = time.monotonic()
        for path in sorted(folder.iterdir()):
            size = path.stat().st_size
            await _write(send, file_header(path.name, size))
            digest, left = hashlib.sha256(), size
            with path.open("rb") as file:
                while left > 0:
                    piece = await asyncio.to_thread(_piece, file, digest, min(left, self._piece))
                    if not piece:
                        raise OSError(f"{path.name} became shorter")
                    await _write(send, piece)
                    left -= len(piece)
                    total += len(piece)
                    ahead = total / self._bandwidth - (time.monotonic() - began)
                    await asyncio.sleep(max(0.0, ahead))
            await _write(send, digest.digest())
            files += 1
        await _write(send, end_line(files, total), more=False)
        return total


def _piece(file: BinaryIO, digest: hashlib._Hash, size: int) -> bytes:
    piece = file.read(size)
    digest.update(piece)
    return piece


async def _write(send: Send, body: bytes, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
