"""`queryable diff`: in what a view of one deployment differs from that of another."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any

import typer

from queryable.console.config import AsJson, Common, Timeout
from queryable.console.differences import (
    DIFFERENT,
    ONLY_FIRST,
    ONLY_SECOND,
    Difference,
    Pair,
    Row,
    Uncommon,
    difference,
    identity_of,
    pairs,
)
from queryable.console.exits import NOT_THERE, ends_well
from queryable.console.output import is_for_people, print_table, write_line
from queryable.console.progress import told
from queryable.console.sides import Side
from queryable.core.errors import BadUse

_MOST_ASKED_AGAIN = 1000
"""Differences that are looked at a second time: records may come in while views are read."""


@ends_well
def diff(
    first_url: Annotated[str, typer.Argument(metavar="URL1")],
    second_url: Annotated[str, typer.Argument(metavar="URL2")],
    view: str,
    sample: Annotated[
        int, typer.Option(min=1, help="So many entries of each side, asked of both.")
    ] = 1000,
    everything: Annotated[
        bool, typer.Option("--all", help="All entries of both, in the order of their keys.")
    ] = False,
    show: Annotated[int, typer.Option(min=0, help="How many differences to show.")] = 20,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Compare a view of two deployments, such as the old one and the one to take its place.

    Of views with windows or sessions these are compared. What differs is asked of both once more:
    it may have changed in between. Ends with 0 if all is equal, 1 if not, 3 if a side is not
    available.

    \b
    Examples:
      queryable diff http://old:8080 http://new:8080 orders
      queryable diff http://old:8080 http://new:8080 orders --sample 20000
      queryable diff http://old:8080 http://new:8080 visits --all --show 100
    """
    common = Common(None, timeout)
    with common.client(first_url) as one, common.client(second_url) as other:
        sides = Side(first_url, one, view), Side(second_url, other, view)
        _check_alike(*sides)
        comparison = Comparison(sides, show)
        with told(False, lambda: None) as rows:
            read = itertools.count(1)

            def count() -> None:
                rows(next(read))

            if everything:
                comparison.all(count)
            else:
                comparison.sampled(sample, count)
    comparison.tell(as_json)
    if comparison.differ:
        raise SystemExit(NOT_THERE)


def _check_alike(one: Side, other: Side) -> None:
    """BadUse."""
    for name in ("key", "value", "store"):
        first, second = (side.about.description.get(name) for side in (one, other))
        if first != second:
            raise BadUse(
                f"View {one.about.name} cannot be compared: its {name} is {first} at {one.url} "
                f"and {second} at {other.url}."
            )


@dataclass
class Comparison:
    """What was compared, and what came of it; of the differences the first `most` are kept."""

    sides: tuple[Side, Side]
    most: int
    compared: int = 0
    kinds: dict[str, int] = field(
        default_factory=lambda: {ONLY_FIRST: 0, ONLY_SECOND: 0, DIFFERENT: 0}
    )
    kept: list[Difference] = field(default_factory=list)

    @property
    def differ(self) -> int:
        return sum(self.kinds.values())

    def all(self, count: Any) -> None:
        """BadUse where the two have next to nothing in common."""
        one, other = self.sides
        about = one.about
        found = self._differing(pairs(about, _counted(one, count), _counted(other, count)))
        try:
            # of a document every byte would have to be known
            self._take(found, 0 if about.key.name == "json" else _MOST_ASKED_AGAIN)
        except Uncommon:
            raise BadUse(
                f"View {about.name}: next to no key is in both; compare with --sample."
            ) from None

    def sampled(self, size: int, count: Any) -> None:
        dice = Random()
        rows: dict[Any, Row] = {}
        for side in self.sides:
            rows |= {identity_of(row): row for row in side.sample(size, dice, count)}
        self._take(self._differing(self._now(list(rows.values()))), _MOST_ASKED_AGAIN)

    def _differing(self, compared: Iterable[Pair]) -> Iterator[Difference]:
        for pair in compared:
            # a key that neither has by now was deleted, or is a document of other bytes than its
            # text
            self.compared += pair != (None, None)
            if (found := difference(pair)) is not None:
                yield found

    def _take(self, found: Iterator[Difference], again: int) -> None:
        """The first `again` of them as they are by now."""
        first = [each.row for each in itertools.islice(found, again)]
        still = (difference(pair) for pair in self._now(first))
        for each in itertools.chain(still, found):
            if each is not None:
                self.kinds[each.kind] += 1
                self.kept += [each] if len(self.kept) < self.most else []

    def _now(self, rows: list[Row]) -> Iterator[Pair]:
        one, other = self.sides
        return zip(one.now(rows), other.now(rows), strict=True)

    def tell(self, as_json: bool) -> None:
        """The differences, then one line with the counts and how fresh both sides were."""
        rows = [found.as_row() for found in self.kept]
        one, other = (side.freshness() for side in self.sides)
        if not is_for_people(as_json):
            for row in rows:
                write_line(row)
            write_line({"compared": self.compared, **self.kinds, "first": one, "second": other})
            return
        if rows:
            print_table(rows)
        if self.differ > len(rows):
            print(f"… {self.differ - len(rows):,} more differences: --show {self.differ}")
        counts = ", ".join(f"{number:,} {kind}" for kind, number in self.kinds.items())
        print(f"{self.compared:,} compared: {counts}")
        for name, side in (("first", one), ("second", other)):
            print(f"{name}: {side['url']}, {_known(side['lag'])} records and "
                  f"{_known(side['staleness_ms'])} ms behind")  # fmt: skip


def _known(number: int | None) -> str:
    return "an unknown number of" if number is None else f"{number:,}"


def _counted(side: Side, count: Any) -> Iterator[Row]:
    for row in side.rows():
        count()
        yield row
