"""The data of the admin page: the topology, joined with the /instance document of every
instance."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import orjson

from backend.admin.instance_status import instance_document, pipeline_document, service_document
from backend.admin.warnings import instance_warnings, view_warnings
from backend.instance.context import InstanceContext
from backend.security.authorization import passed_on
from backend.security.certificates import Certificates
from backend.security.signatures import Signer
from model.http.answers import RequestFailed
from model.http.requests import send
from model.progress import ANSWERABLE
from model.topology import Member, below_replicas
from model.view_versions import split_name

_TIMEOUT = 1.0  # s for the answer of an instance
_DEADLINE = 2.0  # s to wait for all instances
_MAX_REQUESTS = 16
_MAX_BYTES = 8 << 20

_NO_REPORT = {"state": "unknown"}

UNREACHABLE = "unreachable"
LOST = "lost"
_ROLES = {"active": "topicPartitions", "standby": "standbyPartitions"}

_INSTANCE_FIELDS = (
    "state", "drained", "error", "epoch", "rebuilds", "broker", "process", "requests",
    "ended_threads",
)  # fmt: skip
_REPLICA_FIELDS = (
    "state", "position", "goal", "lag", "staleness", "open_transaction", "size_bytes",
    "dead_letters", "unreadable_values", "unreadable_keys", "mis_partitioned",
    "building",
)  # fmt: skip

Status = dict[str, Any]
"""The /instance document of an instance, or why there is none."""

Ask = Callable[[list[Member]], list[Status]]


class Peers:
    """Requests a document of other instances: at most 16 at once, within `deadline` s."""

    def __init__(
        self,
        signer: Signer | None = None,
        certificates: Certificates | None = None,
        timeout: float = _TIMEOUT,
        deadline: float = _DEADLINE,
        path: str = "/instance",
    ) -> None:
        """`signer`: None without a cluster secret. `path`: of a document with the instance's id."""
        self._signer = signer
        self._path = path
        self._timeout = timeout
        self._deadline = deadline
        self._certificates = certificates or Certificates()
        self._pool = ThreadPoolExecutor(_MAX_REQUESTS, thread_name_prefix="admin")

    def ask(self, members: list[Member]) -> list[Status]:
        """The document of each member, in the same order.

        If a member does not answer: `{"state": "unreachable", "error": reason}`.
        """
        # the token of the client that requests the document
        headers = {name.decode(): value.decode("latin-1") for name, value in passed_on()}
        futures = [self._pool.submit(self._ask, member, headers) for member in members]
        wait(futures, self._deadline)
        # cancel requests that have not started: they must not queue behind instances that hang
        return [
            {"state": UNREACHABLE, "error": "timed out"}
            if future.cancel() or not future.done()
            else future.result()
            for future in futures
        ]

    def _ask(self, member: Member, headers: Mapping[str, str]) -> Status:
        signer = self._signer
        path = self._path
        signed = None if signer is None else signer.sign("GET", path.encode(), member.id)
        signature_headers = {} if signed is None else signed.headers
        try:
            answer = send(
                member.origin + path,
                self._timeout,
                _MAX_BYTES,
                headers={**headers, **signature_headers},
                tls=self._certificates.peers,
            )
            if answer.status != 200:
                raise ValueError(f"unexpected status {answer.status}")
            status = orjson.loads(answer.body)
            if not isinstance(status, dict) or status.get("id") != member.id:
                raise ValueError("another instance or program uses this address")
            return status
        except (RequestFailed, ValueError) as e:
            return {"state": UNREACHABLE, "error": str(e)}


def statuses_of(context: InstanceContext, peers: Peers) -> dict[str, Status]:
    """The /instance document of each member of the topology, by the member's id. Blocks."""
    me = context.settings.instance_id
    others = [member for member in context.group.topology.members if member.id != me]
    documents = dict(zip((member.id for member in others), peers.ask(others), strict=True))
    return {**documents, me: instance_document(context)}


