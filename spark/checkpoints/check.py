"""Starts a view only with a checkpoint that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pyspark.sql import SparkSession

from spark.checkpoints.files import CheckpointFiles
from spark.checkpoints.generations import query_folders
from spark.checkpoints.identity import CODE, ViewIdentity, Written, edits, from_json, to_json
from spark.checkpoints.own_code import own_code
from spark.errors import JobError, rebuild
from spark.settings import Settings
from spark.view import View

FILE = "view.json"
_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"


class CheckpointRefused(JobError):
    """The checkpoint does not belong to the view. A restart does not help."""


def check_view(
    session: SparkSession, view: View, settings: Settings, log: Callable[[str], None]
) -> None:
    """Writes ``view.json`` into a checkpoint without state. If there is state, compares the
    checkpoint's ``view.json`` with the view. Raises ``CheckpointRefused``."""
    files = CheckpointFiles(session)
    checkpoint = settings.checkpoint(view)
    path = f"{checkpoint}/{FILE}"
    now = identity_of(session, view)
    if not files.has_files(f"{query_folders(files, checkpoint).result}/offsets"):
        files.replace(path, to_json(now))
        return
    text = files.read(path)
    if text is None:
        raise _refused(
            view, f"the checkpoint {checkpoint} has state but no {FILE}", _rebuild(checkpoint)
        )
    try:
        before = from_json(text)
    except ValueError as error:
        raise _refused(view, f"{path} cannot be read: {error}", _rebuild(checkpoint)) from error
    for problem, action in _problems(before, now, checkpoint, view):
        raise _refused(view, problem, action)
    for line in _news(before, now, view):
        log(f"{view.name}: {line}")
    now = replace(now, state_partitions=before.state_partitions)
    if now != before:
        files.replace(path, to_json(now))


def identity_of(session: SparkSession, view: View) -> ViewIdentity:
    """The identity of a view as it is now."""
    return ViewIdentity(
        view=view.name,
        topic=view.topic,
        sources=view.source_topics,
        revision=view.revision or 1,
        state_store=str(session.conf.get(_STATE_STORE)).rpartition(".")[2],
        state_partitions=int(str(session.conf.get(_PARTITIONS))),
        written=_written(view),
    )


def _written(view: View) -> Written:
    """What the user wrote; empty for a view that is neither from views.toml nor from a file."""
    return view.table or (((CODE, own_code(view.module)),) if view.module else ())


def _problems(
    before: ViewIdentity, now: ViewIdentity, checkpoint: str, view: View
) -> Iterator[tuple[str, str]]:
    """Yields pairs: what is wrong, and what to do."""
    owner = f"the checkpoint {checkpoint}"
    if before.view != now.view:
        yield f"{owner} belongs to the view {before.view}", "Use another --checkpoint-dir."
    for kind, old, new in (
        ("source", before.sources, now.sources),
        ("view topic", (before.topic,), (now.topic,)),
    ):
        if old != new:
            yield (
                f"{owner} belongs to the {kind} {', '.join(old)}, and the view has "
                f"{', '.join(new)}",
                _new_version(view),
            )
    if before.state_store != now.state_store:
        yield (
            f"{owner} has state in {before.state_store}, and this job keeps it in "
            f"{now.state_store}",
            _rebuild(checkpoint),
        )
    if before.revision != now.revision:
        yield (
            f"{owner} has revision {before.revision}, and the view has revision {now.revision}",
            _new_version(view),
        )
    if view.revision is None and (edited := edits(before.written, now.written)):
        action = _new_version(view)
        if view.module:
            action += (
                f" If both rules give the same results for all records, declare revision="
                f"{before.revision} in its View(…)."
            )
        yield f"its rule is not that of {owner}: {'; '.join(edited)}", action


def _news(before: ViewIdentity, now: ViewIdentity, view: View) -> Iterator[str]:
    """Yields messages for operators about a view that continues."""
    if before.state_partitions != now.state_partitions:
        yield (
            f"its state keeps its {before.state_partitions} partitions: "
            f"{_PARTITIONS}={now.state_partitions} is for new checkpoints."
        )
    if before.written is None:
        yield (
            "an earlier release has made its checkpoint. It continues without a comparison of its "
            "rule, this once."
        )
    elif edits(before.written, now.written):
        yield f"its code was edited. It continues, because its revision is still {now.revision}."


def _new_version(view: View) -> str:
    name, _, number = view.name.partition("@")
    following = int(number) + 1 if number.isdecimal() else 2
    return (
        f'Add a new version of the view, [views."{name}@{following}"] in views.toml, with a topic '
        "of its own; or undo the edit."
    )


def _rebuild(checkpoint: str) -> str:
    return f"Add a new version of the view. {rebuild(checkpoint)}"


def _refused(view: View, problem: str, action: str) -> CheckpointRefused:
    return CheckpointRefused(
        f"{view.name} is not started: {problem}. Its topic would have results of both. {action}"
    )
