"""The expressions of ``[views.NAME.derive]``: a small part of SQL, with static types.

    where = "status >= 500 and lower(method) in ('get', 'head')"

An expression uses the fields of one record. It has no state, no clock and no random numbers, so a
view is always equal to the batch computation over its topics. It cannot fail, whatever is in a
record.
``model.expressions.functions`` has the functions and operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

from model.expressions.calendar import PARTS
from model.expressions.casts import CAST_TYPES, cast_name
from model.expressions.functions import FUNCTIONS, result_type
from model.expressions.hints import (
    CASE_ELSE,
    CASE_END,
    EXTRACT,
    QUOTES,
    expected,
    unexpected,
    unknown_field,
    unknown_function,
)
from model.expressions.signatures.signature import Argument
from model.expressions.tokens import Token, tokens
from model.expressions.tree import Call, Expression, Literal
from model.expressions.types import (
    BOOLEAN,
    INT64_MAX,
    INT64_MIN,
    STRING,
    AnyScalar,
    Kind,
    Type,
    decimal_literal,
    integer,
    time_literal,
)
from model.expressions.undeclared import read_as, with_types
from model.times import parse_instant

MAX_CHARACTERS = 2_000
MAX_NODES = 500
MAX_LEVELS = 100
_MAX_DEPTH = 40

_COMPARISONS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_COMPARING = _COMPARISONS | {"in", "between"}
_KEYWORDS = frozenset(
    {"and", "or", "not", "is", "null", "in", "between", "like", "true", "false"}
    | {"case", "when", "then", "else", "end"}
)


def parse(text: str, names: Mapping[str, Expression]) -> Expression:
    """Parse an expression. ``names``: the fields, and the expressions of ``let``. Raises
    ValueError, which says what is wrong, and at which character (from 1)."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"an expression has at most {MAX_CHARACTERS} characters")
    parser = _Parser(tokens(text), names)
    expression = parser.whole()
    parts, levels = _size(expression)
    if parts > MAX_NODES or levels > MAX_LEVELS:
        raise ValueError(
            f"the expression has more than {MAX_NODES} parts or {MAX_LEVELS} levels, with those of "
            "let"
        )
    return expression


def _size(expression: Expression) -> tuple[int, int]:
    """The number of parts, counted up to one more than is allowed, and the number of levels."""
    parts, levels = 0, 0
    waiting = [(expression, 1)]
    while waiting and parts <= MAX_NODES:
        part, level = waiting.pop()
        parts += 1
        levels = max(levels, level)
        if isinstance(part, Call):
            waiting += ((argument, level + 1) for argument in part.arguments)
    return parts, levels


