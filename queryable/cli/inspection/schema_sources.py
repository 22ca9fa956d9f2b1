"""The sources of schemas that backends have, too: a registry, or a folder.

This module imports the backend's module, so commands import it only when they run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from backend.ingest.schema_registry import SchemaFetcher as SchemaFetcher
from backend.ingest.schema_registry import SchemaFolder
from backend.ingest.schema_registry import SchemaRegistry as SchemaRegistry
from backend.ingest.schema_registry import schema_source as schema_source
from model.formats.schema_registry import AUTH_VARIABLE
from model.formats.schemas import Schema
from model.problems import ConfigurationError
from model.schemas_table import registry_url
from queryable.client.protocol.errors import BadUse

REGISTRY_OPTION = "--schema-registry"


class FetchedSchemas:
    """The schemas that a command fetches from a source, each of them once. Implements
    `SchemaFetcher`, and `SchemaSource` for codecs, which get those that were fetched."""

    def __init__(self, source: SchemaFetcher) -> None:
        self.name = source.name
        self.source = source
        self._fetched: dict[int, Schema | ValueError] = {}

    def fetch(self, schema_id: int) -> Schema:
        """Raises SchemaSourceUnavailable and ValueError, as the source does."""
        if schema_id not in self._fetched:
            try:
                self._fetched[schema_id] = self.source.fetch(schema_id)
            except ValueError as error:
                self._fetched[schema_id] = error
        return self.schema(schema_id)

    def schema(self, schema_id: int) -> Schema:
        """Raises ValueError if the schema was not fetched, or is not there."""
        schema = self._fetched.get(schema_id, ValueError("it was not fetched"))
        if isinstance(schema, ValueError):
            raise schema
        return schema

    def stored_schema(self, schema_id: int) -> Schema:
        return self.schema(schema_id)

    def state(self, schema_id: int) -> str:
        return f"not fetched from {self.name}"


def open_registry(url: str) -> SchemaRegistry:
    """The registry that the user names, with the credentials of the environment. Raises BadUse."""
    try:
        registry = registry_url(url)
    except ValueError as error:
        raise BadUse(f"{REGISTRY_OPTION}: {error}.") from None
    try:
        return SchemaRegistry(registry, os.environ.get(AUTH_VARIABLE, ""))
    except ConfigurationError as error:
        raise BadUse(f"{error}.") from None


def source_of_table(schemas: Mapping[str, str], file: Path) -> SchemaFetcher | None:
    """The source that a parsed table [schemas] of the file names; None if it names none. Raises
    BadUse."""
    if "folder" in schemas:
        return SchemaFolder(file.parent / schemas["folder"])
    return open_registry(schemas["registry"]) if schemas else None
