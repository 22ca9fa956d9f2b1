"""Negative numbers as arguments: `queryable get balances -5`, without `--` before the number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

_NEGATIVE = re.compile(r"-(\d|\.\d|Infinity$)", re.ASCII)


def with_separator(args: Sequence[str], valued: frozenset[str]) -> list[str]:
    """The arguments of a command with `--` before those that are no options, if a negative number
    is among these. `valued`: the options that take a value."""
    options: list[str] = []
    others: list[str] = []
    left = iter(args)
    for each in left:
        if each == "--":
            others += left
        elif each in valued:
            options += (each, *islice(left, 1))
        elif each.startswith("-") and each != "-" and not _NEGATIVE.match(each):
            options.append(each)
        else:
            others.append(each)
    if not any(map(_NEGATIVE.match, others)):
        return list(args)
    return [*options, "--", *others]
