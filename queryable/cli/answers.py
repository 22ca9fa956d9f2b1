"""Answers that users type. Questions are on stderr, because stdout has the results."""

from __future__ import annotations

import sys

from queryable.cli.exit_codes import print_stderr


def read_answer(question: str, default: str = "") -> str | None:
    """The next line, without blanks at its ends; `default` if it is empty. None at the end of the
    input."""
    shown = f" [{default}]" if default else ""
    # typer's prompt writes to stdout, which is perhaps no terminal
    print(f"{question}{shown}: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print_stderr("")
        return None
    return line.strip() or default
