"""`queryable check`: check a set-up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from queryable.cli.check.findings import has_errors
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import NOT_FOUND
from queryable.cli.optional_dependencies import server_extra
from queryable.cli.options import Brokers, SampleSize, ViewsFile
from queryable.cli.output import DocumentOutput


@command
def check(
    *,
    views: ViewsFile = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The data folder. [default: QUERYABLE_DATA_DIR, else data]"
        ),
    ] = None,
    brokers: Brokers,
    records: SampleSize = 500,
    production: Annotated[
        bool, typer.Option("--production", help="Also check what a production deployment needs.")
    ] = False,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit", metavar="NAME", help="Check the backend that this unit of systemd starts."
        ),
    ] = None,
    env_file: Annotated[
        list[Path] | None,
        typer.Option(
            "--env-file",
            metavar="FILE",
            help="Check a backend with the settings of this file; repeat it for several files.",
        ),
    ] = None,
    output: DocumentOutput,
) -> None:
    """Check settings, views file, broker, topics and machine.

    Prints one line per finding: ok, warning or wrong, with what to do. Reads settings as a backend
    does: from the environment of the shell, from a unit of systemd, or from files as in its
    EnvironmentFile=. In a folder of `queryable serve`, checks its first backend, unless options or
    the shell name a deployment. Changes nothing. Exits with 1 if a finding is wrong.

    \b
    Examples:
      queryable check
      queryable check --views views.toml --bootstrap-servers broker:9092
      queryable check --production
      queryable check --production --unit queryable-backend@b1
      queryable check --env-file settings --env-file b1
      queryable check --json | grep -v '"ok"'
    """
    with server_extra("check"):
        from queryable.cli.check.all_checks import check_all
        from queryable.cli.check.target import find_target
    target = find_target(env_file or [], unit, views is not None or data_dir is not None)
    overrides = {
        # relative to this folder, not to that of the unit
        "views": views.absolute() if views and target.folder else views,
        "data_dir": data_dir.absolute() if data_dir and target.folder else data_dir,
        "bootstrap_servers": brokers.bootstrap_servers,
    }
    findings = []
    with target.applied():
        for finding in check_all(target, overrides, records, brokers.seconds, production):
            findings.append(finding)
            output.show(finding.row(), finding.line())
    if has_errors(findings):
        raise SystemExit(NOT_FOUND)
