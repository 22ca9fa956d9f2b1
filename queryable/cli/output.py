"""Output of commands: tables or records on a terminal, one JSON document per line otherwise."""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from itertools import chain, islice, pairwise
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.bar import Bar
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from queryable.cli.declaration.groups import OptionGroup
from queryable.cli.table_layout import column_widths, record_lines
from queryable.cli.values import (
    as_item,
    cell_text,
    json_text,
    json_value,
    printable,
    with_iso_times,
)
from queryable.client.protocol.errors import BadUse

_SPARK_CHARACTERS = "▁▂▃▄▅▆▇█"
# the rows of a table are kept in memory, because the columns come from all of them
_MAX_TABLE_ROWS = 10_000
_OTHER_COLUMNS = "other"
_BAR_COLUMN = 13  # the least that a bar needs
_BAR_WIDTH = 30

Row = Mapping[str, Any]


class Output(Enum):
    """How rows are printed."""

    TABLE = "table"
    VERTICAL = "vertical"
    JSON = "json"
    CSV = "csv"

    @property
    def is_for_people(self) -> bool:
        return self in (Output.TABLE, Output.VERTICAL)


OUTPUTS = {output.value: output for output in Output}
_chosen: ContextVar[Output | None] = ContextVar("output", default=None)


def set_default_output(output: Output) -> None:
    """Set how rows are printed from now on if no option is given. The shell uses this."""
    _chosen.set(output)


@dataclass(frozen=True, slots=True)
class DocumentOutput(OptionGroup):
    """The options of commands that print one document, or text for people."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines, also on a terminal.")
    ] = False

    @property
    def is_for_people(self) -> bool:
        """Whether to print text: on a terminal, without `--json`."""
        return not self.as_json and sys.stdout.isatty()

    def show(self, document: Mapping[str, Any], text: str) -> None:
        """Prints the text for people, else the document as a line of NDJSON."""
        if self.is_for_people:
            print(text, flush=True)
        else:
            write_line(document)


@dataclass(frozen=True, slots=True)
class RowOutput(DocumentOutput):
    """The options of commands that print rows."""

    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with times in ISO 8601.")] = (
        False
    )
    vertical: Annotated[
        bool, typer.Option("--vertical", help="Print one line per field, not a table.")
    ] = False

    def chosen(self) -> Output:
        """The chosen output: without an option, a table on a terminal, else JSON lines. Raises
        BadUse."""
        if self.as_json + self.as_csv + self.vertical > 1:
            raise BadUse("Give only one of --json, --csv and --vertical.")
        if self.as_csv:
            return Output.CSV
        if self.vertical:
            return Output.VERTICAL
        if self.as_json:
            return Output.JSON
        return _chosen.get() or (Output.TABLE if sys.stdout.isatty() else Output.JSON)


def open_closed_streams() -> None:
    """Opens /dev/null instead of stdin, stdout and stderr that are closed (`>&-`)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def escape_other_characters() -> None:
    """Print characters that the encoding of stdout or stderr does not have as JSON's escapes, also
    half of a surrogate pair. So JSON stays JSON, and no text makes a command fail."""
    codecs.register_error("json-escapes", _json_escapes)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="json-escapes")


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def write_line(document: Mapping[str, Any]) -> None:
    """Prints a document as a line of NDJSON."""
    cells = {name: json_value(value) for name, value in document.items()}
    sys.stdout.write(json_text(cells) + "\n")


def write_rows(
    rows: Iterable[Row],
    output: Output,
    *,
    on_row: Callable[[int], None] = lambda _: None,
    bars: Callable[[Sequence[Row]], Sequence[RenderableType]] | None = None,
) -> int:
    """Prints the rows; returns their number. Times are in ISO 8601, but in JSON in epoch ms.

    `on_row` is called after each row with the number of rows so far. `bars`: makes the last column
    of a table from its rows.
    """
    counted = _Counted(rows, on_row)
    _write(counted, output, bars or (lambda _: ()))
    if counted.unreadable:
        note_unreadable(counted.unreadable)
    return counted.number


def note_unreadable(count: int) -> None:
    """Says on stderr how many values cannot be read."""
    subject = "1 value is" if count == 1 else f"{count:,} values are"
    print(f"{subject} not in the view's format, and cannot be read", file=sys.stderr)


def _write(
    counted: _Counted, output: Output, bars: Callable[[Sequence[Row]], Sequence[RenderableType]]
) -> None:
    if output is Output.JSON:
        for row in counted:
            write_line(row)
        sys.stdout.flush()
        return
    shown = map(with_iso_times, counted)
    if output is Output.CSV:
        _write_csv(shown)
        return
    if output is Output.VERTICAL:
        _write_records(shown)
        return
    kept = list(islice(shown, _MAX_TABLE_ROWS))
    for _ in shown:
        pass  # they are counted
    print_table(kept, bars=bars(kept))
    if counted.number > len(kept):
        Console(stderr=True).print(f"… {counted.number - len(kept):,} more rows: use --json.")


