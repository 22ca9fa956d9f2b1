"""Fetches the committed offsets of consumer groups, with metadata, and whether they have members.

It uses kafka-python, which sends one request per coordinator for all groups (KIP-709). librdkafka's
Python client reads metadata past its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from model.pipelines.status import CommittedOffset, SourcePartition


class ConsumerGroups:
    """Reads the state of consumer groups. Not thread-safe.

    A client that fails is replaced, because coordinators may have moved.
    """

    def __init__(self, client_settings: Mapping[str, Any], timeout: float) -> None:
        """`timeout` (s): for a request, and for connecting."""
        self._settings = admin_settings(client_settings, timeout)
        self._client: KafkaAdminClient | None = None

    def committed(self, groups: list[str]) -> dict[str, dict[SourcePartition, CommittedOffset]]:
        """The committed offsets by group. Raises KafkaError, OSError."""
        offsets = self._request("list_group_offsets", groups)
        return {
            group: {
                (partition.topic, partition.partition): CommittedOffset(
                    committed.offset, committed.metadata or ""
                )
                for partition, committed in offsets.get(group, {}).items()
                if committed.offset >= 0
            }
            for group in groups
        }

    def have_members(self, groups: list[str]) -> dict[str, bool]:
        """Whether each group has members. Raises KafkaError, OSError."""
        descriptions = self._request("describe_groups", groups)
        return {group: bool(description["members"]) for group, description in descriptions.items()}

    def _request(self, method: str, groups: list[str]) -> Any:
        try:
            if self._client is None:
                self._client = KafkaAdminClient(**self._settings)
            return getattr(self._client, method)(groups)
        except (KafkaError, OSError):
            self.close()
            raise

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def admin_settings(client_settings: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """Settings of an admin client. `timeout` (s): for a request, and for connecting."""
    ms = round(timeout * 1000)
    return {
        **client_settings,
        "client_id": "queryable-pipelines",
        "request_timeout_ms": ms,
        "bootstrap_timeout_ms": ms,
        "reconnect_backoff_max_ms": 1_000,
    }
