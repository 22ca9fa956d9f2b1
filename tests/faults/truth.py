"""The records of the topic at the end of a run, for `checking`; and a comparison with answers."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterable
from typing import Any

from local.errors import LocalError
from tests.faults.checking import Record, TopicHistory
from tests.faults.cluster import VIEW, Cluster
from tests.faults.writing import UpdateLoad
from tests.support.client import Client, Response, key_path
from tests.support.topics import history

_CONVERGED = 30.0  # s


def topic_history(
    cluster: Cluster,
    writing: UpdateLoad,
    partitions: int,
    kept: Iterable[str],
    since: float = float("-inf"),
    until: float = float("inf"),
) -> TopicHistory:
    """The records of the topic now, of its first `partitions`, including compacted ones.

    LocalError if it lacks records that the broker has confirmed.
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
            # it is unknown when readers can see a committed transaction: the coordinator answers
            # before the markers are in the partitions
            if not cluster.setup.transactional:
                acknowledged[partition].append((moment, offset))
    found: dict[int, list[Record]] = {
        partition: [(offset, *record) for offset, record in sorted(records.items())]
        for partition, records in logs.items()
    }
    return TopicHistory(
        found,
        lambda key: cluster.keys.home(key, partitions),
        frozenset(kept),
        acknowledged,
        since,
        until,
        former=lambda key: cluster.keys.home(key, cluster.setup.partitions),
    )


def first_difference(cluster: Cluster, timeout: float = _CONVERGED) -> str:
    """Describes the first key whose answer differs from its last record for `timeout` s; "" if
    there is none. There must be no writes during the call.
    """
    logs = history(cluster.broker.bootstrap_servers, cluster.topic, cluster.partitions)
    former: dict[str, bytes | None] = {}
    current: dict[str, bytes | None] = {}
    for partition, log in enumerate(logs):
        for _, _, key, value in log.records:
            name = key.decode()
            is_current = partition == cluster.keys.home(name, cluster.partitions)
            (current if is_current else former)[name] = value
    # a key that has moved has its newest records in its current partition
    last = former | current
    deadline = time.monotonic() + timeout
    with Client(cluster.nginx.port) as client:
        for key in cluster.keys.kept + cluster.keys.volatile:
            while difference := _difference(client, key, last.get(key)):
                if time.monotonic() > deadline:
                    return f"{key}: {difference}"
                time.sleep(0.05)
    return ""


def _difference(client: Client, key: str, value: bytes | None) -> str:
    try:
        answer = client.get(key_path(VIEW, key))
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    if value is None:
        return "" if answer.status == 404 else _describe(answer, None)
    right = answer.status == 200 and answer.json()["value"] == json.loads(value)
    return "" if right else _describe(answer, json.loads(value))


def _describe(answer: Response, wanted: Any) -> str:
    return f"{answer.status} {answer.body[:80]!r} by {answer.headers['Served-By']}, not {wanted}"
