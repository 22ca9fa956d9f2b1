"""A condition on the entries of a view: the parameter `where`.

It is compiled to one function of the parts of an entry that it uses; see
`model.expressions.evaluator`. An entry meets the condition if it is true; null is not true, as in
SQL. If the value of an entry cannot be read, each part of the condition that uses the value may be
true or false, including `n is not null`. Such an entry may meet the condition, unless the condition
is false because of the key or the times.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, cast

from backend.queries.filters.columns import Columns
from backend.queries.filters.names import END, KEY, ROW, START, TIME_OF_RECORD, Names
from backend.queries.filters.plan import keys_of
from model.expressions.evaluator import Evaluate, Place, compile_expression
from model.expressions.parser import parse
from model.expressions.tree import Call, Expression, Field, Literal, fields_of, nodes
from model.expressions.types import BOOLEAN, Kind
from model.expressions.undeclared import read_as
from model.records import is_unreadable
from model.rows.row_view import Pair
from model.rows.unreadable import settle_now
from model.views import View

_TOO_SLOW = frozenset({"regexp_like", "regexp_extract", "regexp_extract_all"})
"""They may take minutes for a long value, and other requests would wait."""
_MAX_SEARCHED = 50
"""The maximum number of characters between two `%` of `like` if `_` is among them. Such a text is
compared at each character of a value: 1 MB takes 0.1 s."""
_UNKNOWN = Field("unknown", BOOLEAN.or_null())
_ORDER = (ROW, KEY, START, END, TIME_OF_RECORD)


class Condition:
    """`tree`: the typed expression. `needs_values`: whether it uses the values of entries."""

    def __init__(self, view: View, text: str) -> None:
        """Raises ValueError, which says what is wrong with the text, and where."""
        names = Names(view)
        tree = read_as(parse(text, names), BOOLEAN)
        if tree.type.kind is not Kind.BOOLEAN:
            raise ValueError(f'it is a {tree.type.kind}, not a condition such as "delay > 60"')
        for part in nodes(tree):
            _check_speed(part)
        self.text = text
        self.tree: Expression = tree
        self._view = view
        used = {place.variable for place in names.places.values()}
        self._variables = [name for name in _ORDER if name in used]
        self.needs_values = ROW in used
        self._evaluate = compile_expression(tree, names.places, self._variables)
        self._places = names.places
        self._columns = Columns(view)

    def kept(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The entries that meet the condition, and those that may meet it, because their values
        cannot be read. `pairs`: no tombstones."""
        if not self.needs_values or all(stored[8] < 0x80 for _, stored in pairs):
            results = self._results(pairs)
            return [pair for pair, result in zip(pairs, results, strict=True) if result is True]
        settled = [
            (key, settle_now(self._view, stored) if is_unreadable(stored) else stored)
            for key, stored in pairs
        ]
        readable = [(key, stored) for key, stored in settled if isinstance(stored, bytes)]
        decided = iter(self._results(readable))
        kept: list[Pair] = []
        for pair, (key, stored) in zip(pairs, settled, strict=True):
            if not isinstance(stored, bytes):
                if self._results([pair], is_readable=False) != [False]:
                    kept.append(pair)
            elif next(decided) is True:
                kept.append((key, stored))
        return kept

    @cached_property
    def keys(self) -> list[bytes] | None:
        """See `keys_of`."""
        return keys_of(self._view, self.tree)

    @cached_property
    def _evaluate_unreadable(self) -> Evaluate:
        places = {**self._places, _UNKNOWN.name: Place(ROW, ())}
        return compile_expression(_without_values(self.tree, places), places, self._variables)

    def _results(self, pairs: Sequence[Pair], is_readable: bool = True) -> list[Any]:
        """The value of the condition for each entry. If not `is_readable`, None means that
        it is true or false, depending on the value."""
        evaluate = self._evaluate if is_readable else self._evaluate_unreadable
        columns = [
            self._column(name, pairs) if is_readable or name != ROW else [None] * len(pairs)
            for name in self._variables
        ]
        if len(columns) == 1:
            return list(map(evaluate, columns[0]))
        if not columns:
            return [evaluate()] * len(pairs)
        return [evaluate(*values) for values in zip(*columns, strict=True)]

    def _column(self, variable: str, pairs: Sequence[Pair]) -> list[Any]:
        """The values of a variable for all entries; times are in µs."""
        values = self._columns.read(variable, pairs)
        if variable in (ROW, KEY):
            return values
        return [None if time is None else 1000 * time for time in values]


def _check_speed(part: Expression) -> None:
    """Raises ValueError if a part of a condition may take too long for a long value."""
    if not isinstance(part, Call):
        return
    if part.function in _TOO_SLOW:
        raise ValueError("regular expressions are not for conditions: use like")
    if part.function == "like" and isinstance(pattern := part.arguments[1], Literal):
        middle = str(pattern.value).split("%")[1:-1]
        if any("_" in text and len(text) > _MAX_SEARCHED for text in middle):
            raise ValueError(
                f"a text with _ between two % of like has at most {_MAX_SEARCHED} characters in "
                "conditions"
            )


def _without_values(condition: Expression, places: Mapping[str, Place]) -> Expression:
    """The condition with `_UNKNOWN` for the parts that use the values of entries."""
    if isinstance(condition, Call) and condition.function in ("and", "or", "not"):
        arguments = tuple(_without_values(part, places) for part in condition.arguments)
        return Call(condition.function, arguments, condition.type)
    uses_value = any(places[name].variable == ROW for name in fields_of(condition))
    return _UNKNOWN if uses_value else condition


# a long condition takes up to 300 KB of memory
@lru_cache(maxsize=64)
def _compiled(view: View, _fields: str, _schemas: Hashable, text: str) -> Condition:
    return Condition(view, text)


def condition_of(view: View, text: str) -> Condition:
    """The compiled condition, which is kept for further requests. Raises ValueError."""
    return _compiled(view, view.fields_hash, cast(Hashable, view.schemas), text)
