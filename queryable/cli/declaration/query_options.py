"""The options of queries.

The commands, their help and completion, the arguments of the client's calls and the names of
options in error messages come from this module. An option for all queries of whole views is one
entry of `QUERY_OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Annotated, Any, get_args

import typer

from model.kinds.registry import kind_of
from queryable import View
from queryable.cli.declaration.checks import check_duration, one_of
from queryable.cli.values import parse_value
from queryable.client.protocol.errors import BadUse
from queryable.client.protocol.parameters import Order, OrderBy, Stale

TIMED = ("windows", "sessions")
"""The queries of views whose rows have times."""

LISTS = ("scan", *TIMED, "versions")
"""The queries that read rows page by page."""

WHOLE_VIEW = ("scan", *TIMED, "top", "aggregate", "count")
"""The queries of all entries of a view."""


def _prefix(text: str, view: View) -> str | bytes:
    """A prefix of keys. The client rejects it for formats without prefixes."""
    prefix: str | bytes = parse_value(text, view.key, "--prefix") if view.key.has_prefixes else text
    return prefix


def _bound(flag: str) -> Callable[[str, View], Any]:
    return lambda text, view: parse_value(text, view.key, flag)


@dataclass(frozen=True, slots=True)
class QueryOption:
    """An option of queries.

    `name`: the parameter of the client's call. The option has the same name, with dashes.
    `queries`: the queries that take it. `metavar`: empty for a flag, which has no value.
    `histories`: the histories (`Kind.history`) of views that take it; empty for all views.
    `is_bound`: the query has fewer rows with the option. `parse`: converts the option's value to
    the parameter's, if this depends on the view. `settings`: more settings of typer.Option.
    """

    name: str
    queries: Sequence[str]
    metavar: str
    help: str
    type: Any = str
    default: Any = None
    histories: Sequence[str] = ()
    is_bound: bool = False
    parse: Callable[[Any, View], Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def flag(self) -> str:
        return f"--{self.name.rstrip('_').replace('_', '-')}"

    def declared(self) -> Parameter:
        """The option as a parameter of a command."""
        type_, default = (self.type, self.default) if self.metavar else (bool, False)
        option = typer.Option(
            self.flag, metavar=self.metavar or None, help=self.help, **self.settings
        )
        return Parameter(
            self.name,
            Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[type_ if default is not None else type_ | None, option],
        )

    @property
    def depends_on_view(self) -> bool:
        return bool(self.parse or self.histories)

    def value_for(self, value: Any, view: View) -> Any:
        """The value of the call's parameter. Raises BadUse if the view does not take the option, or
        not this value."""
        kind = kind_of(view.store)
        if self.histories and not kind.is_custom and kind.history not in self.histories:
            raise BadUse(
                f"{self.flag} is for views with {' or '.join(self.histories)}; view {view.name} "
                f"has a {view.store} store."
            )
        return self.parse(value, view) if self.parse else value


_FIRST, _LAST = "First key, included.", "Last key, included."
_SINCE = "Lower bound, included: ISO 8601 with a time zone, or epoch ms."
_UNTIL = "Upper bound, included."
_ORDERS = ", ".join(get_args(OrderBy))

QUERY_OPTIONS = (
    QueryOption("from_", ["scan"], "KEY", _FIRST, parse=_bound("--from"), is_bound=True),
    QueryOption("to", ["scan"], "KEY", _LAST, parse=_bound("--to"), is_bound=True),
    QueryOption(
        "prefix", ["scan"], "PREFIX", "Only keys with this prefix (string and bytes keys).",
        parse=_prefix, is_bound=True,
    ),
    QueryOption(
        "prefix", ["watch"], "PREFIX", "Watch all keys with this prefix, instead of KEY.",
        parse=_prefix, is_bound=True,
    ),
    QueryOption(
        "by", ["top"], "FIELD",
        "Field of the value to rank by, such as a.b. [default: the value itself]",
    ),
    QueryOption(
        "by", ["aggregate"], "FIELD",
        "Fields of the value to group by, such as a,b.c. [default: one group of all entries]",
    ),
    QueryOption(
        "value", ["aggregate"], "FIELD",
        "Fields with numbers. [default: the value itself, if it is a number]",
    ),
    QueryOption("from_", [*TIMED, "versions"], "TIME", _SINCE, is_bound=True),
    QueryOption("to", [*TIMED, "versions"], "TIME", _UNTIL, is_bound=True),
    QueryOption("from_", ["top", "aggregate"], "TIME", _SINCE, histories=TIMED, is_bound=True),
    QueryOption("to", ["top", "aggregate"], "TIME", _UNTIL, histories=TIMED, is_bound=True),
    QueryOption("key_from", TIMED, "KEY", _FIRST, parse=_bound("--key-from"), is_bound=True),
    QueryOption("key_to", TIMED, "KEY", _LAST, parse=_bound("--key-to"), is_bound=True),
    QueryOption(
        "order_by", ["top"], "NUMBER",
        f"The number of a key in a view of windows or sessions: {_ORDERS}. [default: sum]",
        histories=TIMED, settings=one_of(*get_args(OrderBy)),
    ),
    QueryOption(
        "order_by", ["aggregate"], "NUMBER",
        f"Order groups by a number: {_ORDERS}; or avg(a), for several fields. [default: sum, or "
        "entries without numbers]",
    ),
    QueryOption(
        "order", ["aggregate"], "ORDER", "Order groups by a number: desc or asc.",
        settings=one_of(*get_args(Order)),
    ),
    QueryOption(
        "limit", ["aggregate"], "N", "Maximum number of groups, ordered by a number.", int,
        settings={"min": 1, "max": 1000},
    ),
    QueryOption(
        "order", LISTS, "ORDER", "asc or desc.", default="asc", settings=one_of(*get_args(Order)),
    ),
    QueryOption(
        "order", ["top"], "ORDER", "asc or desc.", default="desc",
        settings=one_of(*get_args(Order)),
    ),
    QueryOption("limit", LISTS, "N", "Maximum number of rows.", int, settings={"min": 1}),
    QueryOption(
        "limit", ["top"], "N", "Maximum number of rows.", int, 10,
        settings={"min": 1, "max": 1000},
    ),
    QueryOption(
        "where", [*WHOLE_VIEW, "fields"], "CONDITION",
        "Only entries that meet it: \"dest = 'ATL'\".", is_bound=True,
    ),
    QueryOption(
        "order_by", ["scan", *TIMED], "FIELD", "Order by a field: an index must have this order.",
    ),
    QueryOption("select", ["scan", *TIMED], "FIELDS", "Fields of the values, such as a,b.c."),
    QueryOption(
        "max_examined", ["top", "aggregate", "count"], "N", "Read this many entries at most.", int,
        settings={"min": 1},
    ),
    QueryOption("stream", ["scan"], "", "Use one stream, not pages: costs the instances less."),
    QueryOption("exact", ["count"], "", "Count every entry of any view."),
    QueryOption(
        "as_of", ["get"], "TIME",
        "The value that was valid at this time: ISO 8601 or epoch ms. Versioned views.",
        histories=["versions"],
    ),
    QueryOption(
        "max_lag", ["get"], "RECORDS", "Reject answers further behind.", int, settings={"min": 0},
    ),
    QueryOption(
        "max_staleness", ["get"], "DURATION", "Reject older answers: 500ms, 5s, 1m.",
        settings={"callback": check_duration},
    ),
    QueryOption(
        "stale", ["get", "versions", *WHOLE_VIEW], "MODE",
        "allow: also from partitions that are still being restored; never: from the active only.",
        settings=one_of(*get_args(Stale)),
    ),
    QueryOption(
        "headers", ["get"], "", "Print the headers of the record, and when it was written.",
    ),
)  # fmt: skip


def options_of(query: str) -> list[QueryOption]:
    """The options of a query, in the order of its help."""
    return [option for option in QUERY_OPTIONS if query in option.queries]
