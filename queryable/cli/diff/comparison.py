"""Compares a view of two deployments, or two versions of a view, and prints the result."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from queryable.cli.diff.matching import (
    DIFFERENT,
    ONLY_FIRST,
    ONLY_SECOND,
    Difference,
    Pair,
    Row,
    TooFewMatches,
    difference,
    identity_of,
    match_rows,
)
from queryable.cli.diff.sources import DiffSource
from queryable.cli.exit_codes import NOT_FOUND
from queryable.cli.output import DocumentOutput, print_table, write_line
from queryable.cli.progress import row_progress
from queryable.cli.values import number_text
from queryable.client.protocol.errors import BadUse

_MAX_REREAD = 1000
"""Differences that are read again, because records may arrive during the comparison."""


def check_comparable(first: DiffSource, second: DiffSource) -> None:
    """Raises BadUse if the views have different formats or stores."""
    for name in ("key", "value", "store"):
        first_value, second_value = (
            source.view.description.get(name) for source in (first, second)
        )
        if first_value != second_value:
            raise BadUse(
                f"View {first.view.name} cannot be compared: its {name} is {first_value} at "
                f"{first.label} and {second_value} at {second.label}."
            )


@dataclass
class Comparison:
    """The result of a comparison. Of the differences, the first `max_kept` are kept."""

    sources: tuple[DiffSource, DiffSource]
    max_kept: int
    compared: int = 0
    counts: dict[str, int] = field(
        default_factory=lambda: {ONLY_FIRST: 0, ONLY_SECOND: 0, DIFFERENT: 0}
    )
    kept: list[Difference] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of differences."""
        return sum(self.counts.values())

    def compare(self, sample: int | None) -> None:
        """Compares a sample of this size of each source, or all rows (None), with a progress bar.
        Raises BadUse as `compare_all`."""
        with row_progress(False, lambda: None) as on_row:
            rows_read = itertools.count(1)

            def count_row() -> None:
                on_row(next(rows_read))

            if sample is None:
                self.compare_all(count_row)
            else:
                self.compare_sample(sample, count_row)

    def compare_all(self, on_row: Callable[[], None]) -> None:
        """Compares all rows. Raises BadUse if almost no key is in both."""
        first, second = self.sources
        view = first.view
        pairs = match_rows(view, _counted(first, on_row), _counted(second, on_row))
        try:
            # such a key cannot be read again: its bytes are not known, only its document
            max_reread = _MAX_REREAD if view.key.python.identifies_key else 0
            self._add(self._differences(pairs), max_reread)
        except TooFewMatches:
            raise BadUse(
                f"View {view.name}: almost no key is in both. Compare with --sample."
            ) from None

    def compare_sample(self, size: int, on_row: Callable[[], None]) -> None:
        """Samples `size` rows of each source and reads all of them from both."""
        random = Random()
        rows: dict[Any, Row] = {}
        for source in self.sources:
            rows |= {identity_of(row): row for row in source.sample(size, random, on_row)}
        self._add(self._differences(self._read_again(list(rows.values()))), _MAX_REREAD)

    def _differences(self, pairs: Iterable[Pair]) -> Iterator[Difference]:
        for pair in pairs:
            # a key that is missing from both was deleted in between, or is a JSON document that is
            # written differently
            self.compared += pair != (None, None)
            if (result := difference(pair)) is not None:
                yield result

    def _add(self, differences: Iterator[Difference], max_reread: int) -> None:
        """Counts the differences, after reading the first `max_reread` again."""
        rows = [item.row for item in itertools.islice(differences, max_reread)]
        reread = (difference(pair) for pair in self._read_again(rows))
        for item in itertools.chain(reread, differences):
            if item is not None:
                self.counts[item.kind] += 1
                self.kept += [item] if len(self.kept) < self.max_kept else []

    def _read_again(self, rows: list[Row]) -> Iterator[Pair]:
        first, second = self.sources
        return zip(first.read_again(rows), second.read_again(rows), strict=True)

    def print_result(self, output: DocumentOutput) -> None:
        """Prints the differences, then the counts and the freshness of both sources."""
        rows = [item.as_row() for item in self.kept]
        first, second = (source.freshness() for source in self.sources)
        if not output.is_for_people:
            for row in rows:
                write_line(row)
            write_line({"compared": self.compared, **self.counts, "first": first, "second": second})
            return
        if rows:
            print_table(rows)
        if self.total > len(rows):
            print(f"… {self.total - len(rows):,} more differences: use --show {self.total}")
        counts = ", ".join(f"{number:,} {kind}" for kind, number in self.counts.items())
        print(f"{self.compared:,} compared: {counts}")
        labels = (source.label for source in self.sources)
        for name, label, source in zip(("first", "second"), labels, (first, second), strict=True):
            lag, staleness = number_text(source["lag"]), number_text(source["staleness_ms"])
            print(f"{name}: {label}, lag {lag}, staleness {staleness} ms")


def print_differences(
    sources: tuple[DiffSource, DiffSource], sample: int | None, show: int, output: DocumentOutput
) -> None:
    """Compares two sources and prints the result. Exits with NOT_FOUND if there are differences.
    `sample`: see `Comparison.compare`. `show`: how many differences are printed. Raises BadUse."""
    check_comparable(*sources)
    comparison = Comparison(sources, show)
    comparison.compare(sample)
    comparison.print_result(output)
    if comparison.total:
        raise SystemExit(NOT_FOUND)


def _counted(source: DiffSource, on_row: Callable[[], None]) -> Iterator[Row]:
    for row in source.rows():
        on_row()
        yield row
