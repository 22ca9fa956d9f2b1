"""Starts a view only with a checkpoint that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from pyspark.sql import SparkSession

from spark.checkpoints.definitions import description, details, is_installed
from spark.checkpoints.files import CheckpointFiles
from spark.checkpoints.generations import query_folders
from spark.checkpoints.identity import Rule, ViewIdentity, digest, from_json, to_json
from spark.checkpoints.plans import literals, placeholder, plan_text, python_functions
from spark.errors import JobError, rebuild
from spark.settings import Settings
from spark.view import View, derived_rows

FILE = "view.json"
_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"
# The packages of this project that contain views.
_VIEWS = ("spark.views", "spark.raw_topics")


class CheckpointRefused(JobError):
    """The checkpoint does not belong to the view. A restart does not help."""


def check_view(
    session: SparkSession, view: View, settings: Settings, log: Callable[[str], None]
) -> None:
    """Writes ``view.json`` into a checkpoint without state. If there is state, compares the
    checkpoint's ``view.json`` with the view. Raises ``CheckpointRefused``, and the errors of
    ``derived_rows`` if the view has no plan."""
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
    for problem, action in _problems(before, now, settings, view):
        raise _refused(view, problem, action)
    if before.state_partitions != now.state_partitions:
        log(
            f"{view.name}: its state keeps its {before.state_partitions} partitions: "
            f"{_PARTITIONS}={now.state_partitions} is for new checkpoints."
        )
    now = replace(now, state_partitions=before.state_partitions)
    if now != before:
        files.replace(path, to_json(now))


def identity_of(session: SparkSession, view: View) -> ViewIdentity:
    """The identity of a view as it is now. Raises errors of Spark if it has no plan."""
    return ViewIdentity(
        view=view.name,
        topic=view.topic,
        sources=view.source_topics,
        state_version=view.state_version,
        state_store=str(session.conf.get(_STATE_STORE)).rpartition(".")[2],
        state_partitions=int(str(session.conf.get(_PARTITIONS))),
        rule=_rule_of(session, view),
    )


def _rule_of(session: SparkSession, view: View) -> Rule:
    rows = derived_rows(
        view, [placeholder(session, streaming=not source.static) for source in view.inputs]
    )
    derive = view.derive
    while isinstance(derive, partial):
        derive = derive.func
    own = derive.__module__.partition(".")[0]

    def is_library(module: str) -> bool:
        return module.partition(".")[0] not in (own, "spark", "model") and is_installed(module)

    def is_framework(module: str) -> bool:
        if module.startswith(_VIEWS):
            return False
        return module.partition(".")[0] in ("spark", "model") or is_library(module)

    functions = python_functions(session, rows)
    code = view.derive, view.inputs, view.output_mode
    return Rule(
        plan=f"Output {view.output_mode}\n{plan_text(rows)}",
        functions=tuple(digest(description(each, is_library)) for each in functions),
        code=digest(description(code, is_framework)),
        spark=session.version,
        release=_release(),
        literals=literals(rows),
        function_details=_digest(details(functions, is_library)),
        code_details=_digest(details(code, is_framework)),
    )


def _digest(text: str) -> str:
    return digest(text) if text else ""


def _release() -> str:
    try:
        return version("queryable-topics")
    except PackageNotFoundError:
        return "unknown"


def _problems(
    before: ViewIdentity, now: ViewIdentity, settings: Settings, view: View
) -> Iterator[tuple[str, str]]:
    """Yields pairs: what is wrong, and what to do."""
    checkpoint = settings.checkpoint(view)
    of = f"the checkpoint {checkpoint}"
    if before.view != now.view:
        yield f"{of} belongs to the view {before.view}", "Use another --checkpoint-dir."
    for kind, old, new in (
        ("source", before.sources, now.sources),
        ("view topic", (before.topic,), (now.topic,)),
    ):
        if old != new:
            yield (
                f"{of} belongs to the {kind} {', '.join(old)}, and the view has {', '.join(new)}",
                _new_version(view),
            )
    if before.state_store != now.state_store:
        yield (
            f"{of} has state in {before.state_store}, and this job keeps it in {now.state_store}",
            _rebuild(checkpoint),
        )
    if before.state_version != now.state_version:
        yield (
            f"{of} has state version {before.state_version}, and the view has state version "
            f"{now.state_version}",
            _new_version(view),
        )
    difference = before.rule.difference(now.rule)
    if difference is not None and settings.same_rules.get(view.name) != now.rule.digest:
        yield (
            f"the view's rule is not that of {of}: {difference}",
            f"{_new_version(view)} If both rules give the same results for all records, continue "
            f"with --same-rule {view.name}={now.rule.digest}.",
        )


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
