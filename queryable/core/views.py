"""A view, as `GET /views/{view}` describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from queryable.core.formats import FORMATS, Format


@dataclass(frozen=True, slots=True)
class View:
    """`partitions` is None while no instance knows of the topic."""

    name: str
    topic: str
    path: str | None
    key: Format
    value: Format
    store: str
    partitioner: str
    partitions: int | None
    description: dict[str, Any]
    """All that it says."""

    @classmethod
    def of(cls, said: dict[str, Any]) -> View:
        """KeyError where it is no such description."""
        return cls(
            name=said["name"],
            topic=said["topic"],
            path=said.get("path"),
            key=FORMATS[said["key"]],
            value=FORMATS[said["value"]],
            store=said["store"],
            partitioner=said["partitioner"],
            partitions=said.get("partitions"),
            description=said,
        )
