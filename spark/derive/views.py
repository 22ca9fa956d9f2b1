"""The views that the entries of views.toml describe."""

from __future__ import annotations

import model.views as entries
from model.derive.derivation import Derivation, Join
from spark.derive.decoder import DerivedDecoder
from spark.derive.joins import TableDecoder
from spark.derive.plan import Plan
from spark.formats.decoders import Decoder
from spark.view import Source, View


def derived_view(entry: entries.View) -> View | None:
    """The view that ``[views.NAME.derive]`` describes; None if the entry has no such table."""
    derivation = entry.derivation
    if derivation is None:
        return None
    return View(
        name=entry.name,
        description=f"derived from {derivation.source} by views.toml",
        sources=(
            Source(derivation.source, DerivedDecoder(derivation)),
            *(Source(join.source, _decoder(join), join.static) for join in derivation.joins),
        ),
        topic=entry.topic,
        topic_config=dict(derivation.topic_config),
        table=(*derivation.written, ("view key", entry.key), ("view value", entry.value)),
        derive=Plan(derivation, entry.key, entry.value),
        output_mode="append" if _has_processors(derivation) else "update",
    )


def _has_processors(derivation: Derivation) -> bool:
    """Whether the plan has operators of state that allow only the output mode ``append``."""
    return bool(derivation.changing or derivation.pairs or derivation.is_rekeyed)


def _decoder(join: Join) -> Decoder:
    if join.stream is not None:
        return DerivedDecoder(join.stream)
    return TableDecoder(join.fields, join.rows, join.paths, join.schema, join.key_fields)
