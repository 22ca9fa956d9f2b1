"""The table of cases of expressions: each function and operator, with values as SQL has them.

Both evaluators run it. `FIELDS` has the declared fields, `ROW` a row as JSON has it, and
`CASES` the expressions with their values: for `ROW`, or with other values of some fields. A time is
in µs since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from model.derive.derivation import RECORD_FIELDS
from model.expressions.tree import Field
from model.expressions.types import parse_field_type
from tests.vectors.calculation_cases import casts, decimals, lists, quotients, times
from tests.vectors.expression_case import Case, all_cases

_TYPES = {
    "word": "string", "nothing": "string?", "small": "int", "big": "long", "number": "long?",
    "at": "time", "flag": "boolean", "unknown": "boolean?", "ratio": "double", "real": "double?",
    "price": "decimal(2)", "cost": "decimal(2)?", "any": "any?", "millis": "time? ms",
    "share": "decimal(4)? 0..1", "tags": "strings?", "counts": "longs?", "labels": "map?",
}  # fmt: skip
DECLARED = {name: parse_field_type(of) for name, of in _TYPES.items()}
"""The fields of a value."""
NAMES = {
    name: Field(name, of)
    for name, of in {**DECLARED, "record_partition": RECORD_FIELDS["record_partition"]}.items()
}
PARTITION = 3
"""The value of `record_partition` in all rows."""
ROW: Mapping[str, object] = {
    "word": " Éa1 b22", "small": -7, "big": 2**62, "at": "2026-01-01T10:00:59Z", "flag": True,
    "ratio": 0.5, "price": 12.5,
}  # fmt: skip


def _truth() -> list[Case]:
    """`and`, `or` and `not` of all values of two conditions."""
    found = []
    for left in (True, False, None):
        for right in (True, False, None):
            given = {"unknown": left, "nothing": None if right is None else "yn"[not right]}
            either = True if left or right else None if None in (left, right) else False
            both = False if False in (left, right) else None if None in (left, right) else True
            found.append(Case("unknown or nothing = 'y'", either, given))
            found.append(Case("unknown and nothing = 'y'", both, given))
        found.append(Case("not unknown", None if left is None else not left, {"unknown": left}))
    return found


def _numbers() -> list[Case]:
    """Comparisons of numbers of different types, by value."""
    cases = [
        (2**53 + 1, float(2**53), 1), (2**53, float(2**53), 0), (2**63 - 1, float(2**63), -1),
        (-(2**63), -float(2**63), 0), (-(2**63), -1e300, 1), (2**63 - 1, 1e300, -1), (3, 2.5, 1),
        (-3, -2.5, -1), (0, -0.0, 0), (1, 1.0, 0),
    ]  # fmt: skip
    found = []
    for whole, double, order in cases:
        given = {"number": whole, "real": double}
        for operator, is_true in _ORDERS.items():
            found.append(Case(f"number {operator} real", is_true(order), given))
            found.append(Case(f"real {operator} number", is_true(-order), given))
    return found


_ORDERS = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}

_WHOLE = 2**31 - 1
_LONGER = (
    f"length(replace(replace(replace(word, 'a', '{'b' * 10}'), 'b', '{'c' * 10}'), 'c', "
    f"'{'d' * 10}'))"
)
"""A thousand times longer."""
CASES: list[Case] = [
    *all_cases(
        {
            "lower(word)": " éa1 b22",
            "upper(word)": " ÉA1 B22",
            "trim(word)": "Éa1 b22",
            "length(word)": 8,
            "length(nothing)": None,
            "concat(small, '-', big, word)": "-7-4611686018427387904 Éa1 b22",
            "concat(small, small)": "-7-7",
            "'a' || small || nothing": None,
            "substring(word, 2, 3)": "Éa1",
            "substring(word, 6)": "b22",
            "substring(word, 7, 100)": "22",
            "substring(word, 100, 2)": "",
            "substring(word, 2, 0)": "",
            "regexp_like(word, '[0-9]{2}')": True,
            "regexp_extract(word, '([a-z])([0-9]+)')": "a1",
            "regexp_extract(word, '([a-z])([0-9]+)', 2)": "1",
            "regexp_extract(word, 'x')": "",
            "regexp_extract(nothing, 'x')": None,
            "regexp_extract(word, '(x)|a', 1)": "",
            "regexp_extract_all(word, '[a-z][0-9]+')": ["a1", "b22"],
            r"regexp_extract_all(word, '\b[a-z](\d+)\b', 1)": ["22"],
            "regexp_extract_all(word, '[0-9]*')": ["", "", "", "1", "", "", "22", ""],
            "regexp_extract_all(word, '(x)|b', 1)": [""],
            "coalesce(nothing, word)": ROW["word"],
            "coalesce(nothing, nothing)": None,
            "coalesce(number, small, 1)": -7,
            "coalesce(cost, 0.00)": Decimal("0.00"),
            "coalesce(millis, at)": 1767261659000000,
            "if(flag, 1, 2)": 1,
            "if(nothing = 'x', 1, 2)": 2,
            "if(flag, price, 1.50)": Decimal("12.50"),
            "case when small > 0 then 'more' when small = -7 then 'seven' else 'less' end": "seven",
            "case small when 1 then 'one' else 'other' end": "other",
            "div(small, 2)": -3,
            "div(-small, 2)": 3,
            "div(number, 2)": None,
            "mod(small, 2)": 1,
            "mod(small, 7)": 0,
            "mod(-small, 4)": 3,
            "unix_seconds(at)": 1767261659,
            "unix_millis(at)": 1767261659000,
            "unix_seconds(timestamp_seconds(unix_seconds(at) - 60 * 60))": 1767258059,
            "timestamp_seconds(small)": -7_000_000,
            "small * 2000000000": -14000000000,
            "small + 2147483647": 2147483640,
            "small - 2147483647": -2147483654,
            "-small": 7,
            "small * -2147483648": 15032385536,
            "30 * 24 * 3600 * 1000": 2592000000,
            "2147483647 + 1": 2147483648,
            "unix_millis(at) - 30 * 24 * 3600 * 1000": 1764669659000,
            "length(word) * 1000000000": 8000000000,
            "coalesce(small, 0) * 1000000000": -7000000000,
            "-(if(flag, small, 0) * -1000000000)": -7000000000,
            "coalesce(length(nothing), 3) * 100000 * 30": 9000000,
            "record_partition * 1000000000": 3000000000,
            "small in (1, -7)": True,
            "word not in ('a', 'b')": True,
            "nothing in ('a')": None,
            "small in (1, -7.0)": True,
            "ratio in (1, 0.5)": True,
            "price in (12.50, 3)": True,
            "price in (12, 13)": False,
            "small between -7 and 0": True,
            "small not between -7 and 0": False,
            "ratio between 0 and 0.5": True,
            "price between 12.5 and 12.50": True,
            "big between number and 1": False,
            "big between 1 and number": None,
            "word like '%b__'": True,
            "word like 'b'": False,
            "word like '_Éa%'": True,
            "word like '%É%b%'": True,
            "word like '%b%É%'": False,
            "word like ''": False,
            "word like '%'": True,
            "nothing like '%'": None,
            "'aa' like 'a%a'": True,
            "'a' like 'a%a'": False,
            "'aba' like '%a_a%'": True,
            "'A' like 'a'": False,
            "nothing is null and word is not null": True,
            "not flag or ratio >= ratio": True,
            "ratio = ratio and ratio <= ratio": True,
            "small <> -7 or big > 5": True,
            "small != -7": False,
            "not (big < 0)": True,
            "nothing = nothing": None,
            "unknown = flag": None,
            "flag <> (small = -7)": False,
            "'Z' < 'a' and 'a' < 'É' and 'É' < '😀' and '\uffee' < '😀' and '' < 'a'": True,
            "price = 12.5": True,
            "price = 12.500": True,
            "price > 12.499": True,
            "price > 12": True,
            "price < big": True,
            "cost > 1.5": None,
            "small < -6.5": True,
            "ratio = 0.5": True,
            "ratio >= 1": False,
            "price = 12.5 and -0.5 < ratio": True,
            "at = timestamp '2026-01-01T11:00:59+01:00'": True,
            "at > timestamp '2026-01-01 10:00:58.999999Z'": True,
            "at in (timestamp '1969-12-31T23:59:59Z', timestamp '2026-01-01T10:00:59Z')": True,
            "at between timestamp '0001-01-01T00:00:00Z' and timestamp '9999-12-31T00:00Z'": True,
            "unix_seconds(timestamp '1969-12-31T23:59:59.5Z')": -1,
            "unix_millis(timestamp '1969-12-31T23:59:59.9995Z')": -1,
            "timestamp '2026-01-01T00:00:00.25Z'": 1767225600250000,
            "unix_seconds(millis)": None,
            "try_cast(flag as int)": 1,
            "try_cast(big as int)": None,
            "try_cast(small as int)": -7,
            "try_cast(big as double)": 2.0**62,
            "try_cast(price as double)": 12.5,
            "try_cast(price as int)": None,
            "try_cast(ratio as long)": None,
            "try_cast(flag as double)": 1.0,
            "try_cast(flag as boolean)": True,
            "try_cast(small as string)": "-7",
            "try_cast(flag as string)": "true",
            "try_cast(word as string)": ROW["word"],
            "try_cast(nothing as string)": None,
            "any": None,
        }
    ),
    *_truth(),
    *_numbers(),
    *decimals(),
    *quotients(),
    *casts(),
    *times(),
    *lists(),
    *all_cases(
        {
            "nullif(small, -7)": None,
            "nullif(small, 7)": -7,
            "nullif(number, 7)": None,
            "nullif(small, number)": -7,
            "nullif(price, 12.5)": None,
            "nullif(nothing, '')": None,
            "nullif(length(word), 9) * 1000000000": 8000000000,
            "greatest(small, 3, number)": 3,
            "least(small, 3, number)": -7,
            "greatest(number, number)": None,
            "greatest(small, 0.5)": Decimal("0.5"),
            "least(small, ratio)": -7.0,
            "least(word, 'b', nothing)": ROW["word"],
            "greatest(at, timestamp '2027-01-01T00:00Z')": 1798761600000000,
            "coalesce(number, 0.5)": Decimal("0.5"),
            "coalesce(number, price)": Decimal("12.50"),
            "coalesce(real, small)": -7.0,
            "coalesce(cost, ratio)": 0.5,
            "if(flag, small, ratio)": -7.0,
            "if(nothing = 'x', 1, 0.25)": Decimal("0.25"),
            "if(flag, 1, 0.25)": Decimal(1),
            "case when flag then price else 0 end": Decimal("12.50"),
            "replace(word, 'b', 'xyz')": " Éa1 xyz22",
            "replace(word, '1 b', '')": " Éa22",
            "replace(word, '22', '2')": " Éa1 b2",
            "replace(nothing, 'a', 'bb')": None,
            "replace('aaa', 'aa', 'b')": "ba",
            "starts_with(word, ' É')": True,
            "starts_with(word, 'É')": False,
            "starts_with(word, '')": True,
            "starts_with(word, nothing)": None,
            "ends_with(word, '22')": True,
            "ends_with(word, '2 ')": False,
            "contains(word, '1 b')": True,
            "contains(word, 'B')": False,
            "contains(word, nothing)": None,
        }
    ),
    Case(_LONGER, 1_000_000, {"word": "a" * 1000}),
    Case(_LONGER, None, {"word": "a" * 1001}),
    Case("replace(word, '\U0001f600', 'ab')", "abxab", {"word": "\U0001f600x\U0001f600"}),
    # Unicode: İ in lower case is i and a dot above, and so I and a dot above in upper case
    Case("upper(lower(word))", "I\u0307", {"word": "\u0130"}),
    # the texts of different values
    Case("any", "42", {"any": 42}),
    Case("any", "true", {"any": True}),
    Case("any", "4.5", {"any": 4.5}),
    Case("try_cast(any as int)", 42, {"any": 42.0}),
    Case("try_cast(any as double)", None, {"any": True}),
    Case("try_cast(any as boolean)", True, {"any": True}),
    Case("lower(any)", "x", {"any": "X"}),
    # case mappings that change the number of characters
    *all_cases(
        {
            "upper(word)": "STRASSE İ",
            "lower(word)": "straße i̇",
            "length(word)": 8,
            "substring(word, 6)": "e İ",
            "length(lower(word))": 9,
        },
        word="straße İ",
    ),
    # Java and Python have different ideas of the end of a word, so Σ is always σ
    *all_cases({"lower(word)": "ασ οσ", "upper(word)": "ΑΣ ΟΣ"}, word="ΑΣ ΟΣ"),
    Case("lower(word)", "aaσ10b", {"word": "AAΣ10B"}),
    # what ends a line, and what is a word
    Case(r"regexp_extract_all(word, 'a.')", ["ab"], {"word": "ab a\r a\n a\u2028 a\x85"}),
    *[
        Case("regexp_like(word, 'a$')", is_at_end, {"word": f"a{end}"})
        for end, is_at_end in {
            "": True,
            "\n": True,
            "\r": True,
            "\r\n": True,
            "\x85": True,
            "\u2028": True,
            "\u2029": True,
            "\n\n": False,
            "\n\r": False,
            "b": False,
            "\x0b": False,
            " ": False,
        }.items()
    ],
    Case("regexp_extract_all(word, '[\r]$')", [], {"word": "a\r\n"}),
    Case(r"regexp_extract_all(word, '\b[a-z]+\b')", ["b"], {"word": "éa b"}),
    Case(r"regexp_extract_all(word, '\B[a-z]')", ["b", "c", "d"], {"word": "abc éd"}),
    Case(r"regexp_extract_all(word, '\w+|\s')", ["a_1", " "], {"word": "a_1\u00a0é \u0663"}),
    Case("regexp_extract_all(word, '^a|b*')", ["a", "", ""], {"word": "aa"}),
    Case("regexp_extract_all(word, '|a')", ["", "", ""], {"word": "aa"}),
    Case("length(word)", 2, {"word": "😀a"}),
    Case("substring(word, 2)", "a", {"word": "😀a"}),
    Case("word like '_a'", True, {"word": "😀a"}),
    Case("word like 'a_b'", True, {"word": "a\nb"}),
    Case("regexp_extract(word, '.a')", "😀a", {"word": "😀a"}),
    Case("regexp_extract_all(word, 'x*')", ["", "", "", ""], {"word": "😀a"}),
    Case("regexp_extract_all(word, '[^a]')", ["😀"], {"word": "😀a"}),
    Case("trim(word)", "\ta\n", {"word": "  \ta\n "}),
    # texts as numbers and booleans
    *[
        case
        for text, whole, double, boolean in [
            ("42", 42, 42.0, None),
            (" +42 ", 42, 42.0, None),
            ("-7", -7, -7.0, None),
            ("42.0", 42, 42.0, None),
            ("42.", 42, 42.0, None),
            ("42.5", None, 42.5, None),
            ("1e2", 100, 100.0, None),
            ("1e400", None, None, None),
            ("-0", 0, 0.0, None),
            ("2147483647", _WHOLE, float(_WHOLE), None),
            ("2147483648", None, 2147483648.0, None),
            ("9" * 30, None, 1e30, None),
            ("", None, None, None),
            ("abc", None, None, None),
            ("0x1f", None, None, None),
            ("1_000", None, None, None),
            ("NaN", None, None, None),
            ("١", None, None, None),
            ("1\n", None, None, None),
            ("1d", None, None, None),
            (".5", None, None, None),
            ("true", None, None, True),
            (" FALSE", None, None, False),
            ("t", None, None, None),
        ]
        for case in [
            Case("try_cast(word as int)", whole, {"word": text}),
            Case("try_cast(word as double)", double, {"word": text}),
            Case("try_cast(word as boolean)", boolean, {"word": text}),
        ]
    ],
    Case("try_cast(word as long)", 2**63 - 1, {"word": str(2**63 - 1)}),
    Case("try_cast(word as long)", -(2**63), {"word": str(-(2**63))}),
    Case("try_cast(word as long)", None, {"word": str(2**63)}),
    Case("try_cast(word as long)", 2**53, {"word": f"{2**53}e0"}),
    Case("try_cast(word as long)", None, {"word": f"{2**53 + 2}e0"}),
    Case("try_cast(ratio as long)", 3, {"ratio": 3.0}),
    Case("try_cast(ratio as int)", None, {"ratio": 3e9}),
    Case("try_cast(ratio as long)", None, {"ratio": 1e18}),
    Case("try_cast(price as int)", -12, {"price": -12.0}),
    Case("try_cast(big as double)", 9007199254740992.0, {"big": 2**53 + 1}),
    # doubles and decimals as a person writes them
    Case("ratio = 0.1", True, {"ratio": 0.1}),
    Case("ratio = price", True, {"ratio": 0.1, "price": 0.1}),
    Case("ratio in (0.1, 0.2)", True, {"ratio": 0.2}),
    Case("ratio < 0.30000000000001", True, {"ratio": 0.30000000000000004}),
    Case("price between 0.01 and 9999999999999.99", True, {"price": 9999999999999.99}),
    Case("unix_seconds(millis)", -1, {"millis": -1}),
    Case("unix_millis(millis)", -1, {"millis": -1}),
    Case("millis < timestamp '1970-01-01T00:00:00Z'", True, {"millis": -0.5}),
]
