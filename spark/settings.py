"""The settings of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from model.views import SPARK_GROUP_PREFIX
from spark.sources import Kafka
from spark.view import View

GROUP_PREFIX = SPARK_GROUP_PREFIX


@dataclass(frozen=True, slots=True)
class Settings:
    """The parsed command line (``spark.options``). ``topics_deadline`` is in seconds.

    ``same_rules``: view ► digest of an edited rule that gives the same results as the rule of its
    checkpoint.
    """

    views: list[View]
    kafka: Kafka
    checkpoint_dir: str
    progress: Path | None = None
    health: Path | None = None
    once: bool = False
    trigger: str = "1 second"
    max_offsets_per_trigger: int = 1_000_000
    topics_deadline: float = 60
    create_topics: bool = True
    jars: list[Path] = field(default_factory=list)
    conf: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "off"
    group_prefix: str = GROUP_PREFIX
    same_rules: Mapping[str, str] = field(default_factory=dict)

    def checkpoint(self, view: View) -> str:
        """The folder of a view's checkpoints: a path of any file system that Hadoop supports."""
        return f"{self.checkpoint_dir.rstrip('/')}/{view.name}"
