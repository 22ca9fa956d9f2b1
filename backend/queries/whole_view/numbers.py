"""The numbers of one group of `aggregate`, and their encoding between instances.

Sums are exact, whatever the order of entries and partitions: whole numbers are added as whole
numbers, decimals as integer numbers of their last digit, and each float64 as an integer number of
2^-1074, the least positive float64. Only the result is rounded, if there is a float64.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import orjson
from pydantic import Field, TypeAdapter

from backend.queries.whole_view.fields import Number
from model.formats.float64 import json_number

_SCALE = 1074  # bits after the binary point of the least float64


@dataclass(slots=True)
class Numbers:
    """The numbers of one group.

    `entries`: with and without a number; `count`: with a number. `whole`, `scaled`: the sums of
    integers, and of finite floats times 2^1074 (None: no float). `decimal`: the sum of decimals
    times 10^`digits` (None: no decimal). `infinite`: the sum of infinities. `text`: one of the
    texts that stand instead of numbers, if the partition has no number.
    """

    entries: int = 0
    count: int = 0
    whole: int = 0
    scaled: int | None = None
    infinite: float = 0.0
    least: Number | None = None
    greatest: Number | None = None
    decimal: int | None = None
    digits: int = 0
    text: str | None = None

    def add(self, number: Number) -> None:
        self.count += 1
        if type(number) is int:
            self.whole += number
        elif isinstance(number, Decimal):
            text = f"{number:f}"
            self._add_decimal(int(text.replace(".", "")), len(text.partition(".")[2]))
        elif math.isfinite(number):
            numerator, denominator = number.as_integer_ratio()
            # the denominator is a power of two
            shifted = numerator << (_SCALE + 1 - denominator.bit_length())
            self.scaled = shifted if self.scaled is None else self.scaled + shifted
        else:
            self.infinite += number
        self._extend(number)

    def merge(self, other: Numbers) -> None:
        self.entries += other.entries
        self.count += other.count
        self.whole += other.whole
        if other.scaled is not None:
            self.scaled = other.scaled + (self.scaled or 0)
        if other.decimal is not None:
            self._add_decimal(other.decimal, other.digits)
        self.text = self.text or other.text
        self.infinite += other.infinite
        for number in (other.least, other.greatest):
            if number is not None:
                self._extend(number)

    def _add_decimal(self, unscaled: int, digits: int) -> None:
        most = max(digits, self.digits)
        before = (self.decimal or 0) * 10 ** (most - self.digits)
        self.decimal, self.digits = before + unscaled * 10 ** (most - digits), most

    def _extend(self, number: Number) -> None:
        """Updates the extremes with a number. If numbers are equal, the order of types and signs
        decides, so that the result does not depend on the order of entries: -0.0 < 0.0, 1 < 1.0."""
        least, greatest = self.least, self.greatest
        if least is None or greatest is None:
            self.least = self.greatest = number
            return
        if number < least or (number == least and _tie_break(number) < _tie_break(least)):
            self.least = number
        if number > greatest or (number == greatest and _tie_break(number) > _tie_break(greatest)):
            self.greatest = number

    @property
    def sum(self) -> Number | None:
        """None without numbers."""
        if self.count == 0:
            return None
        if self.infinite:  # infinities, or NaN for both of them
            return self.infinite
        if self.scaled is not None:
            return self._divided_by(1)
        if self.decimal is None:
            return self.whole
        return _decimal(self.whole * 10**self.digits + self.decimal, self.digits)

    @property
    def average(self) -> float | None:
        """None without numbers."""
        if self.count == 0:
            return None
        return self.infinite or self._divided_by(self.count)

    def _divided_by(self, divisor: int) -> float:
        """The exact sum divided, rounded once."""
        total = (self.whole << _SCALE) + (self.scaled or 0)
        divisor <<= _SCALE
        if self.decimal is not None:
            total = total * 10**self.digits + (self.decimal << _SCALE)
            divisor *= 10**self.digits
        try:
            return total / divisor
        except OverflowError:
            return math.inf if total > 0 else -math.inf

    def to_wire(self) -> bytes:
        # decimal digits of so large a number take quadratic time
        scaled = None if self.scaled is None else f"{self.scaled:x}"
        fields = self.entries, self.count, self.whole, scaled, self.infinite
        extremes = [_to_wire(self.least), _to_wire(self.greatest)]
        decimal = None if self.decimal is None else f"{self.decimal:x}"
        # instances of earlier releases know only the fields before these
        newer_fields = (
            [] if decimal is None and self.text is None else [decimal, self.digits, self.text]
        )
        return json.dumps([*fields, *extremes, *newer_fields]).encode()

    @staticmethod
    def from_wire(item: bytes) -> Numbers:
        """Raises ValueError if `item` is malformed."""
        fields = _WIRE.validate_json(item, strict=True)
        entries, count, whole, scaled, infinite, least, greatest = fields[:7]
        decimal, digits, text = fields[7:] or (None, 0, None)
        return Numbers(
            entries,
            count,
            whole,
            _from_hex(scaled),
            infinite,
            _from_wire(least),
            _from_wire(greatest),
            _from_hex(decimal),
            digits,
            text,
        )


def number_json(number: Number | None) -> bytes:
    """The number as the format `float64` writes it; integers have all their digits."""
    if type(number) is int:
        return b"%d" % number
    if isinstance(number, Decimal):
        return f"{number:f}".encode()
    return orjson.dumps(number if number is None else json_number(number))


_Natural = Annotated[int, Field(ge=0)]
_Digits = Annotated[int, Field(ge=0, le=1000)]
_DecimalText = Annotated[str, Field(pattern=r"^-?[0-9]{1,1000}\.[0-9]{1,1000}$")]
_Extreme = int | float | _DecimalText | None
_Hex = str | None
_Fields = tuple[_Natural, _Natural, int, _Hex, float, _Extreme, _Extreme]
_More = tuple[
    _Natural, _Natural, int, _Hex, float, _Extreme, _Extreme, _Hex, _Digits, str | None
]  # fmt: skip
_WIRE: TypeAdapter[_Fields | _More] = TypeAdapter(_Fields | _More)


def _from_hex(text: str | None) -> int | None:
    return None if text is None else int(text, 16)


def _to_wire(extreme: Number | None) -> int | float | str | None:
    return f"{extreme:f}" if isinstance(extreme, Decimal) else extreme


def _from_wire(extreme: float | str | None) -> Number | None:
    return Decimal(extreme) if isinstance(extreme, str) else extreme


def _decimal(unscaled: int, digits: int) -> Decimal:
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -digits))


def _tie_break(number: Number) -> tuple[float, bool, int]:
    digits = len(f"{number:f}") if isinstance(number, Decimal) else 0
    return math.copysign(1, number), type(number) is float, digits
