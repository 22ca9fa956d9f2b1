"""Text forms of Avro values that JSON cannot express.

| Avro                        | text                                                         |
|-----------------------------|--------------------------------------------------------------|
| bytes, fixed                | base64url without padding                                    |
| float, double               | numbers; "NaN", "Infinity", "-Infinity" as text              |
| decimal                     | "12.50": all digits of the scale                             |
| date                        | "2013-12-29"                                                 |
| time-millis, -micros        | "12:03:04.005": all digits of the unit; "-01:00:00.000"      |
| timestamp-millis, …, -nanos | "2013-12-29T00:03:00.000Z"; a year beyond 9999 as "+10000"   |
| local-timestamp-…           | the same without Z                                           |
| uuid                        | its 36 characters, from a string or a fixed of 16 bytes      |

The readers use fastavro's extension point: they are registered as logical types whose names no
other schema has. `schema.AvroSchema` writes these names into the schema that it reads with.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from fastavro.read import LOGICAL_READERS

from model.formats.base64url import to_base64url
from model.formats.float64 import json_number

PREFIX = "queryable-"

_ERA = 146_097  # days of 400 years, after which the calendar repeats
_EPOCH = date(1970, 1, 1)
_DAY = 86_400
_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}
_TEXT_OF_FLOAT = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

_DATE = re.compile(r"([+-]\d{4,18}|\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(-?)(\d{2,10}):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?", re.ASCII)
_DECIMAL = re.compile(r"(-?)(\d{1,4000})(?:\.(\d{1,4000}))?", re.ASCII)


def _decimal(raw: bytes, scale: int) -> str:
    unscaled = int.from_bytes(raw, "big", signed=True)
    digits = str(abs(unscaled)).zfill(scale + 1)  # ValueError beyond 4300 digits
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' if unscaled < 0 else ''}{whole}{'.' if scale else ''}{fraction}"


def _date(days: int) -> str:
    eras, day = divmod(days, _ERA)
    day_in_era = _EPOCH + timedelta(day)
    year = day_in_era.year + 400 * eras
    sign = "" if 0 <= year <= 9999 else "-" if year < 0 else "+"
    return f"{sign}{abs(year):04}-{day_in_era.month:02}-{day_in_era.day:02}"


def _clock(ticks: int, digits: int) -> str:
    seconds, fraction = divmod(ticks, 10**digits)
    return (
        f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}."
        f"{str(fraction).zfill(digits)}"
    )


def _time(ticks: int, digits: int) -> str:
    """The text of a time. A number that is not a time of day, also 24:00:00, is written as a
    duration: Avro allows every number."""
    return _clock(ticks, digits) if ticks >= 0 else f"-{_clock(-ticks, digits)}"


def _timestamp(ticks: int, digits: int) -> str:
    days, ticks_of_day = divmod(ticks, _DAY * 10**digits)
    return f"{_date(days)}T{_clock(ticks_of_day, digits)}"


# text to values


def from_base64(text: str) -> bytes:
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if to_base64url(raw).decode() != text:
        raise ValueError("not base64url without padding")
    return raw


def to_float(value: Any) -> float:
    """The float of a JSON number, or of a text in _TEXT_OF_FLOAT. Raises ValueError."""
    if isinstance(value, str) and value in _TEXT_OF_FLOAT:
        return _TEXT_OF_FLOAT[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError('not a number, "NaN", "Infinity" or "-Infinity"')
    return float(value)


def to_unscaled(text: str, scale: int) -> int:
    match = _DECIMAL.fullmatch(text)
    if match is None or len(match[3] or "") > scale:
        raise ValueError(f"not a decimal number with {scale} digits after the point, as text")
    return int(match[1] + match[2] + (match[3] or "").ljust(scale, "0"))


def _to_days(text: str) -> int:
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError('not a date such as "2013-12-29"')
    eras, year = divmod(int(match[1]) - 1970, 400)
    day = date(1970 + year, int(match[2]), int(match[3]))
    return int(eras) * _ERA + (day - _EPOCH).days


def _to_ticks(text: str, digits: int) -> int:
    match = _TIME.fullmatch(text)
    if match is None or len(match[5] or "") > digits:
        raise ValueError(f'not a time such as "12:03:04.{"0" * digits}"')
    seconds: int = int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4])
    ticks_per_second: int = 10**digits
    ticks = seconds * ticks_per_second + int((match[5] or "0").ljust(digits, "0"))
    return -ticks if match[1] else ticks


def _to_timestamp(text: str, digits: int, zone: str) -> int:
    day, t, clock = text.partition("T")
    ticks_per_day: int = _DAY * 10**digits
    if t and clock.endswith(zone) and not clock.startswith("-"):
        ticks = _to_ticks(clock.removesuffix(zone), digits)
        if ticks < ticks_per_day:
            return _to_days(day) * ticks_per_day + ticks
    raise ValueError(f'not a timestamp such as "2013-12-29T00:03:00.{"0" * digits}{zone}"')


TO_NUMBER: dict[str, Callable[[str], int]] = {"int-date": _to_days}
"""Logical type of an int or a long, such as "int-date" -> function from text to number."""


def _register(kind: str, text_of: Callable[[Any, Any], object]) -> None:
    base, _, name = kind.partition("-")

    def read(data: Any, writer_schema: Any = None, reader_schema: Any = None) -> object:
        return text_of(data, writer_schema)

    LOGICAL_READERS[f"{base}-{PREFIX}{name}"] = read


def _register_times() -> None:
    for unit, digits in _DIGITS.items():
        base = "int" if unit == "millis" else "long"
        if unit != "nanos":
            kind = f"{base}-time-{unit}"
            _register(kind, lambda data, _, digits=digits: _time(data, digits))  # type: ignore[misc]
            TO_NUMBER[kind] = lambda text, digits=digits: _to_ticks(text, digits)  # type: ignore[misc]
        for local, zone in (("", "Z"), ("local-", "")):
            kind = f"long-{local}timestamp-{unit}"
            _register(
                kind,
                lambda data, _, digits=digits, zone=zone: _timestamp(data, digits) + zone,  # type: ignore[misc]
            )
            TO_NUMBER[kind] = lambda text, digits=digits, zone=zone: _to_timestamp(  # type: ignore[misc]
                text, digits, zone
            )


_register("int-date", lambda data, _: _date(data))
_register_times()
for _base in ("bytes", "fixed"):
    _register(f"{_base}-base64", lambda data, _: to_base64url(data).decode())
    _register(f"{_base}-decimal", lambda data, schema: _decimal(data, schema.get("scale", 0)))
for _base in ("float", "double"):
    _register(f"{_base}-number", lambda data, _: json_number(data))
_register("fixed-uuid", lambda data, _: str(uuid.UUID(bytes=data)))
