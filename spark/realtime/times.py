"""Times as expressions of Spark: what ``model.times.parse_instant`` reads."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from model.times import LOCAL_PATTERN, MAX_LENGTH, PLAIN_PATTERN, TIME_PATTERN

_DAY = 86_400


def is_local(text: Column) -> Column:
    """Whether the text is a time without a zone."""
    return text.rlike(rf"\A{LOCAL_PATTERN}\z")


def time_of(text: Column) -> Column:
    """The timestamp; null if the text is not a time."""
    # Python has no year 0. Spark's own parser is faster, and most texts are plain.
    is_plain = text.rlike(rf"\A{PLAIN_PATTERN}\z") & (text >= "0001")
    is_time = text.rlike(rf"\A{TIME_PATTERN}\z") & (text >= "0001")
    plain_time = F.when(is_plain, text.try_cast("timestamp"))
    return plain_time.when(is_time & (F.length(text) <= MAX_LENGTH), _instant(text))


def _instant(text: Column) -> Column:
    """The timestamp of a text that has the form of a time. The day and the minute have fixed
    positions."""
    day, minute = F.substr(text, F.lit(1), F.lit(10)), F.substr(text, F.lit(12), F.lit(5))
    second = _part(text, r"\A.{16}:([0-9]{2})", "00")
    fraction = F.rpad(F.regexp_extract(text, r"\A.{19}[.,]([0-9]+)", 1), 9, "0")
    is_next_day = F.startswith(minute, F.lit("24"))
    has_clock = (minute != "24:00") | (second != "00") | (fraction != "0" * 9)
    is_leap = second == "60"
    clock = F.concat(
        F.when(is_next_day, "00:00").otherwise(minute),
        F.lit(":"),
        F.when(is_leap, "59").otherwise(second),
    )
    local = F.unix_seconds(F.concat(day, F.lit("T"), clock, F.lit("Z")).try_cast("timestamp"))
    more = F.when(is_next_day, _DAY).when(is_leap, 1).otherwise(0)
    seconds = local + more - _offset(text)
    is_wrong = (
        (is_next_day & has_clock)
        | (is_next_day & (day == "9999-12-31"))
        | (is_leap & (F.pmod(seconds, F.lit(_DAY)) != 0))
    )
    micros = seconds * 1_000_000 + F.substr(fraction, F.lit(1), F.lit(6)).cast("long")
    return F.when(~is_wrong, F.timestamp_micros(micros))


def _offset(text: Column) -> Column:
    """Seconds east of UTC."""
    zone = F.regexp_extract(text, r"([Zz]|[+-][0-9:]+)(?:\[[^\]]*\])*\z", 1)
    digits = F.rpad(F.regexp_replace(zone, "[^0-9]", ""), 6, "0")
    parts = (F.substr(digits, F.lit(at), F.lit(2)).cast("long") for at in (1, 3, 5))
    hours, minutes, seconds = parts
    size = hours * 3600 + minutes * 60 + seconds
    return F.when(F.startswith(zone, F.lit("-")), -size).otherwise(size)


def _part(text: Column, pattern: str, missing: str) -> Column:
    part = F.regexp_extract(text, pattern, 1)
    return F.when(part == "", missing).otherwise(part)
