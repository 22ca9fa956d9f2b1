"""Errors of the job, for readers of its log."""

from __future__ import annotations

import re

_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_MAX_CHARACTERS = 400
_PYTHON = "Traceback (most recent call last):\n"

# The last one is Kafka's, in real-time mode.
_LOST = ("DATA_LOSS", "data may have been lost", "OffsetOutOfRangeException")

JVM_ENDED = "Spark's Java process has ended. Start again; --log-level error shows Spark's own log."


class JobError(Exception):
    """An error for users of the job: what failed, where, and what to do. The message is shown
    without a stack trace."""


class Unavailable(JobError):
    """A service that the job needs does not answer; a restart may help."""


def recreated(topic: str, checkpoint: str) -> JobError:
    """The topic is not the one that the checkpoint belongs to."""
    return JobError(
        f"topic {topic} was deleted or recreated after the checkpoint {checkpoint} was made, so "
        f"the view cannot continue. {rebuild(checkpoint)}"
    )


def repartitioned(topic: str, before: int, now: int) -> JobError:
    """A view topic got more partitions while the job ran."""
    return JobError(
        f"topic {topic} had {before} partitions and now has {now}. Start again to write to all of "
        "them. Older records stay in their partitions until the view is rebuilt."
    )


def needs_slots(topic: str, before: int, now: int) -> JobError:
    """A source of a real-time view got more partitions while the job ran."""
    return JobError(
        f"topic {topic} had {before} partitions and now has {now}. Start again: a real-time view "
        "needs a task slot for each of them."
    )


def unobserved(view: str, topic: str, before: int, now: int) -> JobError:
    """A source of a view with a watermark got more partitions while the job ran."""
    return JobError(
        f"topic {topic} had {before} partitions and now has {now}. Start again: {view} frees no "
        "state until the job knows all of them."
    )


def query_failed(query: str, *, source: str, target: str, checkpoint: str, error: str) -> JobError:
    """A query failed; ``error`` is Spark's message, stack traces included."""
    if any(phrase in error for phrase in _LOST):
        return JobError(
            f"{query}: topic {source} lost records before they were read (it was truncated or "
            f"recreated, or they expired): {summary(error)}. {rebuild(checkpoint)}"
        )
    return JobError(
        f"{query} ({source} > {target}) failed: {summary(error)}. A restart continues from "
        f"{checkpoint}; --log-level error shows Spark's own log."
    )


def missed_tombstones(
    view: str, topic: str, behind: float, retention: float, checkpoint: str, is_known: bool
) -> JobError:
    """A view of a table was behind for longer than the topic keeps tombstones; times in s.
    ``is_known``: whether the job may read the topic's settings."""
    setting, hint = "delete.retention.ms", ""
    if not is_known:
        setting = f"the default of {setting}, which the job may not read"
        hint = "If the topic keeps them for longer, give the job the permission DescribeConfigs. "
    return JobError(
        f"{view}: the view did not have all records of topic {topic} for {behind:.0f} s, but the "
        f"topic keeps tombstones for {retention:.0f} s ({setting}), so rows that were deleted "
        f"could stay in the view. {hint}{rebuild(checkpoint)}"
    )


def unknown_retention(view: str, topic: str, default: float) -> str:
    """A warning: the job may not read for how long a topic keeps tombstones; time in s."""
    return (
        f"warning: {view}: the job may not read delete.retention.ms of topic {topic}, and takes "
        f"Kafka's default ({default:.0f} s). Give it the permission DescribeConfigs for the topic."
    )


def long_load(view: str, topic: str, seconds: float, retention: float) -> str:
    """A warning: a load of a table took longer than the topic keeps tombstones; times in s."""
    return (
        f"warning: {view}: the load took {seconds:.0f} s, but topic {topic} keeps tombstones for "
        f"{retention:.0f} s (delete.retention.ms), so rows that were deleted meanwhile could stay "
        f"in the view. Set it to more than {seconds * 1000:.0f}, and rebuild the view: `queryable "
        "pipeline VIEW rebuild`."
    )


def moved_rows(view: str, topic: str) -> JobError:
    """A view compares the records of a table by partition, but keys have moved."""
    return JobError(
        f"{view}: topic {topic} has, or gets, keys with records in several partitions, because it "
        "has got more partitions. The view would keep old rows of these keys, also after a "
        "rebuild. Write the entries of the topic to a new one, and add a version of the view that "
        "reads that: see docs/changes-to-a-deployment.md."
    )


def rows_dropped(view: str, rows: int) -> str:
    """A warning: Spark dropped rows of a view that were not late."""
    return (
        f"warning: {view}: Spark has dropped {rows} rows since the start, so the view lacks them. "
        "The timestamps of their records are out of order by more than a day; see docs/spark.md."
    )


def rebuild(checkpoint: str) -> str:
    return (
        "To rebuild the view from what its source has now, delete and recreate its view topic, "
        f"delete {checkpoint}, and start again."
    )


def summary(error: str) -> str:
    """The innermost cause in a Java stack trace as ``Class: message``, on one line. If there is a
    Python stack trace in it, the cause in that trace."""
    cause = re.split(r"^Caused by: ", error, flags=re.MULTILINE)[-1]
    _, _, in_python = cause.rpartition(_PYTHON)
    if in_python and _PYTHON in cause:
        # lines with places in files and with code are indented
        cause = "\n".join(line for line in in_python.splitlines() if not line[:1].isspace())
    lines = [line.strip() for line in cause.splitlines() if not _FRAME.match(line)]
    text = " ".join(line for line in lines if line)
    text = re.sub(r"^(?:[a-z][\w$]*\.)+(?=[A-Z])", "", text)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
