"""How a query of a whole view finds its entries.

Every entry is compared with the whole condition, so a plan never changes an answer, only its cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from backend.queries.filters.names import KEY
from model.expressions.tree import Call, Expression, Field, Literal
from model.formats.integer import IntegerCodec
from model.kinds import layout
from model.kinds.layout import Range
from model.views import View

KEY_PLAN, RANGE, SCAN = "key", "range", "scan"
"""The plans: to read the entries of some keys, those within a range of keys, or all entries."""

_LEAST = frozenset({"=", ">", ">="})
_MOST = frozenset({"=", "<", "<="})
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def plan_of(low: bytes, high: bytes) -> str:
    """The plan for entries with low <= stored key < high."""
    return SCAN if (low, high) == layout.ALL else RANGE


def key_range(view: View, condition: Expression) -> Range:
    """Bounds of the stored keys that can meet a condition."""
    low, high = layout.ALL
    if view.is_custom or not _are_in_order(view):
        return low, high
    for part in conjuncts(condition):
        least, end = _bounds(view, part)
        low, high = max(low, least), min(high, end)
    return low, high


def keys_of(view: View, condition: Expression) -> list[bytes] | None:
    """The keys that entries must have one of, in the order of stored keys; None if the condition
    does not name them."""
    if view.is_custom or not _are_in_order(view):
        return None
    for part in conjuncts(condition):
        if (values := _key_values(part)) is not None:
            # a value that is no key is not met; but 5.0 is equal to the key 5
            keys = {key for value in values if (key := _key(view, value)) is not None}
            return sorted(keys, key=lambda key: view.layout.key_range(key, key))
    return None


def _key_values(part: Expression) -> list[object] | None:
    """The values that a part of a condition compares the key with by `=` or `in`."""
    if not isinstance(part, Call) or part.function not in ("=", "in"):
        return None
    operands = list(part.arguments)
    if part.function == "=" and isinstance(operands[0], Literal):
        operands.reverse()
    values: list[object] = [
        operand.value
        for operand in operands[1:]
        if isinstance(operand, Literal) and type(operand.value) in (str, int)
    ]
    return values if _is_key(operands[0]) and len(values) == len(operands) - 1 else None


def _are_in_order(view: View) -> bool:
    """Whether stored keys have the order in which conditions compare them."""
    return view.key_codec.is_text or isinstance(view.key_codec, IntegerCodec)


def conjuncts(expression: Expression) -> Iterator[Expression]:
    """The parts of a condition that all must be true."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Call) and part.function == "and":
            waiting += part.arguments
        else:
            yield part


def _bounds(view: View, part: Expression) -> Range:
    if not isinstance(part, Call):
        return layout.ALL
    if part.function in MIRRORED:
        left, right = part.arguments
        operator = part.function
        if _is_key(right):
            left, right, operator = right, left, MIRRORED[operator]
        if not _is_key(left) or not isinstance(right, Literal):
            return layout.ALL
        least = right.value if operator in _LEAST else None
        most = right.value if operator in _MOST else None
        return _between(view, least, most)
    operand, *others = part.arguments
    if not _is_key(operand) or not all(isinstance(other, Literal) for other in others):
        return layout.ALL
    values = [other.value for other in others if isinstance(other, Literal)]
    if part.function == "between":
        return _between(view, *values)
    if part.function == "in" and len({type(value) for value in values}) == 1:
        return _between(view, min(values), max(values))
    if part.function == "like" and view.key_codec.has_prefixes:
        prefix = str(values[0]).partition("%")[0].partition("_")[0]
        return view.layout.prefix_range(prefix.encode()) if prefix else layout.ALL
    return layout.ALL


def _is_key(expression: Expression) -> bool:
    return isinstance(expression, Field) and expression.name == KEY


def _between(view: View, least: object, most: object) -> Range:
    """The range of stored keys between two values. A value that is None, or not a key, is no
    bound."""
    first, last = (_key(view, value) for value in (least, most))
    return view.layout.key_range(first, last)


def _key(view: View, value: object) -> bytes | None:
    if type(value) not in (str, int):
        return None
    try:
        return view.key_codec.from_text(str(value).encode())
    except ValueError:
        return None
