"""Pushes without Spark: rows are written and published as the data source's tasks and driver do."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from model.pushes.manifest import Manifest, Pinned
from model.views import View
from spark.batch.folder import PushFolder, new_id
from spark.batch.writer import PushWriter, TaskFiles


def pinned(view: View, offsets: Sequence[int], at: int | None = None) -> Pinned:
    """The end offsets of the view's topic, by partition; `at` in ms, now by default."""
    now = time.time_ns() // 1_000_000
    return Pinned(
        view.name, view.topic, "topic-1", at or now, {view.topic: dict(enumerate(offsets))}
    )


def push(
    url: str | Path,
    view: View,
    offsets: Sequence[int] | Pinned,
    *tasks: Mapping[Any, Any],
    times: Iterable[int] | None = None,
    keep: int = 3,
    at: int | None = None,
) -> str:
    """Push {key: value}, the rows of each task; returns the id of the push. `offsets`: as for
    `pinned`, or those of a real topic."""
    folder = PushFolder(str(url), new_id())
    pins = offsets if isinstance(offsets, Pinned) else pinned(view, offsets, at)
    writer = PushWriter(view, pins, folder, "test", keep)
    messages: list[TaskFiles] = []
    for rows in tasks:
        columns = {"key": pa.array(list(rows)), "value": pa.array(list(rows.values()))}
        if times is not None:
            columns["timestamp"] = pa.array(list(times), pa.int64())
        messages.append(writer.write(iter([pa.RecordBatch.from_pydict(columns)])))
    writer.commit(messages)
    return folder.push


def manifest_of(url: Path, push: str) -> Manifest:
    return Manifest.decode((url / push / "manifest.json").read_bytes())
