"""Commands for pipelines: pause, resume, restart, rebuild.

Like a heartbeat (`model.pipelines.status`), a command is the metadata of a committed offset. It is
in partition 0 of the view topic, in the consumer group `<group of the pipeline>.commands`. The last
command counts. A pipeline that follows commands reads it once a second. Its heartbeats have the id
of the last command that it has carried out (`command`; null: none yet).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import orjson

PAUSE: Final = "pause"
RESUME: Final = "resume"
RESTART: Final = "restart"
REBUILD: Final = "rebuild"
ACTIONS: Final = (PAUSE, RESUME, RESTART, REBUILD)

GROUP_SUFFIX: Final = ".commands"

_ID = re.compile(r"[0-9a-f]{32}")


class PipelineCommand(NamedTuple):
    """`id`: 32 hexadecimal digits, different for each command."""

    id: str
    action: str


def to_metadata(command: PipelineCommand) -> str:
    return orjson.dumps(command._asdict()).decode()


def parse_command(metadata: str) -> PipelineCommand | None:
    """The command in the metadata of an offset; None if it is something else."""
    try:
        fields = orjson.loads(metadata.rstrip("\0"))
        id_, action = fields["id"], fields["action"]
    except (ValueError, KeyError, TypeError):
        return None
    if action not in ACTIONS or not isinstance(id_, str) or not _ID.fullmatch(id_):
        return None
    return PipelineCommand(id_, action)
