"""The topology, as `GET /processors` describes it: which instances have which partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.partitioner import PARTITIONERS, partition_of


def parse_epoch(text: str) -> tuple[int, int]:
    """An epoch as a comparable pair; (0, 0) if the text is not an epoch."""
    ms, _, generation = text.partition("-")
    if not (ms.isdecimal() and generation.isdecimal()):
        return (0, 0)
    return int(ms), int(generation)


@dataclass(frozen=True, slots=True)
class _ViewPlacement:
    partitions: int
    partitioner: str
    replicas: Mapping[int, tuple[str, ...]]
    """Base URLs by partition: the active, then the standbys."""


@dataclass(frozen=True, slots=True)
class Service:
    """The state of a service. `current`: the application id of its current deployment. The state
    with the highest revision is the newest."""

    name: str
    current: str
    revision: int


@dataclass(frozen=True, slots=True)
class Topology:
    """One version of the topology of one deployment."""

    epoch: tuple[int, int]
    views: Mapping[str, _ViewPlacement]
    instances: tuple[str, ...]
    """Base URLs of all instances that are not dead."""

    document: Mapping[str, Any]
    deployment: str | None
    """Its application id; None: unknown."""

    service: Service | None
    """The state of the service that the sender knows; None: unknown, or there is no service."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Topology:
        """The topology in a document of `GET /processors`. Raises KeyError, TypeError or ValueError
        for any other document."""
        base_urls = {
            processor[
                "id"
            ]: f"{_scheme(processor)}://{_url_host(processor['host'])}:{processor['port']}"
            for processor in document["processors"]
        }
        alive = [processor for processor in document["processors"] if processor["state"] != "dead"]
        views = {}
        for name, view in document["views"].items():
            replicas: dict[int, list[str]] = {p: [] for p in range(view["partitions"])}
            for role in ("topicPartitions", "standbyPartitions"):
                for processor in alive:
                    for partition in processor[role].get(name, ()):
                        replicas[partition].append(base_urls[processor["id"]])
            views[name] = _ViewPlacement(
                view["partitions"],
                view["partitioner"],
                {partition: tuple(urls) for partition, urls in replicas.items()},
            )
        instances = tuple(base_urls[processor["id"]] for processor in alive)
        deployment = document.get("application_id")
        service = _service(document.get("service"))
        epoch = parse_epoch(document["epoch"])
        return cls(epoch, views, instances, document, deployment, service)

    def replicas(self, view: str, key: bytes | None) -> tuple[str, ...]:
        """Base URLs of the instances that have the key's partition: the active, then the standbys.

        Empty if the view or its partitioner is unknown. `key` is the record key's bytes.
        """
        placement = self.views.get(view)
        if placement is None or key is None or placement.partitioner not in PARTITIONERS:
            return ()
        if not placement.partitions:
            return ()
        partition = partition_of(placement.partitioner)(key, placement.partitions)
        return placement.replicas[partition]


def _service(service: Mapping[str, Any] | None) -> Service | None:
    """The service of a topology. Its `current` is null if the instance does not know yet which
    deployment is current."""
    if service is None or service["current"] is None:
        return None
    return Service(service["name"], service["current"], int(service["revision"]))


def _scheme(processor: Mapping[str, Any]) -> str:
    """The scheme of an instance's URL. Instances of older versions use HTTP and do not send it."""
    scheme = processor.get("scheme", "http")
    if scheme not in ("http", "https"):
        raise ValueError(f"unknown scheme {scheme!r}")
    return str(scheme)


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
