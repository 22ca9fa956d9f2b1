"""What instances have learned about views from each other, kept for a restart of all instances.

The topology says whether a view has mispartitioned records, and which numbers of partitions its
topic has had. Instances learn it from each other. If all of them stop, the topology is lost; the
first instance that starts again could answer 404 for a key that is in a partition of another
instance. So each instance keeps its knowledge in its data folder, in the file `~findings.json`:

    {"format": 1, "views": {"orders":
        {"view_hash": "5f…", "built_partitions": 4, "partition_counts": [4, 6],
         "topic_hash": 2748, "mispartitioned": true}}}

`topic_hash` is the hash of the topic with these counts; 0: unknown, or written by an older version.
`built_partitions` is the smallest of the counts, for older versions: they know no other count.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import orjson

from backend.storage.ownership import write_atomically
from model.topology import partition_counts_in

log = logging.getLogger(__name__)

NAME = "~findings.json"
_FORMAT = 1
_MAX_BYTES = 16 << 20


class Finding(NamedTuple):
    """What an instance knows of one view. `partition_counts`: the numbers of partitions that its
    topic has had; empty: unknown. `mispartitioned`: whether it has mispartitioned records.
    `topic_hash`: of the topic with these counts (`hash_of_topic`); 0: unknown."""

    view_hash: str
    partition_counts: tuple[int, ...]
    mispartitioned: bool
    topic_hash: int = 0


class FindingsFile:
    """The file in a data folder. One thread at a time may write it."""

    def __init__(self, root: Path) -> None:
        self._path = root / NAME
        self._written: Mapping[str, Finding] = {}

    def read(self) -> dict[str, Finding]:
        """View -> finding. Empty if there is no file, or if it cannot be read."""
        try:
            with self._path.open("rb") as file:
                content = orjson.loads(file.read(_MAX_BYTES))
            if content["format"] != _FORMAT:
                raise ValueError(f"its format is {content['format']!r}")
            findings = {
                name: Finding(
                    str(finding["view_hash"]),
                    partition_counts_in(finding),
                    bool(finding["mispartitioned"]),
                    int(finding.get("topic_hash", 0)),
                )
                for name, finding in content["views"].items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
            log.warning("ignoring %s: %s", self._path, e)
            return {}
        self._written = findings
        return findings

    def write(self, findings: Mapping[str, Finding]) -> None:
        """Replace the file if something has changed. A failure is logged; the next call tries it
        again."""
        if findings == self._written:
            return
        views = {
            name: {
                **finding._asdict(),
                "built_partitions": min(finding.partition_counts, default=0),
            }
            for name, finding in sorted(findings.items())
        }
        content = orjson.dumps({"format": _FORMAT, "views": views}) + b"\n"
        try:
            write_atomically(self._path, content)
        except OSError as e:
            log.warning("cannot write %s: %s", self._path, e)
        else:
            self._written = dict(findings)