class _Counted:
    """Rows; `number` is how many of them were read, and `unreadable` how many have a value that
    cannot be read."""

    def __init__(self, rows: Iterable[Row], on_row: Callable[[int], None]) -> None:
        self._rows = rows
        self._on_row = on_row
        self.number = self.unreadable = 0

    def __iter__(self) -> Iterator[Row]:
        for row in map(as_item, self._rows):
            yield row
            self.number += 1
            self.unreadable += "unreadable" in row
            self._on_row(self.number)


def _write_csv(rows: Iterator[Row]) -> None:
    """RFC 4180, with a line of names. The columns are those of the first 10,000 rows; fields that
    only later rows have are JSON in the column `other`."""
    first_rows = list(islice(rows, _MAX_TABLE_ROWS))
    columns = columns_of(first_rows)
    later_row = next(rows, None)
    names = columns if later_row is None else [*columns, _OTHER_COLUMNS]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    # a program gets the texts as they are
    text_of = _csv_text_of_terminal if sys.stdout.isatty() else _csv_text
    if first_rows:
        writer.writerow(text_of(name.removeprefix(".") if _is_unique(name, columns) else name)
                        for name in names)  # fmt: skip
    for row in chain(first_rows, [] if later_row is None else [later_row], rows):
        cells = flatten(row)
        line = [text_of(cells.pop(name, None)) for name in columns]
        if later_row is not None:
            line.append(text_of(cells or None))
        writer.writerow(line)
    sys.stdout.flush()


def _is_unique(name: str, columns: Sequence[str]) -> bool:
    return name.removeprefix(".") not in columns


def _csv_text(value: Any) -> str:
    value = json_value(value)
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _csv_text_of_terminal(value: Any) -> str:
    return printable(_csv_text(value), kept="\n\t")


def _write_records(rows: Iterable[Row]) -> None:
    width = Console().width
    for number, row in enumerate(rows, 1):
        cells = [(cell_text(name), cell_text(cell)) for name, cell in flatten(row).items()]
        sys.stdout.write("\n".join(record_lines(number, cells, width)) + "\n")
    sys.stdout.flush()


def columns_of(rows: Sequence[Row]) -> list[str]:
    """The columns of a table with these rows."""
    return list(dict.fromkeys(name for row in rows for name in flatten(row)))


def flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with one column per field of its value, if that is an object."""
    value = row.get("value")
    if not isinstance(value, dict):
        return dict(row)
    cells = {name: field for name, field in row.items() if name != "value"}
    return {**cells, **{f".{name}": field for name, field in value.items()}}


def print_table(
    rows: Sequence[Row],
    title: str | None = None,
    bars: Sequence[RenderableType] = (),
) -> None:
    """Prints nothing without rows. If a table would break words, the rows are printed as records.

    `bars`: one per row, in the last column.
    """
    if not rows:
        return
    console = Console()
    columns = columns_of(rows)
    flat = [flatten(row) for row in rows]
    texts = [
        [cell_text(cells[name]) if name in cells else "" for name in columns] for cells in flat
    ]
    width_of_bars = _BAR_COLUMN if bars else 0
    widths = column_widths(columns, texts, console.width - width_of_bars)
    if widths is None:
        if title:
            print(title)
        _write_records(rows)
        return
    table = Table(title=title, title_justify="left")
    for name, width in zip(columns, widths, strict=True):
        numbers = all(isinstance(cells.get(name), (int, float)) for cells in flat)
        table.add_column(name, justify="right" if numbers else "left", width=width)
    if bars:
        table.add_column("")
    for number, line in enumerate(texts):
        # Text, not str, because rich would interpret a key such as [b] as markup
        table.add_row(*map(Text, line), *bars[number : number + 1])
    console.print(table)


def bars(numbers: Sequence[float]) -> list[RenderableType]:
    """One bar per number, from 0; none for a number that is not finite."""
    finite = [number for number in numbers if math.isfinite(number)]
    lowest, highest = min(0.0, *finite, 0.0), max(0.0, *finite, 0.0)
    return [
        Bar(
            highest - lowest, min(number, 0.0) - lowest, max(number, 0.0) - lowest, width=_BAR_WIDTH
        )
        if math.isfinite(number) and highest > lowest
        else ""
        for number in numbers
    ]


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
    lowest, highest = min(finite), max(finite)
    if lowest == highest:
        return _SPARK_CHARACTERS[3] * len(finite)
    scale = (len(_SPARK_CHARACTERS) - 1) / (highest - lowest)
    return "".join(_SPARK_CHARACTERS[round((number - lowest) * scale)] for number in finite)
