"""Views whose keys may be in any partition, on three instances."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import view
from tests.support.reference.tables import Record


@contextmanager
def cluster(folder: Path, **fields: Any) -> Iterator[Cluster]:
    made = Cluster(folder, view(**fields))
    try:
        made.settle()
        yield made
    finally:
        made.close()


def put(to: Cluster, partition: int, key: bytes, value: bytes | None, time: int, *at: int) -> None:
    """Written, and applied by all."""
    to.write(Record(len(to.logs[partition]), key, at, value, time), partition)
    to.settle()


def everywhere(of: Cluster, target: str, **headers: str) -> list[Any]:
    """(status, document) by each instance."""
    answers = [of.ask(id_, "GET", f"/views/orders/{target}", b"", headers) for id_ in of.nodes]
    return [(answer.status, answer.json()) for answer in answers]
