"""The condition of `/views/{view}/by/{field}/{value}`: a field has a value that an index finds."""

from __future__ import annotations

import re

from backend.queries.filters.index_plan import index_of_field
from backend.queries.filters.names import path_of_value
from model.expressions.types import LISTS, Kind, Type, element_type
from model.limits import shown
from model.problems import BadRequest
from model.views import View

_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,14})?", re.ASCII)


def condition_of_value(view: View, field: str, value: str) -> str:
    """The text of the condition. Raises BadRequest if no index begins with the field, or if the
    text is not a value of its type."""
    try:
        path = path_of_value(field)
    except ValueError as e:
        raise BadRequest("bad-parameter", f"The field: {e}.") from None
    index = index_of_field(view, path)
    if index is None:
        known = ", ".join(sorted({index.fields[0].name for index in view.indexes}))
        raise BadRequest(
            "no-index",
            f"View {view.name} has no index that begins with {shown(field)}. First fields of its "
            f"indexes: {known or 'there are none'}.",
        )
    name = "value." + ".".join('"' + part + '"' for part in path)
    return _condition(name, index.fields[0].type, value)


def _condition(name: str, type_: Type, value: str) -> str:
    if type_.kind in LISTS:
        element = element_type(type_)
        if element.kind is Kind.INTEGER and "." in value:
            raise _no_value(type_, value, "a whole number")
        return f"contains({name}, {_literal(element, value)})"
    if type_.kind is Kind.BOOLEAN:
        if value not in ("true", "false"):
            raise _no_value(type_, value, "true or false")
        return name if value == "true" else f"not {name}"
    return f"{name} = {_literal(type_, value)}"


def _literal(type_: Type, value: str) -> str:
    if type_.kind in (Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL):
        if not _NUMBER.fullmatch(value):
            raise _no_value(type_, value, "a number such as 60 or -0.5")
        return value
    quoted = value.replace("'", "''")
    return f"'{quoted}'"


def _no_value(type_: Type, value: str, allowed: str) -> BadRequest:
    return BadRequest(
        "bad-parameter", f"The field is a {type_.kind}, and {shown(value)} is not {allowed}."
    )
