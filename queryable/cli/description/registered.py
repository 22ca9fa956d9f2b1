"""The fields that the newest schema of a view's values has in the schema registry."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from model.formats.registry import FORMATS
from model.formats.schemas import CONFLUENT, SchemaNotFound
from model.problems import ConfigurationError
from model.rows.declared_fields import REGISTRY, DeclaredField
from model.schemas_table import parse_schemas, registry_url
from model.toml_lines import TomlErrors
from queryable import View
from queryable.cli.exit_codes import print_stderr
from queryable.cli.optional_dependencies import server_extra
from queryable.client.protocol.errors import BadUse

OPTION = "--schema-registry"


@dataclass(frozen=True, slots=True)
class RegisteredFields:
    """`schema`: the version and the subject, as text; empty if there is no schema."""

    fields: tuple[DeclaredField, ...] = ()
    schema: str = ""


def newest_fields(view: View, registry: str | None) -> RegisteredFields:
    """The fields of the newest schema of a view whose values name their schemas, under the subject
    of the topic; none for other views. `registry`: the URL of the registry; None: that of the views
    file, if there is one. If there are no fields, says why on stderr. Waits for the registry.
    Raises BadUse."""
    format_ = FORMATS.get(view.value.name)
    if format_ is None or view.description.get("value_schema") != CONFLUENT:
        return RegisteredFields()
    url = _registry_of_file() if registry is None else _checked(registry)
    if not url:
        if url is None:
            print_stderr(f"types are from the sample alone: {OPTION} names no registry of schemas")
        return RegisteredFields()
    with server_extra("fields"):
        from model.formats.schema_registry import (
            AUTH_VARIABLE,
            RegistryClient,
            SchemaSourceUnavailable,
        )
        from model.http.requests import send
        from model.kafka.config_providers import resolve_value
        from model.rows.own_fields import declared, row_fields
    subject = f"{view.topic}-value"
    try:
        credentials = os.environ.get(AUTH_VARIABLE, "")
        auth = resolve_value(AUTH_VARIABLE, credentials, open, os.environ)
        origin, schema = RegistryClient(url, auth, send).newest(subject)
        if schema.format is not format_:
            raise ValueError(f"{subject} is {schema.format.name}, not {format_.name}")
        with server_extra("fields"):
            found = format_.registered_fields(schema.text, schema.references)
            fields = declared(row_fields(found, view.description.get("unwrap")), REGISTRY)
    except (SchemaSourceUnavailable, SchemaNotFound, ValueError, ConfigurationError) as error:
        print_stderr(f"types are from the sample alone: {error}")
        return RegisteredFields()
    return RegisteredFields(fields, f"version {origin.version} of {subject}")


def _checked(url: str) -> str:
    try:
        return registry_url(url)
    except ValueError as error:
        raise BadUse(f"{OPTION}: {error}.") from None


def _registry_of_file() -> str | None:
    """The registry that the views file names; empty if schemas are in a folder, None if there is
    no such file, or no table [schemas]."""
    path = Path(os.environ.get("QUERYABLE_VIEWS", "views.toml"))
    try:
        text = path.read_text()
        table = tomllib.loads(text).get("schemas")
        schemas = parse_schemas(table, TomlErrors(text, str(path)))
        return schemas.get("registry", "") if schemas else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ConfigurationError) as error:
        print_stderr(f"{path} names no registry: {error}")
        return None
