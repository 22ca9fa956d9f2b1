"""Which index finds the entries that can meet a condition.

It is the one with the longest run of fields that the condition compares by `=`, `in` or `is null`,
or, if they are lists, by `contains`; and then one with a range. There are no statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from backend.queries.filters.condition import Condition
from backend.queries.filters.names import ROW, name_of
from backend.queries.filters.plan import MIRRORED, conjuncts
from model.expressions.tree import Call, Expression, Field, Literal
from model.expressions.types import BOOLEAN, LISTS, Kind, Type
from model.indexes.declaration import DeclaredIndex
from model.indexes.encoding import (
    MANY,
    NOT_NULL,
    NULL,
    UNREADABLE,
    VALUE,
    Bounds,
    at_least,
    at_most,
    equal,
    starts_with,
)
from model.kinds.layout import after
from model.views import View

_MAX_RANGES = 100
_TRUE, _FALSE = Literal(True, BOOLEAN), Literal(False, BOOLEAN)


@dataclass(frozen=True)
class IndexPlan:
    """The index, and the bytes of its fields that entries can have. `is_exact`: whether the
    condition compares all its fields by `=`, `in` or `contains`, and is nothing else. Then the keys
    of each range are in the order of the entries."""

    index: DeclaredIndex
    ranges: tuple[Bounds, ...]
    is_exact: bool

    @property
    def name(self) -> str:
        """The name of the plan, in the header Plan."""
        return f"index {self.index.name}"


@dataclass
class _Compared:
    """What a condition says of one field: bytes of values, or bounds of them. `has_element`: the
    values are one element, which a list contains."""

    equal: list[bytes] = field(default_factory=list)
    bounds: Bounds | None = None
    has_element: bool = False
    parts: int = 0  # of the condition

    @property
    def fields(self) -> list[bytes]:
        """The bytes of the field that entries can have."""
        return [*self.equal, MANY] if self.has_element else self.equal


def index_plan(view: View, condition: Condition) -> IndexPlan | None:
    """The plan with an index; None if no index of the view helps."""
    return _planned(view.indexes, condition) if view.indexes else None


@lru_cache(maxsize=64)
def _planned(indexes: tuple[DeclaredIndex, ...], condition: Condition) -> IndexPlan | None:
    compared = _compared_fields(indexes, condition)
    parts = len(list(conjuncts(condition.tree)))
    best: tuple[tuple[int, bool], DeclaredIndex] | None = None
    for index in indexes:
        score = _score(index, compared)
        if score > (0, False) and (best is None or score > best[0]):
            best = score, index
    if best is None:
        return None
    (equal_fields, _), index = best
    return _plan(index, compared, equal_fields, parts)


def _compared_fields(
    indexes: tuple[DeclaredIndex, ...], condition: Condition | None
) -> dict[str, _Compared]:
    """What the condition says of each field of the indexes."""
    compared: dict[str, _Compared] = {}
    if condition is not None:
        names = {name_of(ROW, f.path): f.type for index in indexes for f in index.fields}
        for part in conjuncts(condition.tree):
            _add(compared, names, part)
    return compared


def _score(index: DeclaredIndex, compared: Mapping[str, _Compared]) -> tuple[int, bool]:
    """The number of leading fields that are compared by `=`, and whether a range follows."""
    run, ranges = 0, 1
    for declared in index.fields:
        known = compared.get(name_of(ROW, declared.path))
        if known is None or not known.equal or ranges * len(known.fields) > _MAX_RANGES:
            return run, known is not None and known.bounds is not None
        ranges *= len(known.fields)
        run += 1
    return run, False


def _plan(
    index: DeclaredIndex, compared: Mapping[str, _Compared], equal_fields: int, parts: int
) -> IndexPlan:
    prefixes = [b""]
    used = 0
    for declared in index.fields[:equal_fields]:
        known = compared[name_of(ROW, declared.path)]
        used += known.parts
        prefixes = [prefix + value for prefix in prefixes for value in known.fields]
    ranges = [Bounds(prefix, after(prefix)) for prefix in prefixes if prefix]
    if equal_fields < len(index.fields):
        last = compared.get(name_of(ROW, index.fields[equal_fields].path))
        if last is not None and last.bounds is not None:
            low, high = last.bounds
            ranges = [Bounds(prefix + low, prefix + high) for prefix in prefixes]
    return IndexPlan(
        index,
        tuple(sorted(ranges)),
        is_exact=used == parts and equal_fields == len(index.fields),
    )


def _add(compared: dict[str, _Compared], names: Mapping[str, Type], part: Expression) -> None:
    if isinstance(part, Field):
        part = Call("=", (part, _TRUE), BOOLEAN)
    if not isinstance(part, Call):
        return
    operator, operands = part.function, list(part.arguments)
    if operator == "not":
        operator, operands = "=", [*operands, _FALSE]
    if operator in MIRRORED and len(operands) == 2 and isinstance(operands[0], Literal):
        operator, operands = MIRRORED[operator], operands[::-1]
    if not operands or not isinstance(operands[0], Field):
        return
    name = operands[0].name
    type_ = names.get(name)
    others = operands[1:]
    if type_ is None or not all(isinstance(other, Literal) for other in others):
        return
    literals = [other for other in others if isinstance(other, Literal)]
    known = compared.setdefault(name, _Compared())
    values = _values(type_, operator, literals)
    bounds = _bounds(type_, operator, literals)
    if values and (not known.equal or len(set(values)) < len(known.equal)):
        known.equal = sorted(set(values))
        known.has_element = operator == "contains"
        # the bytes of null are also those of an empty list
        known.parts = int(type_.kind not in LISTS or known.has_element)
    elif bounds is not None:
        known.bounds = bounds if known.bounds is None else _both(known.bounds, bounds)


def _values(type_: Type, operator: str, literals: list[Literal]) -> list[bytes]:
    """The bytes of the values that an entry must have one of; empty if they are not known."""
    if operator == "is null":
        return [NULL]
    if operator not in (("contains",) if type_.kind in LISTS else ("=", "in")):
        return []
    values = [equal(type_, literal.value) for literal in literals]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _bounds(type_: Type, operator: str, literals: list[Literal]) -> Bounds | None:
    if type_.kind in LISTS:
        return None
    if operator == "is not null":
        return NOT_NULL
    if type_.kind is Kind.BOOLEAN or not literals:
        return None
    first = literals[0].value
    if operator in (">", ">="):
        return _between(at_least(type_, first), UNREADABLE)
    if operator in ("<", "<="):
        return _between(VALUE, at_most(type_, first))
    if operator == "between":
        return _between(at_least(type_, first), at_most(type_, literals[1].value))
    if operator == "like" and type_.kind is Kind.STRING:
        prefix = str(first).partition("%")[0].partition("_")[0]
        return starts_with(prefix) if prefix else NOT_NULL
    if operator == "starts_with" and type_.kind is Kind.STRING and isinstance(first, str):
        return starts_with(first)
    return None


def _between(low: bytes | None, high: bytes | None) -> Bounds | None:
    return None if low is None or high is None else Bounds(low, high)


def _both(one: Bounds, other: Bounds) -> Bounds:
    return Bounds(max(one.low, other.low), min(one.high, other.high))


def order_index(
    view: View, condition: Condition | None, path: tuple[str, ...]
) -> DeclaredIndex | None:
    """The index in whose order rows are ordered by a field: it begins with fields that the
    condition compares with one value each, and then has the field. The one with the most of them;
    None if there is none. A list must be among the fields before: otherwise an entry with several
    elements would have several places."""
    compared = _compared_fields(view.indexes, condition)
    best: tuple[int, DeclaredIndex] | None = None
    for index in view.indexes:
        for number, declared in enumerate(index.fields):
            if declared.path == path:
                is_one_place = index.list_at is None or index.list_at < number
                if is_one_place and (best is None or number > best[0]):
                    best = number, index
                break
            if len(compared.get(name_of(ROW, declared.path), _Compared()).equal) != 1:
                break
    return None if best is None else best[1]


class Order(NamedTuple):
    """What an ordered query reads of an index. `bounds`: of the bytes of fields that entries can
    have, in one range. `before`, `element`: the bytes before that of a list, and of the element
    that the list contains; None if there is none."""

    bounds: Bounds
    before: bytes
    element: bytes | None


def order_in(index: DeclaredIndex, condition: Condition | None) -> Order:
    """What to read of an index for rows in its order."""
    compared = _compared_fields((index,), condition)
    prefix = before = b""
    element = bounds = None
    for declared in index.fields:
        known = compared.get(name_of(ROW, declared.path), _Compared())
        if len(known.equal) != 1:
            bounds = known.bounds
            break
        if known.has_element:
            before, [element] = prefix, known.equal
        prefix += known.equal[0]
    if bounds is not None:
        bounds = Bounds(prefix + bounds.low, prefix + bounds.high)
    elif prefix:
        bounds = Bounds(prefix, after(prefix))
    return Order(bounds or Bounds(NULL, UNREADABLE), before, element)


def index_of_field(view: View, path: tuple[str, ...]) -> DeclaredIndex | None:
    """The first index that begins with a field."""
    return next((index for index in view.indexes if index.fields[0].path == path), None)
