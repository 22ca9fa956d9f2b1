"""Answers that users type. Questions are on stderr, because stdout has the results."""

from __future__ import annotations

import sys

from queryable.cli.exit_codes import print_stderr
from queryable.client.protocol.errors import BadUse


def read_answer(question: str, default: str = "") -> str | None:
    """The next line, without blanks at its ends; `default` if it is empty. None at the end of the
    input."""
    shown = f" [{default}]" if default else ""
    # typer's prompt writes to stdout, which may not be a terminal
    print(f"{question}{shown}: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print_stderr("")
        return None
    return line.strip() or default


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
