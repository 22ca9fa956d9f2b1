"""Snapshots of store partitions: requests for one, and the stream of one."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any, cast

import orjson

from backend.http.routes.snapshots import SnapshotSender
from backend.security.cluster import Sender
from backend.storage.data_directory import DataDirectory
from backend.wire.snapshot import end_line, file_header
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import Instance


def stream_of(files: dict[str, bytes]) -> bytes:
    parts = [
        file_header(name, len(content)) + content + hashlib.sha256(content).digest()
        for name, content in files.items()
    ]
    return b"".join(parts) + end_line(len(files), sum(map(len, files.values())))


def member_of_a_group(folder: DataDirectory, copy_bandwidth: float = 1e12) -> Instance:
    """Instance b1, active for partition 0 of orders, without a cluster secret."""
    made = Instance(folder, ORDERS, copy_bandwidth=copy_bandwidth)
    made.place(0)
    return made


def asked(
    instance: Instance, body: bytes, sender: Sender | None = None
) -> tuple[list[dict[str, Any]], Any]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    problem = asyncio.run(SnapshotSender(instance.context).answer(body, cast(Any, send), sender))
    return sent, problem


def question(**more: Any) -> bytes:
    return orjson.dumps({"view": "orders", "hash": ORDERS.hash, "partition": 0, **more})
