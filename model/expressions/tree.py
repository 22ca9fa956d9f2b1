"""The typed tree of an expression, which each evaluator reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from model.expressions.types import Type


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the record, or of a joined table (``plane.model``), or the name of ``each``."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is written in the expression. A time is in µs since 1970."""

    value: str | int | bool | Decimal
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator, such as ``lower`` or ``+``."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type


Expression = Field | Literal | Call


def nodes(expression: Expression) -> Iterator[Expression]:
    """The expression and all its parts."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Call):
            waiting += node.arguments


def fields_of(expression: Expression) -> set[str]:
    """The names of the fields that the expression uses."""
    return {node.name for node in nodes(expression) if isinstance(node, Field)}


def known_not_null(condition: Expression) -> set[str]:
    """The fields that are not null if the condition is true: those with ``is not null``."""
    if isinstance(condition, Call) and condition.function == "and":
        return set().union(*map(known_not_null, condition.arguments))
    if isinstance(condition, Call) and condition.function == "is not null":
        [operand] = condition.arguments
        return {operand.name} if isinstance(operand, Field) else set()
    return set()
