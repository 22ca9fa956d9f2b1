"""The questions of `queryable init`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from queryable.cli.answers import read_answer
from queryable.cli.exit_codes import print_stderr
from queryable.client.protocol.errors import BadUse

_MAX_LISTED = 40


def ask_text(question: str, default: str = "") -> str:
    """The answer, or the default; asks until there is one. Raises BadUse at the end of input."""
    while True:
        answer = read_answer(question, default)
        if answer is None:
            raise BadUse("The input ended before all questions were answered.")
        if answer:
            return answer


def ask_topic(topics: Mapping[str, int]) -> str:
    """One of the topics, by name or number."""
    names = sorted(topics)
    for number, name in enumerate(names[:_MAX_LISTED], 1):
        print_stderr(f"{number:>4}  {name} ({partitions_text(topics[name])})")
    if len(names) > _MAX_LISTED:
        print_stderr(f"      … and {len(names) - _MAX_LISTED} more")
    while True:
        answer = ask_text("Topic (name or number)", names[0] if len(names) == 1 else "")
        if answer in topics:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= min(len(names), _MAX_LISTED):
            return names[int(answer) - 1]
        print_stderr(f"There is no topic {answer}{did_you_mean(answer, names)}")


def ask_choice(question: str, choices: Sequence[str]) -> str:
    """One of the choices, by its name or first letter."""
    while True:
        answer = ask_text(f"{question} ({', '.join(choices)})").lower()
        for choice in choices:
            if answer in (choice, choice[0]):
                return choice
        print_stderr(f"Answer one of {', '.join(choices)}.")


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """The end of a sentence: a hint at the name that was probably meant, or a full stop."""
    matches = difflib.get_close_matches(name, names, 1, 0.6)
    return f"; did you mean {matches[0]}?" if matches else "."


def partitions_text(partitions: int) -> str:
    return f"{partitions} partition{'s' if partitions != 1 else ''}"
