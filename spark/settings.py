"""The settings of a job."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from model.views import SPARK_GROUP_PREFIX
from spark.sources import Kafka
from spark.triggers import REAL_TIME, milliseconds
from spark.view import View

# A record waits for half of this time on average. Shorter times cost more CPU while nothing
# arrives: ten views ask for new records 50 times a second.
DEFAULT_TRIGGER = "200 milliseconds"
# A micro-batch of a few dead letters costs as much CPU as one of the view, and would delay it.
DEAD_LETTERS_TRIGGER = "5 seconds"
REAL_TIME_BATCH = "10 seconds"


@dataclass(frozen=True, slots=True)
class Settings:
    """The parsed command line (``spark.options``). ``topics_deadline`` is in seconds.

    ``trigger``: for views without a trigger of their own. ``real_time_batch``: the time between two
    commits of a real-time view.
    """

    views: list[View]
    kafka: Kafka
    checkpoint_dir: str
    progress: Path | None = None
    health: Path | None = None
    once: bool = False
    trigger: str = DEFAULT_TRIGGER
    real_time_batch: str = REAL_TIME_BATCH
    max_offsets_per_trigger: int = 1_000_000
    topics_deadline: float = 60
    create_topics: bool = True
    jars: list[Path] = field(default_factory=list)
    conf: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "off"
    group_prefix: str = SPARK_GROUP_PREFIX

    def checkpoint(self, view: View) -> str:
        """The folder of a view's checkpoints: a path of any file system that Hadoop supports."""
        return f"{self.checkpoint_dir.rstrip('/')}/{view.name}"

    def is_real_time(self, view: View) -> bool:
        """Whether the view runs in Spark's real-time mode."""
        return not self.once and (view.trigger or self.trigger) == REAL_TIME

    def micro_batch_trigger(self, view: View) -> str:
        """The least time between two micro-batches of the view."""
        times = (text for text in (view.trigger, self.trigger) if text and text != REAL_TIME)
        return next(times, DEFAULT_TRIGGER)

    def report_interval(self, view: View) -> float:
        """The longest time (s) between two reports of Spark on the view, without delays: Spark
        sends none between two triggers."""
        if self.once:
            return 0.0
        is_real_time = self.is_real_time(view)
        longest = self.real_time_batch if is_real_time else self.micro_batch_trigger(view)
        return _length(longest) / 1000

    def dead_letters_trigger(self, view: View) -> str:
        """The least time between two micro-batches of the view's dead letters: the view's own
        trigger, or DEAD_LETTERS_TRIGGER if that is longer."""
        own = self.micro_batch_trigger(view)
        return max(DEAD_LETTERS_TRIGGER, own, key=_length)


def _length(trigger: str) -> float:
    """The length in ms; infinite if the trigger has a form of Spark that the command line
    refuses."""
    length_ms = milliseconds(trigger)
    return math.inf if length_ms is None else length_ms
