"""An inferred field of a view, and how certain it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Confidence(IntEnum):
    GUESS = 0
    LIKELY = 1
    CERTAIN = 2


@dataclass(frozen=True, slots=True)
class Inference:
    """`value` is None if the view has no such field, and for a key or value if the records do not
    show its format. Then `schema_ids` are the ids of the schemas that define it, the most frequent
    one first; empty if the frames of the records have no known form. `reason` is for people.
    `schema`: what `key_schema` or `value_schema` is with this format."""

    value: str | None
    confidence: Confidence
    reason: str = ""
    schema: str | None = None
    schema_ids: tuple[int, ...] = ()
