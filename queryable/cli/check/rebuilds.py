"""How long a rebuild of a view takes."""

from __future__ import annotations

from collections.abc import Iterable

from model.pipelines.status import parse_heartbeat, seconds_for
from model.views import View
from queryable.cli.check.findings import Finding, counted, ok
from queryable.cli.values import seconds_text


def rebuild_estimate(view: View, records: int, committed: Iterable[str]) -> Finding:
    """`records`: those in the view's sources. `committed`: the metadata that its job has committed
    with offsets. One of them is a heartbeat."""
    heartbeats = [heartbeat for text in committed if (heartbeat := parse_heartbeat(text))]
    newest = max(heartbeats, key=lambda heartbeat: heartbeat.at_ms, default=None)
    rate = 0.0 if newest is None else newest.stats.get("processed_rate", 0.0)
    seconds = seconds_for(records, rate)
    reads = f"a rebuild reads {counted(records, 'record')}"
    if not seconds:
        return ok(f"view {view.name}", reads)
    return ok(
        f"view {view.name}",
        f"{reads}: {seconds_text(seconds)} at the {rate:,.0f} records/s of the job's last "
        "micro-batch",
    )
