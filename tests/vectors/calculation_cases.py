"""Cases of calculations, parts of times, lists and maps, for the table of cases of expressions. The
values are those of PostgreSQL, unless it has an error where an expression is null."""

from __future__ import annotations

from decimal import Decimal

from model.times import parse_instant
from tests.vectors.expression_case import Case, all_cases


def decimals() -> list[Case]:
    """Calculations of decimals, with all digits."""
    most = {"price": 9999999999999.99, "big": 2**63 - 1}
    return [
        *all_cases(
            {
                "small * price": Decimal("-87.50"),
                "price * 2": Decimal("25.00"),
                "price * price": Decimal("156.2500"),
                "price * 0.19": Decimal("2.3750"),
                "price + small": Decimal("5.50"),
                "price - 0.005": Decimal("12.495"),
                "1 - share": Decimal("0.75"),
                "price * (1 - share)": Decimal("9.375000"),
                "price * cost": None,
                "-price": Decimal("-12.50"),
                "abs(-price)": Decimal("12.50"),
                "0.1 + 0.2 = 0.3": True,
                "price * 2 > 24.999 and price * 2 <= 25": True,
                "price * small between -87.5 and -87": True,
                "price * 1.0 in (12.5, 13)": True,
                "price * 2 = ratio * 50": True,
                "round(price)": 13,
                "round(-price)": -13,
                "round(price * 0.1, 2)": Decimal("1.25"),
                "round(price * 0.01, 2)": Decimal("0.13"),
                "round(price * -0.01, 2)": Decimal("-0.13"),
                "round(price, 5)": Decimal("12.50"),
                "round(price, 0)": 13,
                "round(small, 2)": -7,
                "floor(price)": 12,
                "floor(-price)": -13,
                "ceil(price)": 13,
                "ceil(-price)": -12,
                "ceil(small)": -7,
                "floor(cost)": None,
                "abs(small)": 7,
                "abs(number)": None,
                "round(ratio)": 1,
                "round(-ratio)": -1,
                "round(real)": None,
                "floor(-ratio)": -1,
                "ceil(-ratio)": 0,
                "ratio + small": -6.5,
                "ratio * price": 6.25,
                "ratio - 0.25": 0.25,
                "-ratio": -0.5,
                "abs(-ratio)": 0.5,
                "real * 2": None,
                "unix_seconds(timestamp_seconds(floor(price)))": 12,
                "try_cast(price * 2 as int)": 25,
                "try_cast(price * 0.00000000000001 as int)": None,
            },
            share=0.25,
        ),
        *all_cases(
            {
                "big * price": Decimal("92233720368547665836279631452241.93"),
                "price * price": Decimal("99999999999999800000000000.0001"),
                "big + price": Decimal("9223382036854775806.99"),
                "price * price > big": True,
            },
            **most,
        ),
        Case("abs(number)", None, {"number": -(2**63)}),
        Case("abs(number)", 2**63 - 1, {"number": 1 - 2**63}),
        *[
            Case(f"{name}(real)", value, {"real": real})
            for real, *values in (
                (0.49999999999999994, 0, 0, 1),
                (2.5, 3, 2, 3),
                (-2.5, -3, -3, -2),
                (2251799813685249.5, 2251799813685250, 2251799813685249, 2251799813685250),
                (2.0**62, 2**62, 2**62, 2**62),
                (-(2.0**63), -(2**63), -(2**63), -(2**63)),
                (2.0**63, None, None, None),
                (-1e300, None, None, None),
            )
            for name, value in zip(("round", "floor", "ceil"), values, strict=True)
        ],
        Case("real * real", None, {"real": 1e200}),
        Case("real - real", 0.0, {"real": -0.0}),
        Case("real + 1", 9007199254740992.0, {"real": 2.0**53}),
    ]


def casts() -> list[Case]:
    """Casts to decimals, which are rounded as in PostgreSQL."""
    texts = {
        "12.5": "12.50",
        " -12.345 ": "-12.35",
        "+0.004999": "0.00",
        "-0.005": "-0.01",
        "7": "7.00",
        "7.": "7.00",
        "9999999999999.99": "9999999999999.99",
        "9999999999999.995": None,
        "10000000000000": None,
        "1e2": None,
        ".5": None,
        "1,5": None,
        "": None,
        "NaN": None,
        "\u0661": None,
    }
    return [
        *[
            Case("try_cast(word as decimal(2))", value and Decimal(value), {"word": text})
            for text, value in texts.items()
        ],
        *[Case(f"try_cast(small as decimal({scale}))", Decimal(-7)) for scale in range(1, 15)],
        Case("try_cast(big as decimal(1))", None),
        Case("try_cast(price * 0.001 as decimal(2))", Decimal("0.01")),
        Case("try_cast(price * -0.001 as DECIMAL(2))", Decimal("-0.01")),
        Case("try_cast(price * 1000000000 as decimal(1))", Decimal("12500000000.0")),
        Case("try_cast(price * 1000000000 * 1000000 as decimal(1))", None),
        Case("try_cast(nothing as decimal(2)) * 2", None),
    ]


