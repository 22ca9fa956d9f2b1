"""Deployments of a service. Pure.

A service has one or more deployments behind the same proxies. A deployment is a group of instances
with its own application id. One deployment is current: proxies send it all requests. All records of
the topic `<service>-deployments` together determine which one is current: see `records.fold`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import orjson

from model.changes.records import decode_object

NAME = re.compile(r"[A-Za-z0-9._-]{1,200}", re.ASCII)
"""The name of a service, which is part of a topic's name."""

MAX_ID_LENGTH = 249
"""The maximum length of an application id, in characters."""


@dataclass(frozen=True)
class DeploymentState:
    """The application ids of the current and the previous deployment after `revision` changes."""

    current: str
    previous: str | None = None  # the deployment that a rollback makes current
    revision: int = 1

    def switched_to(self, application_id: str) -> DeploymentState:
        return DeploymentState(application_id, self.current, self.revision + 1)


def encode_record(service: str, state: DeploymentState, at_ms: int) -> bytes:
    """The value of a record of the topic."""
    return orjson.dumps({**document(service, state), "at": at_ms})


def decode_record(value: bytes | str | None) -> tuple[str, DeploymentState]:
    """The inverse of `encode_record`. Raises ValueError if the record is malformed."""
    document = decode_object(value)
    service, current, previous, revision = (
        document.get(name) for name in ("name", "current", "previous", "revision")
    )
    if type(service) is not str or type(revision) is not int or revision < 1:
        raise ValueError("no record of a deployment")
    if not _is_id(current) or not (previous is None or _is_id(previous)):
        raise ValueError("no record of a deployment")
    return service, DeploymentState(str(current), previous, revision)


def _is_id(value: object) -> bool:
    return type(value) is str and 1 <= len(value) <= MAX_ID_LENGTH


def document(service: str, state: DeploymentState | None) -> dict[str, str | int | None]:
    """The state as JSON. `current` is null if it is not known yet."""
    return {
        "name": service,
        "current": None if state is None else state.current,
        "previous": None if state is None else state.previous,
        "revision": 0 if state is None else state.revision,
    }
