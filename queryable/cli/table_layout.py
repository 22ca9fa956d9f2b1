"""How rows fit a terminal: as a table, or as records if a table would break words. No I/O."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len

MAX_LINES_PER_CELL = 4
_BORDERS = 3  # characters of a table per column, and one more
_MAX_RULE = 60


def column_widths(
    columns: Sequence[str], cells: Sequence[Sequence[str]], available: int
) -> list[int] | None:
    """The widths of the columns, in which no word is broken and cells have few lines; None if the
    line is too short. `cells`: rows of texts. `available`: the number of characters on a line."""
    by_column = [[name, *(row[n] for row in cells)] for n, name in enumerate(columns)]
    natural = [max(map(cell_len, texts)) for texts in by_column]
    words = [max(map(longest_word, texts)) for texts in by_column]
    # a text of n characters in a column of w has about n / w lines
    minimums = [
        max(word, -(-width // MAX_LINES_PER_CELL))
        for word, width in zip(words, natural, strict=True)
    ]
    free = available - _BORDERS * len(columns) - 1 - sum(minimums)
    if free < 0:
        return None
    widths = list(minimums)
    # The narrowest column that needs more gets the next character. So long ones share the rest.
    while free and (growing := [n for n, width in enumerate(widths) if width < natural[n]]):
        widths[min(growing, key=widths.__getitem__)] += 1
        free -= 1
    return widths


def longest_word(text: str) -> int:
    """The length of the longest word, in characters of a terminal."""
    return max(map(cell_len, text.split()), default=0)


def record_lines(number: int, cells: Sequence[tuple[str, str]], available: int) -> list[str]:
    """One row as a record: a line for each cell, and more lines for long ones. Words stay whole."""
    width = max((cell_len(name) for name, _ in cells), default=0)
    title = f"─[ {number} ]"
    lines = [title + "─" * max(min(available, _MAX_RULE) - len(title), 0)]
    for name, text in cells:
        wrapped = textwrap.wrap(
            text, max(available - width - 3, 20),
            break_long_words=False, break_on_hyphens=False, drop_whitespace=True,
        )  # fmt: skip
        padding = " " * (width - cell_len(name))
        first_line, *more_lines = wrapped or [""]
        lines.append(f"{name}{padding} │ {first_line}".rstrip())
        lines += [f"{' ' * width} │ {line}" for line in more_lines]
    return lines
