"""A view, as `GET /views/{view}` describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from queryable.client.protocol.answers import Source
from queryable.client.protocol.formats import Format, format_of, key_format_of


@dataclass(frozen=True, slots=True)
class View:
    """`partitions` is None while no instance knows the topic's partition count. `version` is None
    if the view is not declared with versions."""

    name: str
    topic: str
    path: str | None
    key: Format
    value: Format
    store: str
    partitioner: str
    partitions: int | None
    description: dict[str, Any]
    """The whole document."""
    version: int | None = None
    epoch: str | None = field(default=None, compare=False)
    """The epoch of the instance that described it; None: unknown."""
    definition: str | None = field(default=None, compare=False)
    """The hash of the definition that is described; None: unknown."""

    @classmethod
    def from_json(
        cls, description: dict[str, Any], headers: Mapping[str, str] | None = None
    ) -> View:
        """The view that `description` describes. `headers`: the headers of the response. Raises
        KeyError if it is not a description of a view."""
        return cls(
            name=description["name"],
            topic=description["topic"],
            path=description.get("path"),
            key=key_format_of(description),
            value=format_of(description["value"]),
            store=description["store"],
            partitioner=description["partitioner"],
            partitions=description.get("partitions"),
            description=description,
            version=description.get("version"),
            epoch=None if headers is None else Source(headers).epoch,
            definition=description.get("hash"),
        )
