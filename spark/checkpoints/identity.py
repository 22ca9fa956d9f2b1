"""The content of ``view.json``, and what may change in it. Pure, without Spark.

Nothing in it depends on the code of this project, so a new release never refuses a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

FORMAT = 2
_FIRST_FORMAT = 1
"""The format of 0.1.0's development. It has a description of Spark's plan instead of ``written``,
and ``state_version`` instead of ``revision``."""
_MAX_SHOWN = 160  # characters

CODE = "code"

Written = tuple[tuple[str, str], ...]
"""What the user wrote: the keys of a table ``derive`` with their values, or ``CODE`` with a digest
of the user's files."""


@dataclass(frozen=True, slots=True)
class ViewIdentity:
    """The view, topics and settings that a checkpoint belongs to. ``state_store``: the class of
    Spark's state store. ``state_partitions``: their number, which Spark keeps for the life of the
    checkpoint. ``written``: None if an earlier release has made the checkpoint."""

    view: str
    topic: str
    sources: tuple[str, ...]
    revision: int
    state_store: str
    state_partitions: int
    written: Written | None


def to_json(identity: ViewIdentity) -> str:
    return json.dumps({"format": FORMAT, **asdict(identity)}, indent=1)


def from_json(text: str) -> ViewIdentity:
    """Raises ValueError if the text is not a ``view.json`` of a known format."""
    try:
        document: dict[str, Any] = json.loads(text)
        number = document.pop("format")
        if number == _FIRST_FORMAT:
            document |= {"revision": document["state_version"], "written": None}
        elif number != FORMAT:
            raise ValueError(f"it has format {number}, and this release reads up to {FORMAT}")
        return _read({name: document[name] for name in ViewIdentity.__slots__})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _read(fields: Mapping[str, Any]) -> ViewIdentity:
    written = fields["written"]
    if written is not None:
        written = tuple((name, text) for name, text in written)
    return ViewIdentity(**{**fields, "sources": tuple(fields["sources"]), "written": written})


def edits(before: Written | None, now: Written | None) -> list[str]:
    """The differences of the user's code or table, for a message; empty if there are none, or if
    one of the two is not known."""
    if before is None or now is None:
        return []
    old, new = dict(before), dict(now)
    if CODE in old and CODE in new:
        return [] if old == new else ["its code was edited"]
    return [
        f"{name} {_change(old.get(name), new.get(name))}"
        for name in sorted({**old, **new})
        if old.get(name) != new.get(name)
    ]


def _change(old: str | None, new: str | None) -> str:
    if old is None:
        return "is new"
    return "is gone" if new is None else f"is {_shown(new)} instead of {_shown(old)}"


def _shown(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
