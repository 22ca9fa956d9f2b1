"""Keys or values of a sample that are not in the view's format: what they look like. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from model.formats.registry import SCHEMA_FORMATS
from model.toml_lines import view_table
from model.views import View
from queryable.cli.check.findings import Finding, ok, wrong
from queryable.cli.inspection.formats import infer_format
from queryable.cli.inspection.inference import Confidence, Inference
from queryable.cli.values import printable

_MAX_SHOWN = 40  # characters
_UNWRAP = "see docs/reference/change-data.md#debezium"


class Misfit(NamedTuple):
    """A key or value, and why it is not in the format."""

    raw: bytes
    reason: str
    is_row: bool = False
    """Whether the format is right, and `unwrap` refuses the value. The reason says what to do."""


def format_finding(
    view: View, what: str, misfits: Sequence[Misfit], everything: Sequence[bytes]
) -> Finding:
    """Whether all keys or values of the sample are in the view's format. `what`: key or value."""
    subject, is_key = f"view {view.name}", what == "key"
    format_ = view.key if is_key else view.value
    total = len(everything)
    if not misfits:
        return ok(subject, f"all {total} {what}s of the sample are {format_}")
    number = f"all {total}" if len(misfits) == total else f"{len(misfits)} of {total}"
    store = f" in a {view.store} store" if is_key else ""
    inferred = infer_format(everything, is_key)
    message = (
        f'{number} {what}s of topic {view.topic} do not fit {what} = "{format_}"{store}: '
        f"{_effect(view, is_key)}. {shown(misfits[0].raw)} is {misfits[0].reason}"
    )
    if _is_other(view, what, inferred):
        likely = f"look like {inferred.value} ({inferred.reason})"
        message += f"; they {likely if inferred.value is not None else f'are {inferred.reason}'}"
    action = _UNWRAP if misfits[0].is_row else _action(view, what, inferred)
    return wrong(subject, message, action)


def _is_other(view: View, what: str, inferred: Inference) -> bool:
    """Whether what the records look like is not what the view has."""
    given = (view.key, view.key_schema) if what == "key" else (view.value, view.value_schema)
    if inferred.value is None:  # it depends on their schemas
        return bool(inferred.schema_ids) and given[1] != inferred.schema
    if inferred.schema is None and inferred.value == given[0]:
        return False
    return (inferred.value, inferred.schema) != given


def _effect(view: View, is_key: bool) -> str:
    if is_key:
        return "these records are in no answer, and become dead letters"
    if view.keeps_unreadable:
        return "reads of their keys are refused (value-unreadable), and they become dead letters"
    return "these records are skipped, and become dead letters"


def _action(view: View, what: str, inferred: Inference) -> str:
    table = view_table(view.name)
    if inferred.confidence > Confidence.GUESS and _is_other(view, what, inferred):
        framed = "" if inferred.schema is None else f', {what}_schema = "{inferred.schema}"'
        formats = f'"{inferred.value}"'
        if inferred.value is None:
            formats = " or ".join(f'"{schema_format.name}"' for schema_format in SCHEMA_FORMATS)
            framed += " and a table [schemas]"
        return f"set {what} = {formats}{framed} in {table}, or to what the producers write"
    store = " and store" if what == "key" else ""
    return f"set {what}{store} in {table} to what the producers write"


def shown(raw: bytes) -> str:
    """Bytes as a short text, or as hexadecimal digits, with their number."""
    size = f"{len(raw)} byte{'' if len(raw) == 1 else 's'}"
    try:
        text = printable(raw.decode())
    except UnicodeDecodeError:
        digits = raw[:_MAX_SHOWN].hex()
        return f"0x{digits[:_MAX_SHOWN]}{'…' if len(digits) > _MAX_SHOWN else ''} ({size})"
    cut = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
    return f'"{cut}" ({size})'
