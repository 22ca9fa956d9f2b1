"""Asks the user about fields that could not be inferred."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from model.formats.registry import FORMATS, KEY_CODECS, SCHEMA_FORMATS, VALUE_CODECS
from model.kinds.calendar_windows import parse_unit
from model.kinds.registry import KINDS
from model.partitioner import PARTITIONERS
from model.times import parse_duration
from model.views import ANY_PARTITION, NEWEST, PARTIAL
from queryable.cli.answers import read_answer
from queryable.cli.exit_codes import print_stderr
from queryable.cli.inspection.inference import Inference
from queryable.client.protocol.errors import BadUse

Ask = Callable[[str, str, Inference], str | None]
"""(topic, field, inferred) -> the answer; None: keep the inferred value, and mark it."""

NO_VALUE = "-"
"""The answer that omits an optional field."""

_NEEDS_SCHEMA = tuple(schema_format.name for schema_format in SCHEMA_FORMATS)
_CHOICES: Mapping[str, Sequence[str]] = {
    "key": tuple(KEY_CODECS),
    "value": tuple(VALUE_CODECS),
    "store": tuple(KINDS),
    "partitioner": (*PARTITIONERS, ANY_PARTITION),
    "same_key": (PARTIAL, NEWEST),
}


def no_answer(topic: str, field: str, inferred: Inference) -> None:
    """Does not ask: keeps the inferred value."""


def ask_on_terminal(topic: str, field: str, inferred: Inference) -> str:
    """Asks until the answer is valid; an empty answer accepts the inferred value. Raises BadUse at
    the end of the input."""
    choices = _choices(field, inferred)
    shown = choices or ("a duration such as 10m", f"{NO_VALUE} for none")
    print_stderr(f"{topic}: {field}? {inferred.reason} ({', '.join(shown)})")
    default = inferred.value or NO_VALUE
    while True:
        answer = read_answer(field, default)
        if answer is None:
            raise BadUse("The input has ended. Give --yes to keep what is likely, without answers.")
        if not (error := _error(field, answer, choices)):
            return answer
        print_stderr(error)


def schema_of(answer: str | None, inferred: Inference) -> str | None:
    """What `key_schema` or `value_schema` is, if the user has answered with a format."""
    has_schema = answer in FORMATS and "schema" in FORMATS[answer].fields
    return inferred.schema if has_schema else None


def _choices(field: str, inferred: Inference) -> Sequence[str]:
    """The possible answers; empty if the field is a duration. A format with schemas is one if the
    records name them: otherwise, it needs a file."""
    choices = _CHOICES.get(field, ())
    return choices if inferred.schema is None else (*choices, *_NEEDS_SCHEMA)


def _error(field: str, answer: str, choices: Sequence[str]) -> str:
    if choices:
        if answer in choices:
            return ""
        listed = ", ".join(choices)
        if answer in _NEEDS_SCHEMA and field in ("key", "value"):
            return (
                f"The records do not name their schema, so {answer} needs a file: set "
                f"{field}_schema in the views file (docs/reference/formats.md). Now use {listed}."
            )
        return f"Unknown {field} {answer!r}. Use {listed}."
    if answer == NO_VALUE:
        return ""
    try:
        if field != "window_size" or parse_unit(answer) is None:
            parse_duration(answer)
    except ValueError as error:
        return str(error)
    return ""
