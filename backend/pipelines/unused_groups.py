"""Consumer groups of deployments that are gone: without members, and without committed offsets.

A group of instances never commits offsets, because positions are in the stores. So a group with
offsets belongs to another application, and its offsets must not be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from backend.pipelines.consumer_groups import admin_settings
from model.problems import Conflict, NotFound, Unavailable

MAX_GROUPS = 500  # that are listed
_EMPTY = "Empty"


class UnusedGroups:
    """Any thread may use it. Requests are rare, so each has a connection of its own."""

    def __init__(
        self,
        client_settings: Mapping[str, Any],
        timeout: float,
        own: str,
    ) -> None:
        """`client_settings`: of kafka-python. `timeout` (s): for one request. `own`: the group of
        this deployment."""
        self._settings = admin_settings(client_settings, timeout)
        self._own = own

    def all(self) -> list[str]:
        """The groups that `delete` would delete now, by name. Blocks. Raises Unavailable."""
        with self._client() as client:
            listed = client.list_groups(states_filter=[_EMPTY])
            names = sorted({group["group_id"] for group in listed} - {self._own})[:MAX_GROUPS]
            offsets = client.list_group_offsets(names) if names else {}
        return [name for name in names if not offsets.get(name)]

    def delete(self, group: str) -> None:
        """Delete the group. Blocks. Raises NotFound, Unavailable, and Conflict if it is used."""
        if group == self._own:
            raise Conflict("group-in-use", f"{group} is the consumer group of this deployment.")
        with self._client() as client:
            self._delete(client, group)

    @contextmanager
    def _client(self) -> Iterator[KafkaAdminClient]:
        """Open a client for the block. Raises Unavailable if the broker does not answer, also
        within the block."""
        try:
            client = KafkaAdminClient(**self._settings)
            try:
                yield client
            finally:
                client.close()
        except (KafkaError, OSError) as e:
            raise Unavailable(
                "broker-unreachable", f"The broker did not answer, or refused: {e!r}."
            ) from None

    def _delete(self, client: KafkaAdminClient, group: str) -> None:
        description = client.describe_groups([group])[group]
        if description["group_state"] != _EMPTY:
            if not description["members"]:
                raise NotFound("group-not-found", f"There is no consumer group {group}.")
            raise Conflict(
                "group-in-use", f"Consumer group {group} has {len(description['members'])} members."
            )
        if client.list_group_offsets([group]).get(group):
            raise Conflict(
                "group-has-offsets",
                f"Consumer group {group} has committed offsets, so it is not that of instances. "
                "Delete it with Kafka's own tools if no application needs them.",
            )
        # the broker checks again that it has no members
        result = client.delete_groups([group])[group]
        if result != "OK":
            raise Conflict("group-in-use", f"The broker does not delete group {group}: {result}.")
