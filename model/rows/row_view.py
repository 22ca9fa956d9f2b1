"""The fields of a view (`model.views.View`) that this package uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from model.formats.codec import Codec
from model.rows.reader import RowReader

Pair = tuple[bytes, bytes]
"""Stored key and stored bytes."""

Render = Callable[[Iterable[Pair]], list[bytes]]
"""Stored pairs to JSON items, in the same order."""


class Renders(Protocol):
    """A kind of store (`model.kinds.kind.Kind`)."""

    def render(self, view: Any) -> Render: ...


class RowView(Protocol):
    """A view, as rows see it. The fields are those of `model.views.View`."""

    @property
    def name(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def value(self) -> str: ...

    @property
    def key_codec(self) -> Codec: ...

    @property
    def value_codec(self) -> Codec: ...

    @property
    def row_reader(self) -> RowReader | None: ...

    @property
    def kind(self) -> Renders: ...

    @property
    def as_json(self) -> RowView:
        """The view as if its values were JSON."""
