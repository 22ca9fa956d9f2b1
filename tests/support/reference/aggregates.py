"""Numbers of a view by group, by exact fractions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any

from tests.support.reference.tables import FOREVER, Item, Listing, Table


def aggregate(
    table: Table, by: str | None, value: str | None, first: float, last: float
) -> list[Item]:
    """`GET …/aggregate?by=&value=&from=&to=`, in the documented order of groups."""
    listed = entries(table, first, last)
    with_numbers = value is not None or table.view.value in ("int32", "int64", "float64")
    groups: dict[str, list[Any]] = {}
    for _, item in listed:
        if "value" not in item:
            continue
        group = as_name(field_of(item["value"], by) if by else None)
        number = field_of(item["value"], value) if value else item["value"]
        if table.view.value == "float64" and isinstance(number, str):
            number = None if number == "NaN" else float(number)
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        groups.setdefault(group, []).append(number if is_number else None)
    found = []
    for group, all_of_them in sorted(groups.items(), key=_place):
        numbers = [number for number in all_of_them if number is not None]
        row = {"group": json.loads(group), "entries": len(all_of_them)}
        if with_numbers:
            row |= {"count": len(numbers), **sums_of(numbers)}
        found.append(row)
    return found


def first_groups(
    groups: list[Item], order_by: str, descending: bool, limit: int | None
) -> list[Item]:
    """The groups with `order_by=&order=&limit=`: without a number last; equal ones in order."""
    number = {id(group): as_number(group[order_by]) for group in groups}
    ranked = [group for group in groups if number[id(group)] is not None]
    ranked.sort(key=lambda group: -number[id(group)] if descending else number[id(group)])
    return [*ranked, *(group for group in groups if number[id(group)] is None)][:limit]


def top_keys(
    table: Table,
    by: str | None,
    order_by: str,
    descending: bool,
    limit: int,
    first: float,
    last: float,
) -> list[Item]:
    """`GET …/top?by=&order_by=&order=&limit=&from=&to=` of windows or sessions: the number of all
    entries of each key. Keys without a number are skipped; equal ones are in order."""
    listed = [(place[0], item) for place, item in entries(table, first, last) if "value" in item]
    ranked = []
    for place, in_key in groupby(listed, key=itemgetter(0)):
        items = [item for _, item in in_key]
        fields = [field_of(item["value"], by) if by else item["value"] for item in items]
        numbers = [n for n in fields if isinstance(n, int | float) and not isinstance(n, bool)]
        found = {**sums_of(numbers), "count": len(numbers) or None, "entries": len(items)}[order_by]
        if as_number(found) is not None:
            ranked.append((place, {"key": items[0]["key"], "value": found}))
    sign = -1 if descending else 1
    ranked.sort(key=lambda each: (sign * as_number(each[1]["value"]), each[0]))
    return [item for _, item in ranked[:limit]]


def as_number(number: Any) -> Any:
    """A number of an answer; None for NaN."""
    if isinstance(number, str):
        return None if number == "NaN" else float(number)
    return number


def entries(table: Table, first: float = -FOREVER, last: float = FOREVER) -> Listing:
    """All entries of the view: the keys, windows or sessions."""
    listing = {"window": table.windows, "session": table.sessions}.get(table.view.store)
    return table.keys() if listing is None else listing(first, last)


def has_only_texts(items: Iterable[Any], path: str | None) -> bool:
    """Whether the field is a text in some items, and a number in none: 400."""
    if path is None:
        return False
    types = {type(field_of(item["value"], path)) for item in items if "value" in item}
    return str in types and not types & {int, float}


def field_of(document: Any, path: str) -> Any:
    """The field at a path of names; None if it is missing."""
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document


def sums_of(numbers: list[Any]) -> dict[str, Any]:
    """Sum, minimum, maximum and average; as text if infinite. Exact by `fractions`."""
    if not numbers:
        return dict.fromkeys(("sum", "min", "max", "avg"))
    infinite = [number for number in numbers if math.isinf(number)]
    if infinite:
        total = average = sum(infinite)
    else:
        exact = sum(map(Fraction, numbers), Fraction())
        is_whole = all(isinstance(number, int) for number in numbers)
        total, average = int(exact) if is_whole else float(exact), float(exact / len(numbers))
    results = {"sum": total, "min": min(numbers), "max": max(numbers), "avg": average}
    return {name: number_json(number) for name, number in results.items()}


def number_json(number: Any) -> Any:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def as_name(group: Any) -> str:
    """The JSON of a group without spaces."""
    return json.dumps(group, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _place(item: tuple[str, Any]) -> tuple[int, Any]:
    """null, false, true, numbers, texts, other JSON."""
    group = json.loads(item[0])
    if group is None:
        return 0, 0
    for rank, kind in enumerate((bool, int | float, str), 1):
        if isinstance(group, kind):
            return rank, group
    return 4, item[0]
