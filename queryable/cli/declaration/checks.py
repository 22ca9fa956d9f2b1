"""Checks of the texts that are given for arguments and options."""

from __future__ import annotations

from typing import Any

import typer

from model.times import parse_duration


def one_of(*names: str) -> dict[str, Any]:
    """The settings of an argument or option that must have one of these values."""

    def check(text: str | None) -> str | None:
        if text is not None and text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}.")
        return text

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return {"callback": check, "autocompletion": complete}


def check_duration(text: str | None) -> str | None:
    """A callback of options with a duration."""
    try:
        if text is not None:
            parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None
    return text
