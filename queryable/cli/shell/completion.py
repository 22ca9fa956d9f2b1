"""Completion in the shell: of commands and options, and of arguments as in other shells
(`queryable --install-completion`)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from queryable.cli.output import OUTPUTS

_QUOTED = " \t\n'\"\\"


class Completer:
    """`group`: the commands. `before`: the options before each command."""

    def __init__(self, group: Any, before: Sequence[str] = ()) -> None:
        self._group = group
        self._before = before

    def complete(self, before: str, word: str) -> list[str]:
        """The words that may replace `word`, which follows the text `before`; as they are typed,
        with a space after them."""
        try:
            words = shlex.split(before)
        except ValueError:  # an open quote
            return []
        return [
            f"{_quoted(candidate)} "
            for candidate in self._candidates(words, word)
            if candidate.startswith(word)
        ]

    def _candidates(self, words: list[str], word: str) -> Sequence[str]:
        own_words = {"help": sorted(self._group.commands), "output": list(OUTPUTS), "exit": []}
        if not words:
            return sorted([*self._group.commands, *own_words])
        if words[0] in own_words:
            return own_words[words[0]] if len(words) == 1 else ()
        if words[0] not in self._group.commands:
            return ()
        name, *arguments = words
        root = self._group.make_context("queryable", [*self._before, name], resilient_parsing=True)
        command = self._group.commands[name]
        context = command.make_context(name, arguments, parent=root, resilient_parsing=True)
        parameters = command.get_params(context)
        if word.startswith("-"):
            return sorted(
                name for parameter in parameters for name in parameter.opts if name[:2] == "--"
            )
        for parameter in sorted(
            parameters, key=lambda parameter: parameter.param_type_name == "argument"
        ):
            if _is_next(parameter, context, arguments[-1:]):
                completions = parameter.shell_complete(context, word)
                return [item.value for item in completions if item.type == "plain"]
        return ()


def _is_next(parameter: Any, context: Any, last_words: Sequence[str]) -> bool:
    """Whether the next word is for this option, whose name is the last word, or else for this
    argument."""
    if parameter.param_type_name == "option":
        return not parameter.is_flag and any(name in last_words for name in parameter.opts)
    is_given = context.get_parameter_source(parameter.name).name == "COMMANDLINE"
    return parameter.nargs == -1 or not is_given


def _quoted(text: str) -> str:
    return (
        shlex.quote(text) if any(character in text for character in _QUOTED) or not text else text
    )
