"""Sends commands to the pipelines of views (`model.pipelines.commands`)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from backend.pipelines.consumer_groups import admin_settings
from model.pipelines.commands import GROUP_SUFFIX, PipelineCommand, to_metadata
from model.problems import Unavailable


class CommandSender:
    """A sender of commands. Any thread may call `send`. Commands are rare, so each has a connection
    of its own."""

    def __init__(self, client_settings: Mapping[str, Any], timeout: float) -> None:
        """`client_settings`: of kafka-python. `timeout` (s): for one request."""
        self._settings = admin_settings(client_settings, timeout)

    def send(self, group: str, topic: str, action: str) -> PipelineCommand:
        """Commit a command for the pipeline of a view topic. Blocks. Raises Unavailable if it is
        not known whether the pipeline will get it."""
        command = PipelineCommand(uuid.uuid4().hex, action)
        partition = TopicPartition(topic, 0)
        committed = OffsetAndMetadata(0, to_metadata(command), -1)
        try:
            client = KafkaAdminClient(**self._settings)
            try:
                result = client.alter_group_offsets(group + GROUP_SUFFIX, {partition: committed})
            finally:
                client.close()
        except (KafkaError, OSError) as e:
            raise _not_sent(group, repr(e)) from None
        error = result[partition]
        if error.errno != 0:
            raise _not_sent(group, error.__name__)
        return command


def _not_sent(group: str, why: str) -> Unavailable:
    return Unavailable(
        "command-not-sent",
        f"The broker did not take the command for consumer group {group}: {why}.",
    )
