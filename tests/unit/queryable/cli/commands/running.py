"""Runs commands against a fake server."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from queryable.cli.app import app


def run(url: str, *arguments: str, input: str | None = None) -> Result:
    """The result of a command that asks `url`."""
    environment = {"QUERYABLE_URL": url, "QUERYABLE_CONFIG": "/dev/null"}
    return CliRunner().invoke(app, arguments, env=environment, input=input)
