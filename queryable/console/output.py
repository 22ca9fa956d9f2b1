"""What commands write: tables for people, a JSON document a line for pipes."""

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

from queryable.console.values import plain, shown

_SPARKS = "▁▂▃▄▅▆▇█"
# a table has to know its columns before it can be shown: more rows than anyone reads go as lines
_MOST_IN_TABLE = 10_000


def is_for_people(as_json: bool) -> bool:
    return not as_json and sys.stdout.isatty()


def write_line(document: Mapping[str, Any]) -> None:
    """As a line of NDJSON."""
    cells = {name: plain(value) for name, value in document.items()}
    sys.stdout.write(json.dumps(cells, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_rows(
    rows: Iterable[Mapping[str, Any]],
    as_json: bool,
    *,
    count: Callable[[int], None] = lambda _: None,
) -> int:
    """All of them, as they come; how many. `count` is told how many there are by now."""
    written = 0
    if not is_for_people(as_json):
        for written, row in enumerate(rows, 1):
            write_line(row)
            count(written)
        sys.stdout.flush()
        return written
    kept: list[Mapping[str, Any]] = []
    for written, row in enumerate(rows, 1):
        if written <= _MOST_IN_TABLE:
            kept.append(row)
        count(written)
    if kept:
        print_table(kept)
    if written > len(kept):
        Console(stderr=True).print(f"… {written - len(kept):,} more: use --json.")
    return written


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields of all rows; those of a value that is an object beside the others."""
    return list(dict.fromkeys(name for row in rows for name in spread(row)))


def spread(row: Mapping[str, Any]) -> dict[str, Any]:
    """A value that is an object, as columns of its own."""
    value = row.get("value")
    if not isinstance(value, dict):
        return dict(row)
    others = {name: cell for name, cell in row.items() if name != "value"}
    return {**others, **{f".{name}": cell for name, cell in value.items()}}


def print_table(
    rows: Sequence[Mapping[str, Any]],
    title: str | None = None,
    bars: Sequence[RenderableType] = (),
) -> None:
    """`bars`: one a row, at its end. Nothing without rows."""
    if not rows:
        return
    table = Table(title=title, title_justify="left")
    columns = columns_of(rows)
    for name in columns:
        numbers = all(isinstance(spread(row).get(name), (int, float)) for row in rows)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold")
    if bars:
        table.add_column("")
    for number, row in enumerate(rows):
        cells = spread(row)
        # not as markup: a key such as [b] is data
        texts = (Text(shown(cells[name]) if name in cells else "") for name in columns)
        table.add_row(*texts, *bars[number : number + 1])
    Console().print(table)


def sparkline(numbers: Sequence[float], width: int | None = None) -> str:
    """A character a number, from the least to the greatest; of more than `width` a character for
    the mean of several."""
    finite = [number for number in numbers if math.isfinite(number)]
    if not finite:
        return ""
    if width is not None and len(finite) > width:
        cuts = [len(finite) * n // width for n in range(width + 1)]
        finite = [fmean(finite[a:b]) for a, b in pairwise(cuts)]
    least, most = min(finite), max(finite)
    if least == most:
        return _SPARKS[3] * len(finite)
    scale = (len(_SPARKS) - 1) / (most - least)
    return "".join(_SPARKS[round((number - least) * scale)] for number in finite)
