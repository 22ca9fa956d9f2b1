"""The normal form of a table ``derive``. Tables with the same normal form are the same rule."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from model.derive.maps import STREAM
from model.derive.old_names import stored_name
from model.derive.schema_fields import JSON, TEXT

_QUOTED_OR_SPACE = re.compile(r"""('(?:[^']|'')*'|"[^"]*")|((?<=\w)\s+(?=\w))|\s+""")


def normal_form(table: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The keys of the table in alphabetical order, each with its value as JSON.

    White space in expressions does not count. The order of names in a value does: it is the order
    of the columns in Spark's state. The form must be the same in all releases, because it is stored
    in checkpoints. So it has neither defaults nor anything else that a parser adds, and keys have
    their earliest names. Joins are the exception: the first ones were static and did not
    say so. So ``static = true`` is left out, and other joins have ``static = false``.
    """
    stored = {stored_name(key): value for key, value in table.items()}
    if stored.get("kind") == STREAM:
        del stored["kind"]  # the default
    if stored.get("format") in (JSON, TEXT):
        del stored["format"]  # it follows from fields
    if "join" in stored:
        stored["join"] = {name: _stored_join(join) for name, join in stored["join"].items()}
    return tuple((key, json.dumps(_normal(stored[key]))) for key in sorted(stored))


def _stored_join(join: Mapping[str, Any]) -> dict[str, Any]:
    stored = {key: value for key, value in join.items() if key != "static"}
    if stored.get("format") == JSON:
        del stored["format"]
    return stored if join.get("static") else {**stored, "static": False}


def _normal(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _normal(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_normal(part) for part in value]
    return _without_space(value) if isinstance(value, str) else value


def _without_space(text: str) -> str:
    """The text without white space outside of quotes, except one space between two words. A text
    that is only white space, such as a separator, stays."""
    shortened = _QUOTED_OR_SPACE.sub(lambda match: match[1] or (" " if match[2] else ""), text)
    return shortened or text
