"""Random well-typed expressions over the fields of `tests.vectors.expression_cases`, and rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from model.expressions.parser import parse
from model.expressions.tree import Expression
from model.expressions.types import Kind
from tests.vectors.expression_cases import DECLARED, NAMES

Draw = Callable[[st.SearchStrategy[Any]], Any]

_NUMBERS = (Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL)
_ORDERED = (*_NUMBERS, Kind.STRING, Kind.TIME)
_FIELDS = {
    kind: [name for name, of in DECLARED.items() if of.kind is kind] for kind in _ORDERED
} | {Kind.BOOLEAN: ["flag", "unknown"]}
_LITERALS = {
    Kind.STRING: ["'a'", "''", "'Ab'", "'it''s'", "'1'", "' '"],
    Kind.INTEGER: ["0", "1", "-7", "60", str(2**31), str(2**53 + 1), str(2**63 - 1), str(-(2**63))],
    Kind.DECIMAL: ["0.50", "-1.25", "12.50", "0.00", "9999999999999.99"],
    Kind.TIME: ["timestamp '1970-01-01T00:00:00Z'", "timestamp '2026-01-01T10:00:00.5+01:00'"],
    Kind.BOOLEAN: ["true", "false"],
}
_LIKE = ["%", "a%", "%b", "_", "%a%b%", "a_%1", "", "A", "%a_%"]
_PATTERNS = [
    "a",
    "[a-z]+",
    r"(\w)(\d)?",
    "^a|b$",
    r"\ba",
    r"\Bb",
    "x*",
    ".b",
    "[^a]+$",
    r"\s",
    "|a",
]
_ZONES = ["", ", 'Europe/Berlin'", ", 'America/New_York'", ", 'Asia/Kolkata'", ", 'UTC'"]
_UNITS = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"]
_PARTS = ["year", "month", "day", "hour", "minute", "second", "dayofweek"]
# Fields that are the same in SQLite: it has no decimals and no times with a zone.
_SQLITE = (Kind.STRING, Kind.INTEGER, Kind.DOUBLE, Kind.BOOLEAN)


def expressions(*, sqlite: bool = False) -> st.SearchStrategy[str]:
    """Texts of expressions. `sqlite`: of the part of the language that SQLite has as well. Some are
    refused, because a calculation may not fit in 64 bits."""

    @st.composite
    def make(draw: Draw) -> str:
        kinds = _SQLITE if sqlite else tuple(_FIELDS)
        return _Drawn(draw, sqlite).expression(draw(st.sampled_from(kinds)), 3)

    return make()


def parsed_or_none(text: str) -> Expression | None:
    """None if the expression is refused, because the result may not fit."""
    try:
        return parse(text, NAMES)
    except ValueError as error:
        if "may not fit in 64 bits" in str(error) or "more than 38 digits" in str(error):
            return None
        raise


class _Drawn:
    def __init__(self, draw: Draw, sqlite: bool) -> None:
        self._draw = draw
        self._sqlite = sqlite

    def _one(self, values: Any) -> Any:
        return self._draw(st.sampled_from(list(values)))

    def expression(self, kind: Kind, depth: int) -> str:
        forms: list[Callable[[Kind, int], str]] = [self._leaf]
        if depth:
            forms += [self._if, self._coalesce, *[self._of_kind] * 6]
        return str(self._one(forms)(kind, depth - 1))

    def _leaf(self, kind: Kind, _: int) -> str:
        fields = [name for name in _FIELDS[kind] if not (self._sqlite and name == "any")]
        literals = [] if kind is Kind.DOUBLE else _LITERALS[kind]
        return str(self._one([*fields, *fields, *literals]))

    def _if(self, kind: Kind, depth: int) -> str:
        condition = self.expression(Kind.BOOLEAN, depth)
        return f"if({condition}, {self.expression(kind, depth)}, {self._mixed(kind, depth)})"

    def _coalesce(self, kind: Kind, depth: int) -> str:
        name = "coalesce"
        if not self._sqlite and kind is not Kind.BOOLEAN:
            name = self._one(["coalesce", "coalesce", "greatest", "least", "nullif"])
        return f"{name}({self.expression(kind, depth)}, {self._mixed(kind, depth)})"

    def _mixed(self, kind: Kind, depth: int) -> str:
        """An expression that becomes one of the kind next to another one of it."""
        kinds = {
            Kind.DECIMAL: [Kind.DECIMAL, Kind.INTEGER],
            Kind.DOUBLE: [Kind.DOUBLE, Kind.INTEGER, Kind.DECIMAL],
        }
        others = [kind] if self._sqlite else kinds.get(kind, [kind])
        return self.expression(self._one(others), depth)

    def _of_kind(self, kind: Kind, depth: int) -> str:
        makers = {
            Kind.STRING: self._string,
            Kind.INTEGER: self._integer,
            Kind.BOOLEAN: self._boolean,
            Kind.TIME: self._time,
            Kind.DECIMAL: self._decimal,
            Kind.DOUBLE: self._double,
        }
        return makers[kind](depth) if kind in makers else self._coalesce(kind, depth)

    def _small(self, depth: int) -> str:
        return f"mod({self.expression(Kind.INTEGER, depth)}, {self._one(['7', '1000', '86400'])})"

    def _double(self, depth: int) -> str:
        if self._sqlite:
            return self._leaf(Kind.DOUBLE, depth)
        kind = self._one([Kind.STRING, Kind.INTEGER, Kind.DECIMAL, Kind.BOOLEAN])
        double, other = self.expression(Kind.DOUBLE, depth), self._mixed(Kind.DOUBLE, depth)
        forms = [f"try_cast({self.expression(kind, depth)} as double)", f"abs(-({double}))"]
        forms += [f"({double}) {operator} ({other})" for operator in "+-*/"]
        forms.append(f"({other}) {self._one('-/')} ({double})")
        return f"({self._one(forms)})"

    def _decimal(self, depth: int) -> str:
        left, right = self.expression(Kind.DECIMAL, depth), self._mixed(Kind.DECIMAL, depth)
        forms = [f"({left}) {operator} ({right})" for operator in "+-*/"]
        forms += [f"({right}) {self._one('-*/')} ({left})", f"-({left})", f"abs({left})"]
        forms.append(f"round({left}, {self._one('123')})")
        kind = self._one([Kind.STRING, Kind.INTEGER, Kind.DECIMAL])
        forms.append(f"try_cast({self.expression(kind, depth)} as decimal({self._one('123')}))")
        return f"({self._one(forms)})"

    def _time(self, depth: int) -> str:
        at, zone = self.expression(Kind.TIME, depth), self._one(_ZONES)
        number = self.expression(Kind.INTEGER, depth)
        forms = [f"date_trunc('{self._one(_UNITS)}', {at}{zone})"] * 3
        forms += [f"timestamp_{unit}({number})" for unit in ("seconds", "millis", "micros")]
        return str(self._one(forms))

    def _string(self, depth: int) -> str:
        text = self.expression(Kind.STRING, depth)
        forms = [f"lower({text})", f"upper({text})", f"trim({text})"]
        forms += [
            f"substring({text}, {self._one('1234')})",
            f"substring({text}, 2, {self._one('012')})",
        ]
        forms += [f"concat({text}, '-', {self.expression(Kind.INTEGER, depth)})"]
        forms.append(f"replace({text}, '{self._one(['a', ' ', 'ab'])}', '{self._one(['', 'bb'])}')")
        if not self._sqlite:
            kind = self._one([Kind.STRING, Kind.INTEGER, Kind.BOOLEAN])
            forms.append(f"try_cast({self.expression(kind, depth)} as string)")
            forms.append(f"split({text}, '{self._one([' ', 'a', '.', '1_'])}')[{self._one('123')}]")
            forms.append(f"tags[{self._small(depth)}]")
            forms.append(f"labels[{self.expression(Kind.STRING, depth)}]")
            at = self.expression(Kind.TIME, depth)
            forms.append(f"date({at}{self._one(_ZONES)})")
            forms.append(f"regexp_extract({text}, '{self._one(_PATTERNS)}')")
            forms.append(rf"regexp_extract({text}, '(\w)|(\d+)', {self._one('012')})")
        return str(self._one(forms))

    def _integer(self, depth: int) -> str:
        left, right = self._small(depth), self._small(depth)
        forms = [f"{left} {operator} ({right})" for operator in "+-*"]
        forms += [f"-({left})", f"length({self.expression(Kind.STRING, depth)})", left]
        forms += [f"div({self.expression(Kind.INTEGER, depth)}, {self._one(['1', '7', '3600'])})"]
        by = self.expression(Kind.INTEGER, depth)
        forms += [f"{left} / ({right})", f"{left} % ({right})", f"abs({left} - 3)"]
        if not self._sqlite:
            forms += [f"{left} / ({by})", f"({by}) / {left}", f"({by}) % ({right})", f"abs({by})"]
            number = self.expression(self._one(_NUMBERS), depth)
            forms += [f"{self._one(['round', 'floor', 'ceil'])}({number})"] * 2
            forms.append(f"{self._one(['size(tags)', 'size(labels)', 'counts[2]', 'counts[1]'])}")
            at = self.expression(Kind.TIME, depth)
            forms.append(f"{self._one(_PARTS)}({at}{self._one(_ZONES)})")
            kind = self._one([Kind.STRING, Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, Kind.BOOLEAN])
            of = self.expression(kind, depth)
            forms += [f"try_cast({of} as {to})" for to in ("int", "long")]
            at = self.expression(Kind.TIME, depth)
            forms += [f"unix_seconds({at})", f"unix_millis({at})"]
        return f"({self._one(forms)})"

    def _boolean(self, depth: int) -> str:
        kinds = [kind for kind in _ORDERED if not self._sqlite or kind in _SQLITE]
        kind = self._one(kinds)
        others = [each for each in kinds if each in _NUMBERS] if kind in _NUMBERS else [kind]
        sides = [self.expression(self._one([kind, *others]), depth) for _ in range(3)]
        forms = [
            f"{sides[0]} {self._one(['=', '<>', '<', '<=', '>', '>='])} ({sides[1]})",
            f"{sides[0]} {self._one(['', 'not '])}between ({sides[1]}) and ({sides[2]})",
            f"({sides[0]}) is {self._one(['', 'not '])}null",
        ]
        if kind is not Kind.DOUBLE:
            written = ", ".join(self._one(_LITERALS[kind]) for _ in range(2))
            forms.append(
                f"({sides[0]}) {self._one(['', 'not '])}in ({written})"
                if kind not in _NUMBERS
                else f"({sides[0]}) in ({written})"
            )
        left, right = (self.expression(Kind.BOOLEAN, depth) for _ in range(2))
        forms += [f"({left}) {self._one(['and', 'or', '=', '<>'])} ({right})", f"not ({left})"]
        text = self.expression(Kind.STRING, depth)
        forms.append(f"{text} {self._one(['', 'not '])}like '{self._one(_LIKE)}'")
        if not self._sqlite:
            part = self.expression(Kind.STRING, depth)
            forms.append(f"{self._one(['starts_with', 'ends_with', 'contains'])}({text}, {part})")
            forms.append(f"contains(tags, {part})")
            forms.append(f"contains(counts, {self.expression(Kind.INTEGER, depth)})")
            forms.append(f"regexp_like({text}, '{self._one(_PATTERNS)}')")
            forms.append(f"try_cast({text} as boolean)")
        return f"({self._one(forms)})"


def rows(*, ascii_only: bool = False) -> st.SearchStrategy[dict[str, object]]:
    """Rows with values of the declared types, as JSON has them. `ascii_only`: their texts."""
    alphabet = st.sampled_from(" abAB1_-.%" if ascii_only else " abAB1_-.%éÉßΣς\n\r\u2028İ😀e0")
    texts: st.SearchStrategy[str] = st.text(alphabet, max_size=6)
    texts |= st.sampled_from(["true", "42", "-1.0", "1e3", "aAb"])
    if not ascii_only:
        texts |= st.text(st.characters(min_codepoint=1, max_codepoint=0x24F), max_size=4)
    longs = st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100)
    longs |= st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 60])
    doubles = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-100, 100).map(float)
    doubles |= st.sampled_from([2.0**53, 2.0**63, -(2.0**63), 0.5, 12.5])
    of_decimals = st.integers(-(10**15) + 1, 10**15 - 1) | st.integers(-2000, 2000)
    decimals = of_decimals.map(lambda scaled: scaled / 100)
    times = st.sampled_from(
        ["1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "2026-01-01T10:00:00.000001+01:00",
         "1969-12-31T23:59:59.999Z", "9999-12-31T23:59:59Z"]
    )  # fmt: skip
    millis = st.integers(-(10**13), 10**14) | st.integers(-3000, 3000).map(lambda n: n / 2)
    booleans = st.booleans()
    return st.fixed_dictionaries(
        {"word": texts, "small": st.integers(-(2**31), 2**31 - 1) | st.integers(-9, 9),
         "big": longs, "at": times, "flag": booleans, "ratio": doubles, "price": decimals},
        optional={"nothing": st.none() | texts, "number": longs, "unknown": booleans,
                  "real": doubles, "cost": decimals, "any": texts | booleans | longs,
                  "millis": millis, "share": st.integers(0, 10_000).map(lambda n: n / 10_000),
                  "tags": st.none() | st.lists(texts, max_size=3),
                  "counts": st.lists(longs, max_size=3),
                  "labels": st.dictionaries(texts, texts | booleans | longs, max_size=3)},
    )  # fmt: skip
