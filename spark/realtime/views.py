"""Checks that a view can run in real-time mode, before it is started."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark.errors import JobError
from spark.realtime.decoders import without_python
from spark.realtime.plan_rules import nodes, refusal
from spark.view import View


def real_time_view(view: View) -> View:
    """The view as it runs in real-time mode: its decoders need no Python. Raises ``JobError``."""
    if view.output_mode != "update":
        raise _refused(view, f"it has output_mode {view.output_mode!r}")
    try:
        return without_python(view)
    except JobError as error:
        raise _refused(view, str(error)) from None


def check_plan(rows: DataFrame, view: View) -> None:
    """Raises ``JobError`` if real-time mode cannot compute the rows."""
    why = refusal(nodes(rows))
    if why is not None:
        raise _refused(view, why)


def _refused(view: View, why: str) -> JobError:
    return JobError(
        f'{view.name} cannot run in real-time mode: {why}. Remove trigger = "real-time", or see '
        "docs/spark/real-time.md."
    )
