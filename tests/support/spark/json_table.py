"""The table of cases of JSON (tests/vectors/json_cases.py) for decoders of fields: what becomes of
the field v of each value, by the type of the field."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from model.expressions.types import parse_field_type
from model.expressions.values import not_of_type
from tests.vectors.json_cases import BAD, CASES, GOOD, REASONS, document, verdicts

TYPES = ("string", "boolean", "double", "int", "long")

Outcome = dict[str, Any] | str
"""The fields, or the reason. Of a wanted reason only the beginning."""


class Case(NamedTuple):
    name: str
    value: bytes
    outcomes: dict[str, Outcome]
    """By type."""
    is_whole: bool = False
    """Whether the text is the whole value, instead of the field v."""


def cases() -> Iterator[Case]:
    """Each text as the field v, and as the whole value."""
    found = verdicts()
    for name, text in CASES.items():
        whole = document(name)
        if name in GOOD:
            in_go = found[name]["in_go"]
            yield Case(name, whole, {each: _outcome(in_go, each) for each in TYPES})
            if not text.strip().startswith(b"{"):
                reason = "value: not a JSON object"
                yield Case(f"{name}, alone", text, dict.fromkeys(TYPES, reason), True)
    for name, text in BAD.items():
        reason = "value: not UTF-8" if REASONS.get(name) == "not UTF-8" else "value: not JSON"
        yield Case(name, document(name), dict.fromkeys(TYPES, reason))
        yield Case(f"{name}, alone", text, dict.fromkeys(TYPES, reason), True)


def is_outcome(found: Outcome, wanted: Outcome) -> bool:
    if isinstance(wanted, str):
        return isinstance(found, str) and found.startswith(wanted)
    return repr(found) == repr(wanted)  # because -0.0 == 0.0, and 1 == True


def _outcome(in_go: dict[str, Any], type_: str) -> Outcome:
    if type_ not in in_go:
        return f"v: {not_of_type(parse_field_type(type_))}"
    value = in_go[type_]
    if type_ == "double" and value is not None:
        value = struct.unpack(">d", bytes.fromhex(value))[0] + 0.0  # never -0.0
    return {"v": value}
