"""The views that Spark derives in a stack, and their progress.

``spark`` is imported only when needed, so a stack without Spark's views runs without pyspark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from local.errors import LocalError
from local.kafka.connection import deployment_of
from local.settings import StackSettings

if TYPE_CHECKING:
    from spark.view import View

RESTARTS = 3
"""Number of restarts after which a failed view is an error."""


class DerivedView(NamedTuple):
    """A view that Spark derives. ``sources``: all topics that it reads; ``streams``: those that are
    not static; ``argument``: the view's name or path for ``spark.run``; ``partitions`` and
    ``config``: for creating its topic."""

    name: str
    sources: tuple[str, ...]
    streams: tuple[str, ...]
    topic: str
    partitions: int
    config: Mapping[str, str]
    argument: str


def derived_views(settings: StackSettings) -> dict[str, DerivedView]:
    """The views that the settings name, in the order of their start; by default those that
    views.toml derives with Spark. In the user's own Kafka, the default does not include the demo's
    views. Raises ``LocalError`` if a view is unknown."""
    if settings.spark_views:
        return select(settings.spark_views.split(","), settings.views)
    if settings.has_demo or not settings.has_demo_views:
        return declared_views(settings.views)
    return {}


def declared_views(views: Path) -> dict[str, DerivedView]:
    """The views that a views.toml derives with Spark, in its order. Raises ``LocalError``."""
    deployment = deployment_of(views)
    if not any(entry.uses_spark for entry in deployment.views):
        return {}
    from spark import discovery
    from spark.errors import JobError

    try:
        views_by_name = discovery.declared_views(deployment, views.parent)
    except JobError as error:
        raise LocalError(f"{views}: {error}") from None
    return {name: _derived(view, name) for name, view in views_by_name.items()}


def select(names: Iterable[str], views: Path) -> dict[str, DerivedView]:
    """Views by the names of their entries in the file ``views``, by the names of the demo's views,
    or by their files, folders or modules. Raises ``LocalError`` if one is unknown."""
    from spark.discovery import is_path, select_views
    from spark.errors import JobError
    from spark.views import VIEWS

    deployment = deployment_of(views)
    selected: dict[str, DerivedView] = {}
    for name in (text.strip() for text in names):
        # absolute, because Spark runs in another folder
        argument = str(Path(name).absolute()) if is_path(name) else name
        try:
            chosen = select_views([argument], VIEWS, deployment, views.parent)
        except JobError as error:
            raise LocalError(f"QUERYABLE_SPARK_VIEWS: {error}") from None
        selected |= {view.name: _derived(view, argument) for view in chosen.values()}
    return selected


def _derived(view: View, argument: str) -> DerivedView:
    config = {"cleanup.policy": "compact", **view.topic_config}
    streams = tuple(source.topic for source in view.streams)
    return DerivedView(
        view.name, view.source_topics, streams, view.topic, view.partitions, config, argument
    )


def source_offsets(progress: Mapping[str, Any]) -> dict[str, dict[tuple[str, int], int]]:
    """From Spark's progress file: view ► topic and partition of a source ► next offset."""
    return {
        view: {
            (topic, int(partition)): int(offset)
            for topic, offsets in status["source_offsets"].items()
            for partition, offset in offsets.items()
        }
        for view, status in progress.items()
    }


def spark_failure(progress: Mapping[str, Any], views: Iterable[str]) -> str | None:
    """An error message if one of these views fails repeatedly, or has failed for good; else
    None."""
    for view in views:
        status = progress.get(view, {})
        if status.get("state") == "failed" and (
            status["is_final"] or status["restarts"] >= RESTARTS
        ):
            return f"Spark cannot derive {view}: {status['last_error']}"
    return None
