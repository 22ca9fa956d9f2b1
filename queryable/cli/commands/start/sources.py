"""`queryable sources`: the schemas of sources, from a registry."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import NOT_FOUND
from queryable.cli.optional_dependencies import server_extra
from queryable.cli.options import RegistryURL, ViewsFile


@command
def sources(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE", help="Names of [sources.NAME]. [default: all]"),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Write the newest schemas next to the views file.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace files that this command has not written, too."),
    ] = False,
    views: ViewsFile = None,
    schema_registry: RegistryURL = None,
) -> None:
    """Compare the schemas of sources with a registry, or save them.

    A source whose values are Avro, Protobuf or JSON with a schema has its fields from a file next
    to views.toml. The file names the subject and the version of its schema, so all instances and
    Spark read the same fields, and a new version counts when you have saved it. The subject is
    TOPIC-value, or `subject` of the source. The registry is that of [schemas].

    Without --save, exits with 1 if a file is missing, or if the registry has newer fields.

    \b
    Examples:
      queryable sources
      queryable sources orders --save
      queryable sources --save --schema-registry http://registry:8081
    """
    with server_extra("sources"):
        from queryable.cli.start import source_files
    path = views or Path(os.environ.get("QUERYABLE_VIEWS", "views.toml"))
    declared = source_files.read_sources(path, names or [], schema_registry)
    is_complete = True
    for schema in declared.schemas:
        comparison = source_files.compared_with(schema, path, declared.registry)
        if save:
            print(source_files.save(comparison, path, force=force), flush=True)
        else:
            print(source_files.state_text(comparison), flush=True)
            is_complete = is_complete and source_files.is_newest(comparison)
    if not is_complete:
        raise SystemExit(NOT_FOUND)
