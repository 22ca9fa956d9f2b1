"""Questions before a command does something that cannot be undone."""

from __future__ import annotations

import sys

from queryable.cli.answers import read_answer
from queryable.cli.exit_codes import print_stderr
from queryable.client.protocol.errors import BadUse


def is_confirmed(question: str) -> bool:
    """Whether the user says yes. Raises BadUse if there is no terminal."""
    if not is_interactive():
        raise BadUse("Give --yes: there is no terminal on which to ask.")
    while True:
        answer = (read_answer(f"{question} [y/N]") or "").lower()
        if answer in ("y", "yes"):
            return True
        if answer in ("", "n", "no"):
            return False
        print_stderr("Answer y or n.")


def is_interactive() -> bool:
    return sys.stdin.isatty()
