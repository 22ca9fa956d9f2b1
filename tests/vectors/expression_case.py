"""A case of an expression, for the tables of cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Case(NamedTuple):
    text: str
    value: object
    given: Mapping[str, object] = {}
    """Fields with other values than in `ROW`."""


def all_cases(texts: Mapping[str, object], **given: object) -> list[Case]:
    return [Case(text, value, given) for text, value in texts.items()]
