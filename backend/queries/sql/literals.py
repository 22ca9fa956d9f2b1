"""The values of parameters as texts of the expression language.

A text that is written so is read as the same value and as nothing else: a quote in it is doubled,
and the language knows no other special characters within quotes.
"""

from __future__ import annotations

import math
from decimal import Decimal

_MAX_LIST = 100


def literal(value: object) -> str:
    """Raises ValueError, which says what to write instead."""
    if type(value) is list:
        if not 1 <= len(value) <= _MAX_LIST:
            raise ValueError(f"a list for in has 1 to {_MAX_LIST} values")
        return f"({', '.join(map(_scalar, value))})"
    return _scalar(value)


def _scalar(value: object) -> str:
    if type(value) is str:
        return "'" + value.replace("'", "''") + "'"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int:
        return str(value) if value >= 0 else f"({value})"
    if type(value) is float and math.isfinite(value):
        text = f"{Decimal(repr(value)):f}"
        text = text if "." in text else f"{text}.0"
        return text if value >= 0 else f"({text})"
    if value is None:
        raise ValueError("it is null: write is null")
    raise ValueError("it is not a text, a number, true or false")