def quotients() -> list[Case]:
    """`/` and `%` as in PostgreSQL; null instead of an error."""
    found = [
        Case(f"number {operator} ({by})", value, {"number": number})
        for number, by, quotient, rest in (
            (7, "2", 3, 1),
            (-7, "2", -3, -1),
            (7, "-2", -3, 1),
            (-7, "-2", 3, -1),
            (7, "number - number", None, None),
            (7, "small + 7", None, None),
            (0, "small", 0, 0),
            (-(2**63), "small + 6", None, 0),
            (-(2**63), "1", -(2**63), 0),
        )
        for operator, value in (("/", quotient), ("%", rest))
        if by != "number - number"
    ]
    return [
        *found,
        *all_cases(
            {
                "small / 2": -3,
                "small / 2.0": Decimal("-3.500000"),
                "small % 4": -3,
                "1 / 3.0": Decimal("0.333333"),
                "2 / 3.0": Decimal("0.666667"),
                "-2 / 3.0": Decimal("-0.666667"),
                "price / 3": Decimal("4.166667"),
                "price / price": Decimal("1.000000"),
                "price / cost": None,
                "price / (price - price)": None,
                "price / 0.03": Decimal("416.666667"),
                "0.0000005 / 1": Decimal("0.0000005"),
                "0.000001 / 2.0": Decimal("0.000001"),
                "-0.000001 / 2.0": Decimal("-0.000001"),
                "small / ratio": -14.0,
                "ratio / 0": None,
                "small / (ratio - 0.5)": None,
                "ratio / 3": 0.5 / 3,
                "60 * 60 / 7 % 5": 4,
            }
        ),
        Case("price / 7", Decimal("1428571428571.427143"), {"price": 9999999999999.99}),
        Case(
            "big / price", Decimal("922337.203685"), {"price": 9999999999999.99, "big": 2**63 - 1}
        ),
        Case(
            "big / price",
            Decimal("922337203685477580700.000000"),
            {"price": 0.01, "big": 2**63 - 1},
        ),
    ]


def times() -> list[Case]:
    """Parts of times, as in PostgreSQL: `extract`, `date_trunc`, and `at time zone`."""
    berlin = "'Europe/Berlin'"
    # The clocks in Berlin skip an hour on 2026-03-29, and show 02:00 to 03:00 twice on 2026-10-25.
    zones = {
        "2026-01-01T22:59:59.999999Z": ("2026-01-01", 23, 5, "2025-12-31T23:00:00Z"),
        "2026-01-01T23:00:00Z": ("2026-01-02", 0, 6, "2026-01-01T23:00:00Z"),
        "2026-03-29T00:59:59Z": ("2026-03-29", 1, 1, "2026-03-28T23:00:00Z"),
        "2026-03-29T01:00:00Z": ("2026-03-29", 3, 1, "2026-03-28T23:00:00Z"),
        "2026-10-25T00:30:00Z": ("2026-10-25", 2, 1, "2026-10-24T22:00:00Z"),
        "2026-10-25T01:30:00Z": ("2026-10-25", 2, 1, "2026-10-24T22:00:00Z"),
        "2026-10-25T23:00:00Z": ("2026-10-26", 0, 2, "2026-10-25T23:00:00Z"),
    }
    found = [
        Case(text.format(berlin), value, {"at": at})
        for at, (date, hour, day, midnight) in zones.items()
        for text, value in (
            ("date(at, {})", date),
            ("hour(at, {})", hour),
            ("dayofweek(at, {})", day),
            ("date_trunc('day', at, {})", parse_instant(midnight)),
        )
    ]
    truncated = {
        "second": "2024-02-29T23:59:59Z",
        "minute": "2024-02-29T23:59:00Z",
        "hour": "2024-02-29T23:00:00Z",
        "day": "2024-02-29T00:00:00Z",
        "week": "2024-02-26T00:00:00Z",
        "month": "2024-02-01T00:00:00Z",
        "quarter": "2024-01-01T00:00:00Z",
        "YEAR": "2024-01-01T00:00:00Z",
    }
    leap = {"at": "2024-02-29T23:59:59.999999Z"}
    found += [
        Case(f"date_trunc('{unit}', at)", parse_instant(start), leap)
        for unit, start in truncated.items()
    ]
    parts = {"year": 2024, "month": 2, "day": 29, "hour": 23, "minute": 59, "second": 59}
    found += [
        case
        for name, value in (parts | {"dayofweek": 5}).items()
        for case in (
            Case(f"{name}(at)", value, leap),
            Case(f"extract({name} from at)", value, leap),
            Case(f"{name}(millis)", None, leap),
        )
    ]
    before = {"at": "1969-12-31T23:59:59.5Z"}
    first, last = {"at": "0001-01-01T00:00:00+18:00"}, {"at": "9999-12-31T23:59:59-18:00"}
    return [
        *found,
        *all_cases(
            {
                "date(at)": "1969-12-31",
                "second(at)": 59,
                "hour(at)": 23,
                "dayofweek(at)": 4,
                "date_trunc('minute', at)": -60_000_000,
                "date_trunc('week', at)": -259_200_000_000,
            },
            **before,
        ),
        *all_cases(
            {"date(at)": "0000-12-31", "year(at)": 0, "month(at)": 12, "hour(at)": 6}, **first
        ),
        *all_cases({"date(at)": "10000-01-01", "year(at)": 10000, "day(at)": 1}, **last),
        Case("date_trunc('hour', at, 'Asia/Kolkata')", parse_instant("2026-01-01T09:30:00Z")),
        Case("minute(at, 'Asia/Kolkata')", 30),
        Case("date_trunc('day', at, 'America/New_York')", parse_instant("2026-01-01T05:00:00Z")),
        Case("date(at, 'UTC')", "2026-01-01"),
        # clocks in Beirut skip midnight
        Case(
            "date_trunc('day', at, 'Asia/Beirut')",
            parse_instant("2022-03-26T22:00:00Z"),
            {"at": "2022-03-27T12:00:00Z"},
        ),
        *[
            Case(f"timestamp_{unit}(number)", value, {"number": number})
            for unit, number, value in (
                ("seconds", 1767261659, 1767261659000000),
                ("millis", 1767261659123, 1767261659123000),
                ("millis", -1, -1000),
                ("micros", -1, -1),
                ("seconds", 9223372036854, 9223372036854000000),
                ("seconds", 9223372036855, None),
                ("millis", -(2**63), None),
                ("micros", 9223372036854000001, None),
            )
        ],
        Case("timestamp_millis(small)", -7000),
        Case("date_trunc('second', timestamp_millis(number))", None),
        Case("hour(timestamp_seconds(number), 'Europe/Berlin')", None),
        Case("unix_micros(at)", 1767261659000000),
        Case("unix_millis(timestamp_millis(number))", -7, {"number": -7}),
        Case("hour(timestamp_seconds(number))", 4, {"number": 9223372036854}),
        Case("year(timestamp_seconds(number))", 294247, {"number": 9223372036854}),
    ]


