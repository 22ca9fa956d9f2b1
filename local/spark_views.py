"""The views that Spark derives in a stack, and their progress.

``spark`` is imported only when needed, so a stack without Spark's views runs without pyspark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from local.errors import LocalError
from local.kafka.connection import deployment_of
from local.settings import StackSettings
from model.views import Deployment

RESTARTS = 3
"""Number of restarts after which a failed view is an error."""


class DerivedView(NamedTuple):
    """``argument``: the view's name or path for ``spark.run``; ``partitions``: of its topic."""

    name: str
    source: str
    topic: str
    partitions: int
    argument: str


def derived_views(settings: StackSettings) -> dict[str, DerivedView]:
    """The views that the settings name; by default all declared views, without the demo's data only
    those with a table ``derive``. They are in the order of their start. ``LocalError`` if one is
    unknown."""
    deployment = deployment_of(settings.views)
    if settings.spark_views:
        return select(settings.spark_views.split(","), deployment)
    if settings.has_demo:
        return declared_views(deployment)
    derived = {entry.name for entry in deployment.views if entry.derivation is not None}
    if not derived:
        return {}
    return {name: view for name, view in declared_views(deployment).items() if name in derived}


def declared_views(deployment: Deployment) -> dict[str, DerivedView]:
    """The views in ``spark.views`` whose topics have an entry in views.toml, and those with a table
    ``derive``, in its order."""
    from spark.derive.views import derived_views
    from spark.views import VIEWS

    known = {**VIEWS, **derived_views(deployment)}
    by_topic = {view.topic: view for view in select(known, deployment).values()}
    topics = dict.fromkeys(entry.topic for entry in deployment.views)
    found = (by_topic[topic] for topic in topics if topic in by_topic)
    return {view.name: view for view in found}


def select(names: Iterable[str], deployment: Deployment) -> dict[str, DerivedView]:
    """Views by name, or by the path of a file or folder; ``LocalError`` if one is unknown."""
    from spark.derive.views import derived_views
    from spark.discovery import is_path, select_views
    from spark.errors import JobError
    from spark.views import VIEWS

    known = {**VIEWS, **derived_views(deployment)}
    found: dict[str, DerivedView] = {}
    for each in (text.strip() for text in names):
        # absolute, because Spark runs in another folder
        argument = str(Path(each).absolute()) if is_path(each) else each
        try:
            chosen = select_views([argument], known)
        except JobError as error:
            raise LocalError(f"QUERYABLE_SPARK_VIEWS: {error}") from None
        for view in chosen.values():
            found[view.name] = DerivedView(
                view.name, view.source, view.topic, view.partitions, argument
            )
    return found


def source_offsets(progress: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """From Spark's progress file: view ► partition of its raw topic ► next offset."""
    return {
        view: {
            int(partition): int(offset)
            for of_topic in status["source_offsets"].values()
            for partition, offset in of_topic.items()
        }
        for view, status in progress.items()
    }


def spark_failure(progress: Mapping[str, Any], views: Iterable[str]) -> str | None:
    """An error message if one of these views fails repeatedly. The job itself goes on retrying."""
    for view in views:
        status = progress.get(view, {})
        if status.get("state") == "failed" and status["restarts"] >= RESTARTS:
            return f"Spark cannot derive {view}: {status['last_error']}"
    return None
