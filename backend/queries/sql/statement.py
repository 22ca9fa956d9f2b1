"""The statements of `POST /sql`: `select` from one view.

    select dest, count(*), avg(delay) as mean from flights
    where delay > ? group by dest order by mean desc limit 10

A statement has the words of SQL around a condition in the language of `where`
(`model/expressions/parser.py`), which is taken as it is. So a condition means the same in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

from backend.queries.sql.literals import literal
from model.expressions.tokens import Token, tokens

MAX_CHARACTERS = 8_000
MAX_COLUMNS = 100
MAX_LIMIT_DIGITS = 15
FUNCTIONS = ("count", "sum", "min", "max", "avg")

_CLAUSES = ("select", "from", "where", "group by", "having", "order by", "limit")
_WORDS = frozenset(
    {"select", "from", "where", "group", "having", "order", "by", "limit", "as", "asc", "desc"}
    | {"nulls", "distinct", "join", "union", "offset", "on", "and", "or", "not", "fetch"}
)
_INSTEAD = {
    "distinct": "write group by with the same fields",
    "having": "compare the groups in your program",
    "join": "a statement has one view: derive one of both or use queryable sql --local",
    "union": "send two statements",
    "offset": "read the next page with the cursor in next",
    "fetch": "write limit 10",
    "with": "a statement has one view and no subqueries",
    "(": "a statement has one view and no subqueries",
    "over": "there are no window functions",
    **dict.fromkeys(
        ("insert", "update", "delete", "create", "drop", "alter"), "views are read-only"
    ),
}


class StatementError(ValueError):
    """A statement that is not supported. The text says what, where, and what to write."""


@dataclass(frozen=True)
class Column:
    """A column of the result. `field`: the name of a part of entries; None for `count(*)`.
    `function`: one of FUNCTIONS; None for the field itself."""

    name: str
    field: str | None
    function: str | None = None


@dataclass(frozen=True)
class Order:
    """`column`: the name of a column or a field. `nulls_first`: None if it is not written."""

    column: str
    descending: bool
    nulls_first: bool | None


@dataclass(frozen=True)
class Statement:
    """`columns`: empty for `select *`. `where`: the condition, with its parameters. `group_by`:
    names of fields."""

    view: str
    columns: tuple[Column, ...]
    where: str | None
    group_by: tuple[str, ...]
    order_by: tuple[Order, ...]
    limit: int | None

    @property
    def is_grouped(self) -> bool:
        return bool(self.group_by) or any(column.function for column in self.columns)


def parse_statement(text: str, parameters: Sequence[object] = ()) -> Statement:
    """`parameters`: the values of `?`, in order: texts, numbers, booleans, or lists of them after
    `in`. Raises StatementError."""
    if len(text) > MAX_CHARACTERS:
        raise StatementError(f"a statement has at most {MAX_CHARACTERS} characters")
    try:
        parsed = tokens(text)
    except ValueError as e:
        raise StatementError(str(e)) from None
    _check_tokens(parsed)
    return _Parser(text, parsed, parameters).statement()


def _check_tokens(parsed: Sequence[Token]) -> None:
    """Raise StatementError if SQL means one thing by what are two tokens here."""
    for first, second in pairwise(parsed):
        if second.at != first.at + len(first.text):
            continue
        if first.text == second.text == "-":
            raise StatementError(f"unexpected -- at character {first.at}: there are no comments")
        if first.kind == second.kind == "name":
            raise StatementError(
                f"unexpected {second.text[:40]} at character {second.at}: a name in quotes has no "
                "quotes in it"
            )


class _Parser:
    """Reads a statement from left to right."""

    def __init__(self, text: str, tokens: list[Token], parameters: Sequence[object]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0
        self._parameters = list(parameters)
        self._used = 0
        self._prefixes: tuple[str, ...] = ()

    def statement(self) -> Statement:
        if self._word != "select":
            self._refuse(self._peek, "a statement begins with select")
        self._next += 1
        columns_at = self._next
        self._skip_to_from()
        view = self._view()
        after_view = self._next
        # the names of columns may have the name of the view before them, which is known now
        self._next = columns_at
        columns = self._columns()
        self._next = after_view
        where = self._where() if self._take("where") else None
        group_by = self._groups(columns) if self._take("group", "by") else ()
        if self._word == "having":
            self._refuse(self._peek)
        order_by = self._orders(columns) if self._take("order", "by") else ()
        limit = self._limit() if self._take("limit") else None
        if self._peek.text == ";":
            self._next += 1
        if self._peek.kind != "end":
            self._refuse(self._peek)
        if self._used < len(self._parameters):
            raise StatementError(
                f"the statement has {self._used} times ?, and there are {len(self._parameters)} "
                "parameters"
            )
        statement = Statement(view, columns, where, group_by, order_by, limit)
        _check(statement)
        return statement

    # Tokens

    @property
    def _peek(self) -> Token:
        return self._tokens[self._next]

    @property
    def _word(self) -> str:
        """The next token in lower case, if it is a word or a symbol."""
        return self._peek.text.lower() if self._peek.kind in ("name", "symbol") else ""

    def _take(self, *words: str) -> bool:
        """Take these words, if they come next."""
        found = [token.text.lower() for token in self._tokens[self._next : self._next + len(words)]]
        if found != list(words):
            return False
        self._next += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            self._refuse(self._peek, f"expected {word}")

    def _refuse(self, token: Token, expected: str = "") -> NoReturn:
        shown = token.text[:40] or "the end"
        what = f"{expected}, not {shown}" if expected else f"unexpected {shown}"
        hint = _INSTEAD.get(token.text.lower())
        if hint is None and expected.startswith("expected a field") and token.kind == "name":
            hint = f"a field of this name is value.{token.text}"
        raise StatementError(f"{what} at character {token.at}" + (f": {hint}" if hint else ""))

    # Clauses

    def _skip_to_from(self) -> None:
        depth = 0
        while self._word != "from" or depth:
            if self._peek.kind == "end":
                self._refuse(self._peek, "expected from and the name of a view")
            depth += {"(": 1, ")": -1}.get(self._peek.text, 0)
            self._next += 1
        self._next += 1

    def _view(self) -> str:
        """The name of the view, which may have hyphens, and its alias."""
        first = self._peek
        is_longer = first.kind == "name" and self._tokens[self._next + 1].text in ("-", "@")
        if first.kind != "name" or (self._word in _WORDS and not is_longer):
            self._refuse(first, "expected the name of a view")
        self._next += 1
        name, end = _unquoted(first.text), first.at + len(first.text)
        while not first.text.startswith('"') and self._peek.text in ("-", "@"):
            part = self._tokens[self._next + 1]
            if self._peek.at != end or part.at != end + 1 or part.kind not in ("name", "number"):
                break
            name += self._peek.text + part.text
            end = part.at + len(part.text)
            self._next += 2
        self._take("as")
        alias: tuple[str, ...] = ()
        if self._peek.kind == "name" and self._word not in _WORDS:
            alias = (self._peek.text,)
            self._next += 1
        if self._word in (",", "join", "inner", "left", "right", "full", "cross"):
            self._refuse(self._peek._replace(text="join"))
        self._prefixes = tuple(f"{each}." for each in (*alias, first.text, name))
        return name

    def _columns(self) -> tuple[Column, ...]:
        if self._take("*"):
            if self._word != "from":
                self._refuse(self._peek, "expected from after *")
            return ()
        columns = [self._column()]
        while self._take(","):
            columns.append(self._column())
        if self._word != "from":
            self._refuse(self._peek, "expected a comma, or from")
        if len(columns) > MAX_COLUMNS:
            raise StatementError(f"a statement has at most {MAX_COLUMNS} columns")
        return tuple(columns)

    def _column(self) -> Column:
        begin = self._peek
        field, function = self._value()
        written = self._text[begin.at - 1 : self._end_of_last()]
        name = written if function else _display(field or "")
        if self._take("as"):
            if self._peek.kind != "name":
                self._refuse(self._peek, "expected the name of the column")
            name = _unquoted(self._peek.text)
            self._next += 1
        elif self._peek.kind == "name" and self._word not in _WORDS:
            name = _unquoted(self._peek.text)
            self._next += 1
        return Column(name, field, function)

    def _end_of_last(self) -> int:
        last = self._tokens[self._next - 1]
        return last.at - 1 + len(last.text)

    def _value(self) -> tuple[str | None, str | None]:
        """A field, or a function of a field: the names of both."""
        token = self._peek
        if token.kind != "name" or self._word in _WORDS:
            self._refuse(token, "expected a field, or count, sum, min, max or avg of one")
        self._next += 1
        if self._peek.text != "(":
            return self._without_prefix(token.text), None
        function = token.text.lower()
        if function not in FUNCTIONS:
            raise StatementError(
                f"unknown function {token.text[:40]} at character {token.at}: columns are fields, "
                f"and {', '.join(FUNCTIONS)} of them"
            )
        self._next += 1
        if function == "count" and self._take("*"):
            field = None
        elif self._peek.kind == "name" and self._word not in _WORDS:
            field = self._without_prefix(self._peek.text)
            self._next += 1
        else:
            self._refuse(self._peek, "expected a field")
        self._expect(")")
        return field, function

    def _groups(self, columns: Sequence[Column]) -> tuple[str, ...]:
        names = [self._group(columns)]
        while self._take(","):
            names.append(self._group(columns))
        return tuple(names)

    def _group(self, columns: Sequence[Column]) -> str:
        """The name of a field, of a column that is a field, or the number of such a column."""
        if self._peek.kind != "number":
            name = self._name()
            aliases = {c.name: c.field for c in columns if c.function is None and c.field}
            return aliases.get(_unquoted(name)) or name
        token = self._peek
        column = self._numbered(columns)
        if column.field is None or column.function is not None:
            self._refuse(token, "expected the number of a column that is a field")
        return column.field

    def _numbered(self, columns: Sequence[Column]) -> Column:
        token = self._peek
        self._next += 1
        number = int(token.text) if token.text.isdecimal() and len(token.text) < 4 else 0
        if not 1 <= number <= len(columns):
            self._refuse(token, f"expected a column from 1 to {len(columns)}")
        return columns[number - 1]

    def _name(self) -> str:
        token = self._peek
        if token.kind != "name" or self._word in _WORDS:
            self._refuse(token, "expected a field")
        self._next += 1
        if self._peek.text == "(":
            self._refuse(self._peek._replace(text=token.text), "expected a field")
        return self._without_prefix(token.text)

    def _without_prefix(self, name: str) -> str:
        for prefix in self._prefixes:
            if name.startswith(prefix):
                return name[len(prefix) :]
        return name

    def _where(self) -> str:
        """The text of the condition, up to the next clause."""
        begin = self._peek
        if begin.kind == "end":
            self._refuse(begin, "expected a condition")
        pieces: list[str] = []
        position, depth = begin.at - 1, 0
        while depth or not self._is_at_clause():
            token = self._peek
            if token.kind == "end":
                break
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            text = token.text
            if text == "?":
                text = self._parameter(token)
            elif token.kind == "name" and self._tokens[self._next + 1].text != "(":
                text = self._without_prefix(text)
            pieces.append(self._text[position : token.at - 1] + text)
            position = token.at - 1 + len(token.text)
            self._next += 1
        return "".join(pieces)

    def _is_at_clause(self) -> bool:
        """Whether the next words begin a clause. Fields may be named as these words, too."""
        following = self._tokens[self._next + 1].text.lower() if self._peek.kind != "end" else ""
        match self._word:
            case "group" | "order":
                return following == "by"
            case "limit":
                return following == "?" or self._tokens[self._next + 1].kind == "number"
            case "having" | ";":
                return True
            case _:
                return self._peek.kind == "end"

    def _parameter(self, token: Token) -> str:
        try:
            value = literal(self._take_parameter())
        except ValueError as e:
            raise StatementError(f"parameter {self._used}, at character {token.at}: {e}") from None
        # a value must not become a part of a token next to it
        before = self._text[token.at - 2]
        after = self._text[token.at : token.at + 1]
        return " " * _may_join(before) + value + " " * _may_join(after)

    def _take_parameter(self) -> object:
        if self._used == len(self._parameters):
            raise StatementError(
                f"the statement has more than {self._used} times ?, and there are {self._used} "
                "parameters"
            )
        self._used += 1
        return self._parameters[self._used - 1]

    def _orders(self, columns: Sequence[Column]) -> tuple[Order, ...]:
        orders = [self._order(columns)]
        while self._take(","):
            orders.append(self._order(columns))
        return tuple(orders)

    def _order(self, columns: Sequence[Column]) -> Order:
        is_number = self._peek.kind == "number"
        column = self._numbered(columns).name if is_number else self._ordered(columns)
        descending = self._take("desc")
        if not descending:
            self._take("asc")
        nulls_first = None
        if self._take("nulls"):
            nulls_first = self._take("first")
            if not nulls_first:
                self._expect("last")
        return Order(column, descending, nulls_first)

    def _ordered(self, columns: Sequence[Column]) -> str:
        """The name of the column to order by; of a field, if no column has it."""
        token = self._peek
        aliases = [column.name for column in columns]
        field, function = self._value()
        if function is None and _unquoted(token.text) in aliases:
            return _unquoted(token.text)
        for column in columns:
            if (column.field, column.function) == (field, function):
                return column.name
        if function is not None:
            self._refuse(token, "expected a column of the result: select it to order by it")
        return field or ""

    def _limit(self) -> int:
        token = self._peek
        self._next += 1
        if token.text == "?":
            value = self._take_parameter()
            if type(value) is not int or not 0 <= value < 10**MAX_LIMIT_DIGITS:
                raise StatementError(
                    f"parameter {self._used}: limit needs a whole number that is less than "
                    f"10^{MAX_LIMIT_DIGITS}"
                )
            return value
        if not token.text.isdecimal() or len(token.text) > MAX_LIMIT_DIGITS:
            self._refuse(token, "expected a whole number")
        return int(token.text)


def _check(statement: Statement) -> None:
    """Raise StatementError if the clauses do not go together."""
    names = [column.name for column in statement.columns]
    for name in names:
        if names.count(name) > 1:
            raise StatementError(f"two columns are named {name}: name one of them with as")
    if not statement.is_grouped:
        return
    if not statement.columns:
        raise StatementError("group by needs the names of columns instead of *")
    for column in statement.columns:
        if column.function is None and column.field not in statement.group_by:
            raise StatementError(
                f"{column.field} is not in group by: add it there, or write max({column.field})"
            )
    for order in statement.order_by:
        if order.column not in names:
            raise StatementError(
                f"order by {order.column}: groups are ordered by columns of the result"
            )


def _may_join(neighbour: str) -> bool:
    """Whether a text that begins or ends with this character may be one token with a value."""
    return neighbour.isalnum() or (neighbour != "" and neighbour in "_.'\"?")


def _unquoted(name: str) -> str:
    """A name without its quotes, if it is a single name in quotes."""
    if name.startswith('"') and name.endswith('"') and name.count('"') == 2:
        return name[1:-1]
    return name


def _display(field: str) -> str:
    """The name of the column of a field."""
    return field.replace('"', "")
