"""Checks whether rows and deletions among the sampled values are read as such. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from model.formats.codec import Codec
from model.formats.registry import FORMATS
from model.formats.schemas import CONFLUENT, SchemaSource
from model.problems import Unavailable
from model.rows.reader import RowRule
from model.toml_lines import view_table
from model.views import View
from queryable.cli.check.findings import Finding, warning
from queryable.cli.inspection.rows import infer_rows
from queryable.cli.inspection.samples import SampledRecord


def check_rows(
    view: View, sample: Sequence[SampledRecord], schemas: SchemaSource | None = None
) -> Iterator[Finding]:
    """About the records of the view's topic. `schemas`: those that were fetched, if values name
    their schemas. Values whose schema was not fetched are left out."""
    codec = view.record_codec
    if not codec.is_document:
        return
    if codec.needs_schemas:
        codec = FORMATS[codec.name].codec_with(CONFLUENT, schemas)
    rule = RowRule(view.unwrap, bool(view.null_deletes))
    yield from _unread_rows(view, view.topic, rule, codec, sample, view_table(view.name))


def check_sources(view: View, topic: str, sample: Sequence[SampledRecord]) -> Iterator[Finding]:
    """About the records of a topic that the view is derived from."""
    assert view.derivation is not None
    table = f"views.{view.name}.derive"
    sources = [(view.derivation.source, view.derivation.rows, f"[{table}]")]
    sources += [
        (join.source, join.rows, f"[{table}.join.{join.name}]") for join in view.derivation.joins
    ]
    for source, rule, where in sources:
        if source == topic:
            is_framed = rule is not None and rule.is_framed
            codec = FORMATS["json"].codec_with(CONFLUENT if is_framed else None, None)
            yield from _unread_rows(view, topic, rule or RowRule(), codec, sample, where)


def _unread_rows(
    view: View,
    topic: str,
    rule: RowRule,
    codec: Codec,
    sample: Sequence[SampledRecord],
    where: str,
) -> Iterator[Finding]:
    values = [record.value for record in sample if record.value is not None]
    inferred = infer_rows([codec.to_json(value) for value in values if _is_valid(codec, value)])
    if (
        inferred is None
        or rule.unwrap is not None
        or (inferred.field == "null_deletes" and rule.null_deletes)
    ):
        return
    yield warning(
        f"view {view.name}",
        f"topic {topic}: {inferred.reason}: {inferred.effect}",
        f"set {inferred.field} = {inferred.toml} in {where}",
    )


def _is_valid(codec: Codec, value: bytes) -> bool:
    try:
        codec.check(value)
    except (ValueError, Unavailable):  # its schema may be missing
        return False
    return True