class _Parser:
    """Recursive descent. Each method reads one level of precedence, the lowest first."""

    def __init__(self, tokens: list[Token], names: Mapping[str, Expression]) -> None:
        self._tokens = tokens
        self._names = names
        self._next = 0
        self._depth = 0

    def whole(self) -> Expression:
        expression = self._or()
        if self._peek.kind != "end":
            raise self._error(unexpected(self._peek.text))
        return expression

    @property
    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _error(self, what: str, at: int | None = None) -> ValueError:
        return ValueError(f"{what} at character {at or self._peek.at}")

    def _take(self, *texts: str) -> str | None:
        """Take the next token, if it is one of these words or symbols; return it in lower case."""
        token = self._peek
        if token.kind not in ("name", "symbol") or token.text.lower() not in texts:
            return None
        self._next += 1
        return token.text.lower()

    def _expect(self, text: str) -> None:
        if self._take(text) is None:
            raise self._error(expected(text, self._peek.text))

    def _call(self, function: str, at: int, *arguments: Expression) -> Call:
        def type_of(arguments: tuple[Expression, ...]) -> Type:
            given = [Argument(argument.type, _literal(argument)) for argument in arguments]
            return result_type(function, given)

        if function in _COMPARING:
            arguments = _with_times(arguments)
        try:
            return Call(function, *with_types(arguments, type_of))
        except ValueError as e:
            raise self._error(str(e), at) from None

    def _or(self) -> Expression:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"more than {_MAX_DEPTH} levels of parentheses")
        expression = self._chain(self._and, "or")
        self._depth -= 1
        return expression

    def _and(self) -> Expression:
        return self._chain(self._not, "and")

    def _chain(self, operand: Callable[[], Expression], *operators: str) -> Expression:
        left = operand()
        while True:
            at = self._peek.at
            operator = self._take(*operators)
            if operator is None:
                return left
            left = self._call(operator, at, left, operand())

    def _not(self) -> Expression:
        negations = []
        while True:
            at = self._peek.at
            if self._take("not") is None:
                break
            negations.append(at)
        expression = self._comparison()
        for at in reversed(negations):
            expression = self._call("not", at, expression)
        return expression

    def _comparison(self) -> Expression:
        left = self._joined()
        at = self._peek.at
        operator = self._take(*_COMPARISONS)
        if operator is not None:
            return self._call("<>" if operator == "!=" else operator, at, left, self._joined())
        if self._take("is"):
            return self._is(left, at)
        negated = self._take("not")
        comparison: Expression
        if self._take("in"):
            comparison = self._call("in", at, left, *self._list())
        elif self._take("between"):
            low = self._joined()
            self._expect("and")
            comparison = self._call("between", at, left, low, self._joined())
        elif self._take("like"):
            comparison = self._call("like", at, left, self._joined())
        elif negated:
            raise self._error("expected in, between or like after not")
        else:
            return left
        return self._call("not", at, comparison) if negated else comparison

    def _is(self, left: Expression, at: int) -> Expression:
        """The end of ``a is null``, ``a is not null``, ``a is true`` and the like."""
        negated = self._take("not") is not None
        word = self._take("null", "unknown", "true", "false")
        if word is None:
            raise self._error(expected("null, true or false", self._peek.text))
        if word in ("null", "unknown"):
            return self._call("is not null" if negated else "is null", at, left)
        # A null is neither true nor false.
        unless_null = self._call("coalesce", at, left, Literal(word == "false", BOOLEAN))
        is_opposite = negated == (word == "true")
        return self._call("not", at, unless_null) if is_opposite else unless_null

    def _joined(self) -> Expression:
        at = self._peek.at
        parts = [self._sum()]
        while self._take("||"):
            parts.append(self._sum())
        return parts[0] if len(parts) == 1 else self._call("concat", at, *parts)

    def _sum(self) -> Expression:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Expression:
        return self._chain(self._unary, "*", "/", "%")

    def _unary(self) -> Expression:
        at = self._peek.at
        if self._take("-") is None:
            return self._element()
        if self._peek.kind == "number":
            self._next += 1
            return self._number(f"-{self._tokens[self._next - 1].text}", at)
        return self._call("negative", at, self._element())

    def _element(self) -> Expression:
        expression = self._primary()
        while self._peek.text == "[":
            at = self._peek.at
            self._next += 1
            number = self._or()
            self._expect("]")
            expression = self._call("[]", at, expression, number)
        return expression

    def _primary(self) -> Expression:
        token = self._peek
        if token.kind == "end":
            raise self._error("the expression ends too early")
        self._next += 1
        if token.kind == "number":
            return self._number(token.text, token.at)
        if token.kind == "string":
            return Literal(token.text[1:-1].replace("''", "'"), STRING)
        if token.text == "(":
            expression = self._or()
            self._expect(")")
            return expression
        if token.kind == "symbol":
            raise self._error(unexpected(token.text), token.at)
        word = token.text.lower()
        if word in ("true", "false"):
            return Literal(word == "true", BOOLEAN)
        if word == "case":
            return self._case(token.at)
        if word in _KEYWORDS:
            raise self._error(unexpected(token.text), token.at)
        if self._peek.text == "(":
            return self._function(token)
        if word == "timestamp" and self._peek.kind == "string":
            return self._time()
        if token.text not in self._names:
            if token.text.startswith('"'):
                raise self._error(QUOTES, token.at)
            raise self._error(unknown_field(token.text, self._names), token.at)
        return self._names[token.text]

    def _case(self, at: int) -> Expression:
        """``case when … then … else … end``, or ``case a when 1 then … else … end``."""
        subject = None if self._peek.text.lower() == "when" else self._or()
        branches: list[tuple[Expression, Expression]] = []
        while self._take("when"):
            where = self._peek.at
            condition = self._or()
            if subject is not None:
                condition = self._call("=", where, subject, condition)
            self._expect("then")
            branches.append((condition, self._or()))
        if not branches:
            raise self._error(expected("when", self._peek.text))
        if self._take("else") is None:
            raise self._error(CASE_ELSE if self._peek.text.lower() == "end" else CASE_END)
        result = self._or()
        if self._take("end") is None:
            raise self._error(CASE_END)
        for condition, then in reversed(branches):
            result = self._call("if", at, condition, then, result)
        return result

    def _cast(self, at: int) -> Expression:
        """``try_cast(a as int)``."""
        self._expect("(")
        operand = read_as(self._or(), AnyScalar(Kind.STRING))
        self._expect("as")
        token = self._peek
        self._next += token.kind == "name"
        text = token.text
        if text.lower() == "decimal" and self._take("(") is not None:
            text = f"decimal({self._peek.text})"
            self._next += self._peek.kind == "number"
            if self._peek.text == ",":
                raise self._error("a decimal has the number of digits after its point: decimal(2)")
            self._expect(")")
        kind = cast_name(text) if token.kind == "name" else None
        if kind is None:
            raise self._error(f"{text or 'the end'} is not a type: {CAST_TYPES}", token.at)
        self._expect(")")
        return self._call(kind, at, operand)

    def _extract(self, at: int) -> Expression:
        """``extract(hour from a)``, which is ``hour(a)``."""
        self._expect("(")
        part = self._peek
        if part.text.lower() not in PARTS:
            raise self._error(
                f"{part.text or 'the end'} is not one of: {', '.join(PARTS)}. {EXTRACT}"
            )
        self._next += 1
        self._expect("from")
        time = self._or()
        self._expect(")")
        return self._call(part.text.lower(), at, time)

    def _function(self, token: Token) -> Expression:
        name = token.text.lower()
        if name == "try_cast":
            return self._cast(token.at)
        if name == "extract":
            return self._extract(token.at)
        if name not in FUNCTIONS:
            raise self._error(unknown_function(token.text, FUNCTIONS), token.at)
        return self._call(name, token.at, *self._list())

    def _list(self) -> list[Expression]:
        self._expect("(")
        expressions = [self._or()]
        while self._take(","):
            expressions.append(self._or())
        self._expect(")")
        return expressions

    def _number(self, text: str, at: int) -> Expression:
        try:
            if "." in text:
                value = Decimal(text)
                return Literal(value, decimal_literal(value))
            number = int(text)
            if not INT64_MIN <= number <= INT64_MAX:
                raise ValueError(f"{number} does not fit in 64 bits")
        except ValueError as e:
            raise self._error(str(e), at) from None
        return Literal(number, integer(number, number))

    def _time(self) -> Expression:
        """The text of ``timestamp '2026-01-01T10:00:00Z'``."""
        token = self._peek
        self._next += 1
        try:
            micros = parse_instant(token.text[1:-1])
        except ValueError as e:
            raise self._error(f"{token.text[:40]} is {e},", token.at) from None
        return Literal(micros, time_literal(micros))


def _literal(expression: Expression) -> str | int | bool | Decimal | None:
    return expression.value if isinstance(expression, Literal) else None


def _with_times(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The arguments; if one is a time, with texts of times as times."""
    is_time = any(argument.type.kind is Kind.TIME for argument in arguments)
    return tuple(map(_as_time, arguments)) if is_time else arguments


def _as_time(argument: Expression) -> Expression:
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        return argument
    try:
        micros = parse_instant(argument.value)
    except ValueError:
        return argument
    return Literal(micros, time_literal(micros))
