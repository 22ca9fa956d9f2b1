"""The order of groups and of keys by one of their numbers."""

from __future__ import annotations

import math

from backend.queries.parameters import Parameters
from backend.queries.whole_view.fields import Number, negated
from backend.queries.whole_view.numbers import Numbers

SUM, ENTRIES = "sum", "entries"
ORDERS = (SUM, "min", "max", "avg", "count", ENTRIES)
"""The values of `order_by`, as the members of an item of `aggregate`. The first is the default."""


def is_descending(parameters: Parameters) -> bool:
    return parameters.choice("order", "desc", "asc") == "desc"


def number_of(numbers: Numbers, order_by: str) -> Number | None:
    """The number to order by; None if there is none: no entry has a number, or the sum of
    infinities is NaN."""
    match order_by:
        case "sum":
            number = numbers.sum
        case "min":
            number = numbers.least
        case "max":
            number = numbers.greatest
        case "avg":
            number = numbers.average
        case "count":
            number = numbers.count
        case _:
            number = numbers.entries
    return None if isinstance(number, float) and math.isnan(number) else number


def rank_of(number: Number | None, descending: bool) -> Number | None:
    """The rank of a number, None for None. The least rank comes first."""
    return number if number is None or not descending else negated(number)
