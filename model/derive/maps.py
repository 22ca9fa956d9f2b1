"""What ``[views.NAME.derive]`` says about a view without aggregates, and about the topic that it
reads: a stream of records, or a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.derive.derivation import Derivation
from model.derive.reading import TableError
from model.expressions.tree import fields_of

STREAM, TABLE = "stream", "table"

OF_TABLES = ("count", "sum", "avg")
"""The aggregates that a table may have: a row can be removed from their result."""

_MAP_HINTS = {
    "window": "write count = true or another aggregate; or points = true for an entry at each time",
    "session": "write count = true or another aggregate",
    "identity": "an entry that is written again stays the same, so a map needs none: omit it, or "
    'write latest = "…" with the time by which the newest record is chosen',
}
_TABLE_HINTS = {
    "identity": "the newest record of a key counts, so it needs none: omit it",
    "each": "a deletion would not know the rows that a record became: read the topic as a stream",
    "time": "the newest record of a key counts, whatever its time is: omit it",
    "points": 'a table has one row for each key, at no time: omit it, or write kind = "stream"',
    "window": 'a table has one row for each key, at no time: omit it, or write kind = "stream"',
    "session": 'a table has one row for each key, at no time: omit it, or write kind = "stream"',
}


def parse_kind(table: Mapping[str, Any]) -> bool:
    """Return True if ``from`` is a table: the newest record of a key counts, and a null value
    deletes it. Raises TableError."""
    kind = table.get("kind", STREAM)
    if kind not in (STREAM, TABLE):
        raise TableError(
            ("kind",),
            f'{kind!r} is not a kind of topic; allowed: "{STREAM}" (each record counts) and '
            f'"{TABLE}" (the newest record of a key counts, and a null value deletes it)',
        )
    return bool(kind == TABLE)


def check_map(table: Mapping[str, Any], derivation: Derivation) -> None:
    """Raise TableError if a key makes no sense without an aggregate."""
    for key, hint in _MAP_HINTS.items():
        if derivation.is_map and key in table:
            raise TableError((key,), f"only with an aggregate: {hint}")


def check_table(table: Mapping[str, Any], derivation: Derivation) -> None:
    """Raise TableError if a view cannot follow the changes of the table that it reads."""
    if not derivation.is_table:
        return
    for aggregate in derivation.aggregates:
        if aggregate.function not in OF_TABLES:
            raise TableError(
                (aggregate.function,),
                'not with kind = "table": a row that changes or is deleted could not be removed '
                f"from the result. Use {', '.join(OF_TABLES)}; or derive a view of the rows, "
                "without an aggregate, and query it with /aggregate or /top",
            )
    for key, hint in _TABLE_HINTS.items():
        if key in table:
            raise TableError((key,), f'not with kind = "table": {hint}')
    if derivation.is_rekeyed and derivation.changing:
        raise TableError(
            ("key",),
            "with a join that follows its table, the key of a table must follow from the record's "
            'key: write key = "record_key", or "concat(\'a-\', record_key)". For another key, '
            'write a second view whose from is the topic of this one, with kind = "table"',
        )


def check_order(derivation: Derivation) -> None:
    """Raise TableError if ``latest`` or ``top_k`` compares offsets of different partitions."""
    if any("record_partition" in fields_of(part) for part in derivation.key):
        return
    for aggregate in derivation.aggregates:
        if aggregate.function not in ("latest", "top_k") or aggregate.expression is None:
            continue
        for name in ("record_offset", "record_partition"):
            if name in fields_of(aggregate.expression):
                raise TableError(
                    (aggregate.function,),
                    f"cannot have {name}: offsets of different partitions have no order. Omit "
                    f"{aggregate.function}, so that the last record of a key counts, or write "
                    f'{aggregate.function} = "record_timestamp"',
                )
