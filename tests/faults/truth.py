"""What the topic says in the end, for `checking`, and whether all keys are answered so."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterable
from typing import Any

from local.errors import LocalError
from tests.faults.checking import Era, Record
from tests.faults.cluster import VIEW, Cluster
from tests.faults.writing import Writing
from tests.support.client import Client, Response, key_path
from tests.support.topics import history

_CONVERGED = 30.0  # s


def era(
    cluster: Cluster,
    writing: Writing,
    partitions: int,
    kept: Iterable[str],
    since: float = float("-inf"),
    until: float = float("inf"),
) -> Era:
    """The topic as it is now, with `partitions` of those that it has, and what was compacted away.

    LocalError if it does not have what the broker has confirmed.
    """
    logs: dict[int, dict[int, tuple[str, bytes | None]]] = {p: {} for p in range(partitions)}
    acknowledged: dict[int, list[tuple[float, int]]] = {p: [] for p in range(partitions)}

    def add(partition: int, offset: int, key: str, value: bytes | None) -> None:
        if logs[partition].setdefault(offset, (key, value)) != (key, value):
            raise LocalError(f"offset {offset} of partition {partition} has two records")

    present = history(cluster.broker.bootstrap_servers, cluster.topic, cluster.partitions)
    for source in (cluster.seeded, present):
        for partition, log in enumerate(source[:partitions]):
            for offset, _, key, value in log.records:
                add(partition, offset, key.decode(), value)
    for partition, (offset, key, value), moment in writing.confirmed:
        if offset >= present[partition].end:
            raise LocalError(f"the broker has lost offset {offset} of partition {partition}")
        if partition < partitions:
            add(partition, offset, key, value)
            # of a committed transaction it is not told when readers can see it: the coordinator
            # answers before its markers are in the partitions
            if not cluster.setup.transactional:
                acknowledged[partition].append((moment, offset))
    found: dict[int, list[Record]] = {
        partition: [(offset, *record) for offset, record in sorted(records.items())]
        for partition, records in logs.items()
    }
    return Era(
        found,
        lambda key: cluster.keys.home(key, partitions),
        frozenset(kept),
        acknowledged,
        since,
        until,
    )


def unlike(cluster: Cluster, timeout: float = _CONVERGED) -> str:
    """The first key for which nginx does not say what its last record says, "" if there is none;
    after `timeout` s at most. Nothing may be written meanwhile.

    A key that has moved to another partition may be 503 `repartitioned`.
    """
    logs = history(cluster.broker.bootstrap_servers, cluster.topic, cluster.partitions)
    last: dict[str, bytes | None] = {}
    for log in logs:
        for _, _, key, value in log.records:
            last[key.decode()] = value
    added = cluster.partitions > cluster.setup.partitions
    deadline = time.monotonic() + timeout
    with Client(cluster.nginx.port) as client:
        for key in cluster.keys.kept + cluster.keys.volatile:
            while said := _unlike(client, key, last.get(key), added):
                if time.monotonic() > deadline:
                    return f"{key}: {said}"
                time.sleep(0.05)
    return ""


def _unlike(client: Client, key: str, value: bytes | None, added: bool) -> str:
    try:
        answer = client.get(key_path(VIEW, key))
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    if added and answer.status == 503 and answer.code == "repartitioned":
        return ""
    if value is None:
        return "" if answer.status == 404 else _said(answer, None)
    right = answer.status == 200 and answer.json()["value"] == json.loads(value)
    return "" if right else _said(answer, json.loads(value))


def _said(answer: Response, wanted: Any) -> str:
    return f"{answer.status} {answer.body[:80]!r} by {answer.headers['Served-By']}, not {wanted}"