def topology_document(context: InstanceContext, ask: Ask) -> dict[str, Any]:
    """The topology, with the progress of each store partition as its instances report it.

        {"application_id", "service": as in /processors, or missing,
         "known", "epoch", "asked": id, "made_at": ms,
         "instances": [{"id", "host", "port", "state", "error", "epoch", "in_topology", "lost_at",
                        "partitions", "answerable", "lag", "lag_unknown", "size_bytes",
                        and as in /instance: "drained", "rebuilds", "broker",
                        "process", "requests", "ended_threads"}],
         "warnings": [{"code", "text"}],
         "views": [{name, topic, path, key, value, partitioner, store, "partitions", "warnings",
                    "version", "current": whether it is, if the view is declared with versions,
                    "replicas": how many instances should answer for each partition,
                    "pipeline": as in /views/{view}, or missing,
                    "placement": [{"partition", "active": id or null, "standby": [id], "state",
                                   "answered_by": [id], "position", "goal", "lag",
                                   "staleness": ms, "open_transaction": ms, "size_bytes", …,
                                   "replicas": [{"id", "role", "state", "position", "goal", "lag",
                                                 "staleness", "open_transaction", "size_bytes",
                                                 "dead_letters", "unreadable_values",
                                                 "unreadable_keys", "mis_partitioned",
                                                 "building": [name of an index]}]}]}]}

    The state of a placement is what clients get. It is "answerable" if the active or a standby is
    answerable; the numbers are those of the first that is. Otherwise it is the state that the
    active reports, "nobody" (the partition has no active) or "unknown" (the active does not answer,
    or does not have the partition yet). Instances that left without notice have the state "lost",
    even if they are no longer in the topology.
    """
    me = context.group.me
    topology = context.group.topology
    members = list(topology.members)
    if all(member.id != me.id for member in members):
        members.append(me)  # it is joining or leaving the group
    others = [member for member in members if member.id != me.id]
    statuses = dict(zip((m.id for m in others), ask(others), strict=True))
    statuses[me.id] = instance_document(context)

    lost = _lost(statuses)
    for id_, loss in lost.items():
        if all(member.id != id_ for member in members):
            members.append(Member(id_, loss["host"], loss["port"]))
            statuses[id_] = {"state": UNREACHABLE}

    processors = topology.processors({})
    listed = {processor["id"] for processor in processors["processors"]}
    reported = {id_: _by_partition(status) for id_, status in statuses.items()}
    views = [
        _view(context, name, processors, reported)
        for name in dict.fromkeys((*context.views, *processors["views"]))
        if name not in context.group.versions.dropped
    ]
    return {
        "application_id": context.settings.application_id,
        **service_document(context),
        "known": context.group.known,
        "epoch": processors["epoch"],
        "asked": me.id,
        "made_at": time.time_ns() // 1_000_000,
        "instances": [
            {
                "id": member.id,
                "host": member.host,
                "port": member.port,
                "in_topology": member.id in listed,
                **_instance(statuses[member.id]),
                **({"state": LOST} if member.id in lost else {}),
                "lost_at": lost[member.id]["lost_at"] if member.id in lost else None,
                **_sums(_active(processors, reported, member.id)),
            }
            for member in members
        ],
        "warnings": instance_warnings(context.settings),
        "views": views,
    }


