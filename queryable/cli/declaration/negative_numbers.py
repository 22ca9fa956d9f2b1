"""Negative numbers as arguments: `queryable get balances -5`, without `--` before the number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

_NEGATIVE = re.compile(r"-(\d|\.\d|Infinity$)", re.ASCII)


def with_separator(args: Sequence[str], valued: frozenset[str]) -> list[str]:
    """The arguments of a command, with `--` between options and positional arguments if one of the
    latter is a negative number. `valued`: the options that take a value."""
    options: list[str] = []
    positional: list[str] = []
    remaining = iter(args)
    for argument in remaining:
        if argument == "--":
            positional += remaining
        elif argument in valued:
            options += (argument, *islice(remaining, 1))
        elif argument.startswith("-") and argument != "-" and not _NEGATIVE.match(argument):
            options.append(argument)
        else:
            positional.append(argument)
    if not any(map(_NEGATIVE.match, positional)):
        return list(args)
    return [*options, "--", *positional]
