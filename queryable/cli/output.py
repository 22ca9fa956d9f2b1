"""Output of commands: tables on a terminal, one JSON document per line otherwise."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from queryable.cli.values import cell_text, json_value

_SPARK_CHARACTERS = "▁▂▃▄▅▆▇█"
# the rows of a table are kept in memory, because the columns come from all of them
_MAX_TABLE_ROWS = 10_000


def is_for_terminal(as_json: bool) -> bool:
    """Whether to print for people: on a terminal, without `--json`."""
    return not as_json and sys.stdout.isatty()


def write_line(document: Mapping[str, Any]) -> None:
    """Prints a document as a line of NDJSON."""
    cells = {name: json_value(value) for name, value in document.items()}
    sys.stdout.write(json.dumps(cells, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_rows(
    rows: Iterable[Mapping[str, Any]],
    as_json: bool,
    *,
    on_row: Callable[[int], None] = lambda _: None,
) -> int:
    """Prints the rows, as a table or as JSON lines; returns their number.

    `on_row` is called after each row with the number of rows so far.
    """
    written = 0
    if not is_for_terminal(as_json):
        for written, row in enumerate(rows, 1):
            write_line(row)
            on_row(written)
        sys.stdout.flush()
        return written
    kept: list[Mapping[str, Any]] = []
    for written, row in enumerate(rows, 1):
        if written <= _MAX_TABLE_ROWS:
            kept.append(row)
        on_row(written)
    if kept:
        print_table(kept)
    if written > len(kept):
        Console(stderr=True).print(f"… {written - len(kept):,} more rows: use --json.")
    return written


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns of a table with these rows."""
    return list(dict.fromkeys(name for row in rows for name in flatten(row)))


def flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with one column per field of its value, if that is an object."""
    value = row.get("value")
    if not isinstance(value, dict):
        return dict(row)
    rest = {name: cell for name, cell in row.items() if name != "value"}
    return {**rest, **{f".{name}": cell for name, cell in value.items()}}


def print_table(
    rows: Sequence[Mapping[str, Any]],
    title: str | None = None,
    bars: Sequence[RenderableType] = (),
) -> None:
    """Prints nothing without rows. `bars`: one per row, in the last column."""
    if not rows:
        return
    table = Table(title=title, title_justify="left")
    columns = columns_of(rows)
    for name in columns:
        numbers = all(isinstance(flatten(row).get(name), (int, float)) for row in rows)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold")
    if bars:
        table.add_column("")
    for number, row in enumerate(rows):
        cells = flatten(row)
        # Text, not str, because rich would interpret a key such as [b] as markup
        texts = (Text(cell_text(cells[name]) if name in cells else "") for name in columns)
        table.add_row(*texts, *bars[number : number + 1])
    Console().print(table)


def sparkline(numbers: Sequence[float], width: int | None = None) -> str:
    """One character per number, scaled from the smallest to the greatest.

    If there are more than `width`, each character is the mean of several numbers.
    """
    finite = [number for number in numbers if math.isfinite(number)]
    if not finite:
        return ""
    if width is not None and len(finite) > width:
        cuts = [len(finite) * n // width for n in range(width + 1)]
        finite = [fmean(finite[a:b]) for a, b in pairwise(cuts)]
    least, most = min(finite), max(finite)
    if least == most:
        return _SPARK_CHARACTERS[3] * len(finite)
    scale = (len(_SPARK_CHARACTERS) - 1) / (most - least)
    return "".join(_SPARK_CHARACTERS[round((number - least) * scale)] for number in finite)
