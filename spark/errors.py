"""What can go wrong with a job, written for the person who reads the log."""

from __future__ import annotations

import re

_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_LONGEST = 400


class JobError(Exception):
    """What failed, where, and what to do: shown as it is, without a stack trace."""


def made_anew(topic: str, checkpoint: str) -> JobError:
    """The topic is not the one that the checkpoint speaks of."""
    return JobError(
        f"topic {topic} was deleted or made anew since {checkpoint} was begun, so the view cannot "
        f"be brought forward. {_rebuild(checkpoint)}"
    )


def repartitioned(topic: str, before: int, now: int) -> JobError:
    """A view topic was given more partitions while the job ran."""
    return JobError(
        f"topic {topic} had {before} partitions and now has {now}. Start again to write to all of "
        "them; what was written before stays where it is, until the view is derived anew."
    )


def query_failed(query: str, *, source: str, target: str, checkpoint: str, error: str) -> JobError:
    """A query ended; ``error`` is what Spark says of it, stack traces included."""
    if "DATA_LOSS" in error or "data may have been lost" in error:
        return JobError(
            f"{query}: records of topic {source} that were not read yet are gone (truncated, "
            f"expired, or the topic was made anew): {summary(error)}. {_rebuild(checkpoint)}"
        )
    return JobError(
        f"{query} ({source} > {target}) failed: {summary(error)}. Started again it goes on "
        f"from {checkpoint}; --log-level error shows Spark's own log."
    )


def rows_dropped(view: str, rows: int) -> str:
    """A warning: Spark dropped rows of a view though they were not late."""
    return (
        f"warning: {view}: Spark has dropped {rows} rows since the start, so the view lacks them. "
        "Their records' timestamps are out of order by more than a day; see docs/spark.md."
    )


def _rebuild(checkpoint: str) -> str:
    return (
        "To derive the view anew from what its source holds now, delete and create its view topic, "
        f"delete {checkpoint}, and start again."
    )


def summary(error: str) -> str:
    """The innermost cause of a Java stack trace as ``Class: message``, on one line."""
    cause = re.split(r"^Caused by: ", error, flags=re.MULTILINE)[-1]
    lines = [line.strip() for line in cause.splitlines() if not _FRAME.match(line)]
    text = " ".join(line for line in lines if line)
    text = re.sub(r"^(?:[a-z][\w$]*\.)+(?=[A-Z])", "", text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
