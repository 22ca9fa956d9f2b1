"""The fraction of a second of times in the values of derived views."""

from __future__ import annotations

from model.expressions.calendar import SECOND, civil
from model.expressions.tree import Call, Expression
from model.expressions.types import Kind

NONE, MILLIS = "", ".SSS"
IF_ANY = "if any"
"""A fraction of 3 or 6 digits, or none: the times of fields may have a fraction."""


def fraction_of(expression: Expression) -> str | None:
    """How the fraction of a time is written; None if the expression is not a time."""
    if expression.type.kind is not Kind.TIME:
        return None
    if expression.type.subsecond:
        return MILLIS
    return IF_ANY if _may_have_fraction(expression) else NONE


def _may_have_fraction(expression: Expression) -> bool:
    if isinstance(expression, Call):
        if expression.function in ("timestamp_millis", "timestamp_micros"):
            return True
        # the others with times as arguments return one of them
        return expression.function not in ("timestamp_seconds", "date_trunc") and any(
            map(_may_have_fraction, expression.arguments)
        )
    return expression.type.kind is Kind.TIME


def time_text(micros: int, fraction: str) -> str:
    """A time, in µs since 1970, as text in a value: 2013-01-01T10:17:00Z."""
    seconds, rest = divmod(micros, SECOND)
    year, month, day = civil(seconds // 86_400)
    clock = seconds % 86_400
    digits = ""
    if fraction == MILLIS or (fraction == IF_ANY and rest and rest % 1000 == 0):
        digits = f".{rest // 1000:03d}"
    elif fraction == IF_ANY and rest:
        digits = f".{rest:06d}"
    date = f"{year:04d}-{month:02d}-{day:02d}"
    return f"{date}T{clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}{digits}Z"
