"""The state of each view: detailed for the progress file, brief for heartbeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from model.pipelines.status import FAILED, PAUSED, RUNNING, STARTING, STOPPED
from spark.checkpoints.positions import Positions

__all__ = ["FAILED", "PAUSED", "RUNNING", "STARTING", "STOPPED"]

MIN_GAP_S = 60.0
"""The shortest time (s) without some of the records that counts as a gap; see ``ViewStatus``."""


class Gap(NamedTuple):
    """A time in which a view did not have all records. ``number``: 1 for the first gap of this
    process. ``began``, ``ended``: epoch s. ``seconds``: its length, correct even if the system
    clock was set meanwhile. A gap without ``began`` and ``seconds`` began before this process."""

    number: int
    began: float | None
    seconds: float | None
    ended: float


class ViewStatus(NamedTuple):
    """The current status of a view.

    ``error``: why a query failed. ``silent``: seconds since Spark's next report on the view was
    due, or 0; None: no report is due, because the view is not started, or old keys are being
    deleted. ``caught_up_at``: when the view had last read all records (epoch s); None: never since
    this start. ``gaps``: the longest gaps that have ended. ``moved_keys_since``: the time (epoch s)
    from which moved keys may have older values; 0: not known; None: no key has an older value.
    """

    state: str
    offsets: Positions
    error: str | None
    silent: float | None
    caught_up_at: float | None = None
    stats: Mapping[str, float] = {}
    gaps: Sequence[Gap] = ()
    moved_keys_since: float | None = None


@dataclass(slots=True)
class ViewProgress:
    """A view in the progress file. Counts begin with this process.

    ``state``: ``waiting`` (not started), ``running``, ``paused``, ``failed`` (a query failed and
    has made no progress since) or ``done``. ``restarts``: how often failed queries were started
    again. ``is_final``: a query failed and is not started again. ``last_error``: the error of the
    last query that failed. ``source_offsets``: the view topic includes all records before these
    offsets. ``input_rows``: records read. ``dropped_rows``: rows that Spark dropped although they
    were not late, because timestamps were out of order by more than
    ``spark.event_time.watermarks.DISORDER_S``. ``dead_letters``: records written to the dead-letter
    topic, all of them before ``dead_letter_offsets``. ``late_rows``: the late ones among them.
    """

    state: str = "waiting"
    restarts: int = 0
    is_final: bool = False
    last_error: str | None = None
    source_offsets: Positions = field(default_factory=dict)
    input_rows: int = 0
    dropped_rows: int = 0
    late_rows: int = 0
    dead_letters: int = 0
    dead_letter_offsets: Positions = field(default_factory=dict)
