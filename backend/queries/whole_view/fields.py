"""Fields of values: what queries of a whole view rank, group and aggregate by."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

from backend.queries.filters.names import ROW, place_in
from model.expressions.values import number_of_digits
from model.limits import check_path
from model.problems import BadRequest
from model.views import View

Number = int | float | Decimal

_MAX_SHOWN = 40
_NO_TEXTS = ("NaN", "Infinity", "-Infinity")
_INFINITE = {"Infinity": float("inf"), "-Infinity": float("-inf")}


class ValueField:
    """A field of values that are documents; `a.b` is a nested field."""

    def __init__(self, view: View, path: str | tuple[str, ...], parameter: str) -> None:
        """`path`: the names with dots, or each name. Raises BadRequest if the values of the view
        have no fields, or the path is too long."""
        if not view.value_codec.is_document:
            raise BadRequest(
                "bad-parameter",
                f"{parameter} names a field, and {view.value} values have none.",
            )
        if isinstance(path, str):
            check_path(path, parameter)  # each name of the path costs a look-up per entry
            path = tuple(path.split("."))
        self._path = path

    def values(self, documents: list[object]) -> list[object]:
        """The field of each document; None if it is missing."""
        return members_at(self._path, documents)


class EntryField:
    """A part of an entry, by its name in conditions: the key, a time, or a field of the value.
    `variable`: the column that has it (`backend/queries/filters/columns.py`)."""

    def __init__(self, view: View, name: str, parameter: str) -> None:
        """Raises BadRequest if entries have no such part."""
        check_path(name, parameter)
        try:
            self.variable, self.path = place_in(view, name)
        except ValueError as e:
            raise BadRequest("bad-parameter", f"{parameter}: {e}.") from None
        if self.variable == ROW and self.path:
            ValueField(view, self.path, parameter)

    def values(self, column: list[object]) -> list[object]:
        """The part of each entry, from the column; None if it is missing."""
        return members_at(self.path, column)


def members_at(path: tuple[str, ...], documents: list[object]) -> list[object]:
    """The member at the end of the path in each document; None if it is missing."""
    values = documents
    for name in path:
        values = [v.get(name) if type(v) is dict else None for v in values]
    return values


class NumberField:
    """The numbers of values: the values themselves, or a field of documents. `text`: one of the
    field's texts that are not numbers, if a list of documents had nothing else."""

    def __init__(self, view: View, path: str | tuple[str, ...] | None, parameter: str) -> None:
        """Raises BadRequest if the view has no such numbers."""
        is_number = view.value_codec.is_number
        if is_number and path is not None:
            raise BadRequest(
                "bad-parameter",
                f"The values of {view.name} are {view.value}: omit {parameter}.",
            )
        if not is_number and path is None:
            if not view.value_codec.is_document:
                raise BadRequest(
                    "bad-parameter",
                    f"The values of {view.name} are {view.value}, which has no numbers.",
                )
            raise BadRequest("bad-parameter", f"{parameter} is missing: a field with numbers.")
        self._field = None if path is None else ValueField(view, path, parameter)
        self.text: str | None = None
        self._quotes_numbers = view.value_codec.quotes_numbers
        self._quotes_infinities = path is None or view.value_codec.quotes_infinities

    def values(self, documents: list[object]) -> list[Number | None]:
        """The number of each document; None if it has none. NaN is not a number."""
        # this runs for every entry of a view: nothing but look-ups and comparisons of types
        values = values_given = self._values(documents)
        if self._quotes_numbers:
            values = [_unquoted(v) if type(v) is str else v for v in values]
        if self._quotes_infinities:
            # JSON has no such numbers
            values = [_INFINITE.get(v) if type(v) is str else v for v in values]
        if self._quotes_numbers:
            numbers = [v if type(v) in _NUMBERS else None for v in values]
        else:
            numbers = [v if type(v) is int or type(v) is float else None for v in values]
        if numbers and numbers[0] is None and numbers.count(None) == len(numbers):
            self.text = cast(str | None, next(filter(_is_text, values_given), self.text))
        return cast(list[Number | None], numbers)

    def has_text(self, document: object) -> bool:
        """Whether the field of the document is a text. Call it only if no document has a number."""
        return _is_text(self._values([document])[0])

    def _values(self, documents: list[object]) -> list[object]:
        return documents if self._field is None else self._field.values(documents)

    def refusal(self, parameter: str, text: str) -> BadRequest:
        """The refusal if the field has texts, but no number."""
        return BadRequest(
            "bad-parameter",
            f"{parameter} names a field with texts such as {text[:_MAX_SHOWN]!r}, and no numbers.",
        )


_NUMBERS = frozenset((int, float, Decimal))


def _is_text(value: object) -> bool:
    return type(value) is str and value not in _NO_TEXTS


def _unquoted(text: str) -> object:
    number = number_of_digits(text)
    return text if number is None else number


def negated(number: Number) -> Number:
    """-number, with all digits."""
    return number.copy_negate() if type(number) is Decimal else -number