def redundancy_of(document: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """View -> its number of partitions, and how many of them are answerable, are answerable only
    on standbys, and are answerable on too few instances. From a topology document."""
    return {
        view["name"]: {
            "partitions": len(view["placement"]),
            "answerable": sum(bool(p["answered_by"]) for p in view["placement"]),
            "standby_only": sum(
                bool(p["answered_by"]) and p["active"] not in p["answered_by"]
                for p in view["placement"]
            ),
            "below_replicas": len(below_replicas(view)),
        }
        for view in document["views"]
    }


def _lost(statuses: Mapping[str, Status]) -> dict[str, dict[str, Any]]:
    """Id -> the lost instance, as reported by the first instance that noticed. An instance that
    answers is not lost."""
    earliest_losses: dict[str, dict[str, Any]] = {}
    for status in statuses.values():
        for loss in status.get("lost") or ():
            earliest = earliest_losses.get(loss["id"])
            if earliest is None or loss["lost_at"] < earliest["lost_at"]:
                earliest_losses[loss["id"]] = loss
    return {
        id_: loss
        for id_, loss in earliest_losses.items()
        if statuses.get(id_, {}).get("state", UNREACHABLE) == UNREACHABLE
    }


def _active(
    processors: Mapping[str, Any],
    reported: Mapping[str, Mapping[tuple[str, int], dict[str, Any]]],
    id_: str,
) -> list[dict[str, Any]]:
    """The reports of an instance on the partitions that it is active for."""
    return [
        reported[id_].get((view, partition), {"state": "unknown"})
        for processor in processors["processors"]
        if processor["id"] == id_
        for view, partitions in processor[_ROLES["active"]].items()
        for partition in partitions
    ]


def _by_partition(status: Status) -> dict[tuple[str, int], dict[str, Any]]:
    return {(p["view"], p["partition"]): p for p in status.get("partitions", ())}


def _instance(status: Status) -> dict[str, Any]:
    return {key: status.get(key) for key in _INSTANCE_FIELDS}


def _sums(placements: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Totals of the partitions that one instance is active for. `lag` adds up the known lags."""
    actives = list(placements)
    return {
        "partitions": len(actives),
        "answerable": sum(p["state"] == "answerable" for p in actives),
        "lag": sum(p.get("lag") or 0 for p in actives),
        "lag_unknown": sum(p.get("lag") is None for p in actives),
        "size_bytes": sum(p.get("size_bytes") or 0 for p in actives),
        "dead_letters": sum(p.get("dead_letters") or 0 for p in actives),
    }


def _view(
    context: InstanceContext,
    name: str,
    processors: Mapping[str, Any],
    reported: Mapping[str, Mapping[tuple[str, int], dict[str, Any]]],
) -> dict[str, Any]:
    placed = processors["views"].get(name)
    description = placed or {**context.views[name].description(), "partitions": 0}
    holders: list[dict[str, list[str]]] = [
        {role: [] for role in _ROLES} for _ in range(description["partitions"])
    ]
    for processor in processors["processors"]:
        for role, field in _ROLES.items():
            for partition in processor[field].get(name, ()):
                holders[partition][role].append(processor["id"])
    placement = [
        _placement(partition, ids["active"], ids["standby"], name, reported)
        for partition, ids in enumerate(holders)
    ]
    declared = context.views.get(name)
    meaning = "" if declared is None else declared.meaning
    return {
        **description,
        "name": name,
        **({"description": meaning} if meaning else {}),
        **_version(context, name),
        "replicas": context.group.replica_target(name),
        **pipeline_document(context, name),
        "placement": placement,
        "warnings": view_warnings(context, name, placement),
    }


def _version(context: InstanceContext, name: str) -> dict[str, Any]:
    """{"version", "current"}; empty if the view is not declared with versions."""
    base, version = split_name(name)
    versions = context.group.versions
    if base not in versions.with_versions:
        return {}
    return {"version": version, "current": versions.current.get(base) == name}


def _placement(
    partition: int,
    active: list[str],
    standby: list[str],
    view: str,
    reported: Mapping[str, Mapping[tuple[str, int], dict[str, Any]]],
) -> dict[str, Any]:
    holders = [*active, *standby]
    reports = {
        id_: reported[id_][view, partition] for id_ in holders if (view, partition) in reported[id_]
    }
    answered_by = [id_ for id_ in reports if reports[id_]["state"] == ANSWERABLE]
    if answered_by:
        report: dict[str, Any] = reports[answered_by[0]]
    elif not active:
        report = {"state": "nobody"}
    else:
        report = reports.get(active[0], {"state": "unknown"})
    return {
        **{key: value for key, value in report.items() if key not in ("view", "role")},
        "partition": partition,
        "active": active[0] if active else None,
        "standby": standby,
        "answered_by": answered_by,
        "replicas": [
            {
                "id": id_,
                "role": "active" if id_ in active else "standby",
                **{key: reports.get(id_, _NO_REPORT).get(key) for key in _REPLICA_FIELDS},
            }
            for id_ in holders
        ],
    }
