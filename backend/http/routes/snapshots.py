"""Sends copies of store partitions to other instances: the files of a RocksDB checkpoint.

A checkpoint consists of hard links. Creating one flushes memtables, and the binding holds the
interpreter lock meanwhile. So instances request copies from standbys first.
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
from backend.ingest.protocols import Store
from backend.instance.context import InstanceContext
from backend.queries.moved_keys import lacks_tombstones
from backend.security.cluster import Sender
from backend.security.signatures import AnswerMac
from backend.wire.snapshot import PIECE, end_line, file_header
from model.machine.clock import boot_time
from model.problems import BadRequest, Problem, Unavailable
from model.progress import CATCHING_UP

log = logging.getLogger(__name__)

_MAX_COPIES = 2


class SnapshotSender:
    """Answers `POST /internal/copy`: `{"view", "hash", "partition"}`."""

    def __init__(self, context: InstanceContext) -> None:
        self._context = context
        self._in_progress = 0  # copies whose checkpoints are on the disk
        self._dropping: set[asyncio.Task[None]] = set()  # the event loop keeps no reference
        self._bandwidth = context.settings.copy_bandwidth
        # small enough for one piece a second: the receiver gives up after a silence
        self._piece = max(1, min(PIECE, int(self._bandwidth)))

    async def answer(self, body: bytes, send: Send, sender: Sender | None = None) -> Problem | None:
        """Sends the copy, or returns the problem. If the client stops reading, the worker closes
        the connection and cancels this. `sender`: None without a cluster secret."""
        try:
            request = orjson.loads(body)
            view, hash_, partition = request["view"], request["hash"], request["partition"]
        except (ValueError, KeyError, TypeError):
            view = hash_ = partition = None
        if type(view) is not str or type(hash_) is not str or type(partition) is not int:
            return BadRequest("bad-request", "The request must have view, hash and partition.")
        if not self._is_here(view, hash_, partition):
            return Unavailable("not-here", f"Partition {partition} of {view} is not here.")
        store_partition = self._context.store_partitions.get(view, partition)
        if store_partition is None or not store_partition.progress.answerable:
            now = boot_time()
            return Unavailable(
                CATCHING_UP,
                f"Partition {partition} of {view} is not complete yet.",
                seconds_left=store_partition and store_partition.seconds_left(now),
            )
        if lacks_tombstones(self._context, store_partition):
            return Unavailable(
                "repartitioned",
                f"Partition {partition} of {view} may lack deletes of moved keys here.",
            )
        if self._in_progress >= _MAX_COPIES:
            return Unavailable("overloaded", f"{_MAX_COPIES} copies are already being sent.")
        self._in_progress += 1
        began = time.monotonic()
        store = store_partition.store
        making = asyncio.create_task(asyncio.to_thread(store.checkpoint))
        try:
            # a thread cannot be cancelled
            folder = await asyncio.shield(making)
            if folder is None:
                return Unavailable("not-here", f"The store of view {view} does not support copies.")
            mac = None if sender is None else sender.answer_mac()
            size = await self._send(folder, send, mac)
            log.info(
                "view %s, partition %d: sent a copy of %d bytes in %.1f s",
                view, partition, size, time.monotonic() - began,
            )  # fmt: skip
        finally:
            # if the client has disconnected, this may be cancelled while it waits for the disk
            dropping = asyncio.create_task(_drop(store, making))
            self._dropping.add(dropping)
            dropping.add_done_callback(self._dropped)
            await asyncio.shield(dropping)
        return None

    def _dropped(self, dropping: asyncio.Task[None]) -> None:
        self._in_progress -= 1
        self._dropping.discard(dropping)

    def _is_here(self, view: str, hash_: str, partition: int) -> bool:
        """Whether the store partition, with this definition of the view, is open here or will be
        opened."""
        known_view = self._context.views.get(view)
        partition_id = (view, partition)
        return (
            known_view is not None
            and known_view.hash == hash_
            and (
                self._context.store_partitions.get(*partition_id) is not None
                or partition_id in self._context.ingest_loop.opening()
            )
        )

    async def _send(self, folder: Path, send: Send, mac: AnswerMac | None) -> int:
        content_type = (b"content-type", b"application/octet-stream")
        await send({"type": "http.response.start", "status": 200, "headers": [content_type]})
        files = total = 0
        began = time.monotonic()
        for path in sorted(folder.iterdir()):
            size = path.stat().st_size
            header = file_header(path.name, size)
            await _write(send, header)
            digest, remaining = hashlib.sha256(), size
            with path.open("rb") as file:
                while remaining > 0:
                    piece = await asyncio.to_thread(
                        _read_piece, file, digest, min(remaining, self._piece)
                    )
                    if not piece:
                        raise OSError(f"{path.name} has become shorter")
                    await _write(send, piece)
                    remaining -= len(piece)
                    total += len(piece)
                    ahead = total / self._bandwidth - (time.monotonic() - began)
                    await asyncio.sleep(max(0.0, ahead))
            await _write(send, digest.digest())
            if mac is not None:
                mac.add(header)
                mac.add(digest.digest())
            files += 1
        end = end_line(files, total)
        if mac is not None:
            mac.add(end)
            end += mac.hex() + b"\n"
        await _write(send, end, more=False)
        return total


async def _drop(store: Store, making: asyncio.Task[Path | None]) -> None:
    """Delete the checkpoint when it is made."""
    await asyncio.wait([making])
    if making.exception() is None and (folder := making.result()) is not None:
        await asyncio.to_thread(store.drop_checkpoint, folder)


def _read_piece(file: BinaryIO, digest: hashlib._Hash, size: int) -> bytes:
    piece = file.read(size)
    digest.update(piece)
    return piece


async def _write(send: Send, body: bytes, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
