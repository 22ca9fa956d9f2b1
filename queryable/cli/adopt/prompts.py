"""Asks the user about fields that could not be inferred."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from model.formats.registry import KEY_CODECS, VALUE_CODECS
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
    choices = _CHOICES.get(field, ("a duration such as 10m", f"{NO_VALUE} for none"))
    print_stderr(f"{topic}: {field}? {inferred.reason} ({', '.join(choices)})")
    default = inferred.value or NO_VALUE
    while True:
        answer = read_answer(field, default)
        if answer is None:
            raise BadUse("The input has ended. Give --yes to keep what is likely, without answers.")
        if not (error := _error(field, answer)):
            return answer
        print_stderr(error)


def _error(field: str, answer: str) -> str:
    if field in _CHOICES:
        choices = _CHOICES[field]
        return "" if answer in choices else f"Unknown {field} {answer!r}. Use {', '.join(choices)}."
    if answer == NO_VALUE:
        return ""
    try:
        parse_duration(answer)
    except ValueError as error:
        return str(error)
    return ""
