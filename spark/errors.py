"""What can go wrong with a job, written for the person who reads the log."""

from __future__ import annotations


class JobError(Exception):
    """What failed, where, and what to do: shown as it is, without a stack trace."""


def made_anew(topic: str, checkpoint: str) -> JobError:
    """The topic is not the one that the checkpoint speaks of."""
    return JobError(
        f"topic {topic} was deleted or made anew since {checkpoint} was begun, so the view cannot "
        f"be brought forward. {_rebuild(checkpoint)}"
    )


def query_failed(query: str, *, source: str, target: str, checkpoint: str, error: str) -> JobError:
    """A query ended; ``error`` is what Spark says of it, stack traces included."""
    if "DATA_LOSS" in error or "data may have been lost" in error:
        return JobError(
            f"{query}: records of topic {source} that were not read yet are gone (truncated, "
            f"expired, or the topic was made anew): {_summary(error)}. {_rebuild(checkpoint)}"
        )
    return JobError(
        f"{query} ({source} > {target}) failed: {_summary(error)}. Start again to go on from "
        f"{checkpoint}; --log-level error shows Spark's own log."
    )


def _rebuild(checkpoint: str) -> str:
    return (
        "To derive the view anew from what its source holds now, delete and create its view topic, "
        f"delete {checkpoint}, and start again."
    )


def _summary(error: str) -> str:
    return error
