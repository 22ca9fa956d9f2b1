"""Questions before a command does something that cannot be undone."""

from __future__ import annotations

import sys

import typer

from queryable.client.protocol.errors import BadUse


def is_confirmed(question: str) -> bool:
    """Whether the user says yes. Raises BadUse if there is no terminal."""
    if not is_interactive():
        raise BadUse("Give --yes: there is no terminal on which to ask.")
    return typer.confirm(question)


def is_interactive() -> bool:
    return sys.stdin.isatty()