def lists() -> list[Case]:
    given: dict[str, object] = {
        "tags": ["b", "a", "b"],
        "counts": [3, 2**63 - 1],
        "labels": {"colour": "red", "count": 2**53 + 1, "on": True, "none": None},
    }
    return [
        *all_cases(
            {
                "tags": ["b", "a", "b"],
                "counts": [3, 2**63 - 1],
                "tags[1]": "b",
                "tags[3]": "b",
                "tags[4]": None,
                "tags[-1]": None,
                "tags[small + 9]": "a",
                "tags[small + 7]": None,
                "tags[number]": None,
                "counts[2]": 2**63 - 1,
                "counts[1] / 2": 1,
                "size(tags)": 3,
                "size(tags) * 1000000000": 3000000000,
                "size(labels)": 3,
                "contains(tags, 'a')": True,
                "contains(tags, 'c')": False,
                "contains(tags, nothing)": None,
                "contains(counts, 3)": True,
                "contains(counts, small)": False,
                "labels['colour']": "red",
                "labels['count']": "9007199254740993",
                "labels['on']": "true",
                "labels['none']": None,
                "labels['other']": None,
                "labels[nothing]": None,
                "map_keys(labels)": ["colour", "count", "on"],
                "contains(map_keys(labels), 'colour')": True,
                "upper(tags[2]) || labels['colour']": "Ared",
                "tags is not null": True,
            },
            **given,
        ),
        *all_cases(
            {
                "tags[1]": None,
                "size(tags)": None,
                "size(labels)": None,
                "contains(tags, 'a')": None,
                "labels['colour']": None,
                "map_keys(labels)": None,
                "counts is null": True,
            }
        ),
        *all_cases({"tags[1]": None, "size(tags)": 0, "contains(tags, '')": False}, tags=[]),
        Case("size(labels)", 0, {"labels": {}}),
        *[
            Case("split(word, ',')", parts, {"word": text})
            for text, parts in {
                "a,b": ["a", "b"],
                ",a,,": ["", "a", "", ""],
                "": [""],
                "a": ["a"],
            }.items()
        ],
        Case("split(word, '.*')[2]", "b", {"word": "a.*b"}),
        Case("split(word, '\\')[2]", "b", {"word": "a\\b"}),
        Case("split(word, '\\E')", ["a", "b"], {"word": "a\\Eb"}),
        Case("split(word, 'é')", ["a", "b"], {"word": "aéb"}),
        Case("split(nothing, ' ')", None),
        Case("size(split(word, ' '))", 3),
    ]
