"""The types of functions of times."""

from __future__ import annotations

from dataclasses import replace

from model.expressions.calendar import UNITS
from model.expressions.signatures.signature import (
    Arguments,
    Typing,
    check,
    check_count,
    literal_text,
)
from model.expressions.types import (
    INT64_MAX,
    INT64_MIN,
    MAX_SECONDS,
    STRING,
    TIME,
    Kind,
    Type,
    integer,
)
from model.expressions.zones import check_zone


def of_number(name: str, per_second: int) -> Typing:
    """``timestamp_seconds`` and the like: null beyond the times that fit in 64 bits of µs."""

    def type_(arguments: Arguments) -> Type:
        optional = check(name, arguments, Kind.INTEGER)
        operand = arguments[0].type
        least, most = -MAX_SECONDS * per_second, MAX_SECONDS * per_second
        optional = optional or operand.low < least or operand.high > most
        low, high = max(operand.low, least), min(operand.high, most)
        if low > high:  # no number is a time
            low = high = 0
        return replace(
            TIME,
            optional=optional,
            low=low // per_second,
            high=high // per_second,
        )

    return type_


def unix(name: str, factor: int) -> Typing:
    def type_(arguments: Arguments) -> Type:
        optional = check(name, arguments, Kind.TIME)
        operand = arguments[0].type
        return integer(factor * operand.low, factor * (operand.high + 1) - 1, optional)

    return type_


def unix_micros(arguments: Arguments) -> Type:
    optional = check("unix_micros", arguments, Kind.TIME)
    operand = arguments[0].type
    low, high = (1_000_000 * bound for bound in (operand.low, operand.high + 1))
    return integer(max(low, INT64_MIN), min(high - 1, INT64_MAX), optional)


def _check_zone(name: str, arguments: Arguments, at: int) -> None:
    if len(arguments) > at:
        zone = literal_text(f"the zone of {name}", arguments[at])
        try:
            check_zone(zone)
        except ValueError as error:
            raise ValueError(f"{error},") from None


def part(name: str, result: Type) -> Typing:
    """A part of a time, such as the hour, in UTC or in a zone."""

    def type_(arguments: Arguments) -> Type:
        optional = check(name, arguments, Kind.TIME, Kind.STRING, least=1)
        _check_zone(name, arguments, 1)
        return result.or_null(optional)

    return type_


def date_trunc(arguments: Arguments) -> Type:
    check_count("date_trunc", arguments, 2, 3)
    if arguments[0].type.kind is Kind.TIME:
        raise ValueError("date_trunc has the unit first: date_trunc('hour', time),")
    optional = check("date_trunc", arguments, Kind.STRING, Kind.TIME, Kind.STRING, least=2)
    unit = literal_text("the unit of date_trunc", arguments[0])
    if unit.lower() not in UNITS:
        raise ValueError(f"{unit[:20]!r} is not a unit: use {', '.join(UNITS)}")
    _check_zone("date_trunc", arguments, 2)
    operand = arguments[1].type
    # The start of a unit is up to a year before the time.
    low = max(operand.low - 367 * 86_400, -MAX_SECONDS)
    return replace(TIME, optional=optional, low=low, high=operand.high)


def date(arguments: Arguments) -> Type:
    optional = check("date", arguments, Kind.TIME, Kind.STRING, least=1)
    _check_zone("date", arguments, 1)
    return STRING.or_null(optional)
