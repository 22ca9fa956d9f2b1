"""Schemas by id, in Spark's workers: for records with Confluent's framing.

A worker asks the registry once for each id, and keeps the schema. If the registry does not answer,
the query fails, and the job starts it again; so no record is lost while a registry is down. If the
registry says that a schema does not exist, the task asks again for a configured time, because a
registry that is being restored says so, too. After that, records with this schema are malformed.

A worker remembers for one task only that a schema does not exist. The records of a task were
written before the task began. So if a schema was registered before a record was written, the
workers of the view and the workers of its dead letters all find it, and neither query loses the
record.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from model.formats.format import SchemaFormat
from model.formats.frames import FRAME, schema_id_of
from model.formats.schema_registry import (
    AUTH_VARIABLE,
    RegisteredSchema,
    RegistryClient,
    SchemaSourceUnavailable,
)
from model.formats.schemas import SchemaNotFound
from model.http.requests import send
from model.kafka.config_providers import resolve_value
from model.problems import ConfigurationError
from spark.errors import JobError, Unavailable

URL = "spark.queryable.schemas.registry"
"""A setting of the session: the registry of the deployment."""

AUTH = "spark.queryable.schemas.password"
"""A setting of the session: user:password, or a reference to it. Spark hides settings with this
word."""

MISSING_AFTER = "spark.queryable.schemas.missingAfter"
"""A setting of the session: the seconds for which a schema must be missing."""

MISSING_AFTER_VARIABLE = "QUERYABLE_SCHEMA_MISSING_AFTER"
"""The environment variable that has it."""

DEFAULT_MISSING_AFTER = "120"

_MAX_KNOWN = 1000  # schemas, and errors, of a reader in a worker
_MAX_READERS = 100
_ATTEMPTS = 3
_PAUSE, _MAX_PAUSE = 0.5, 5.0  # s: between attempts

Decode = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Registry:
    """A schema registry. ``auth``: user:password, or empty. ``missing_after``: the seconds for
    which the registry must say that a schema does not exist.
    """

    url: str
    auth: str = field(default="", repr=False)
    missing_after: float = 0.0

    def client(self) -> RegistryClient:
        return RegistryClient(self.url, self.auth, send)


def registry_of(session: SparkSession) -> Registry:
    """The registry of the deployment. Raises ``JobError`` if it has none.

    References to the password are resolved here, on the driver, each time that a query starts. So
    a query that failed because the password was replaced starts again with the new one. Raises
    ``Unavailable`` if it cannot be read.
    """
    url = session.conf.get(URL, "")
    if not url:
        raise JobError(
            "the records name their schemas, but there is no schema registry. Set registry in "
            "[schemas] of --views-toml"
        )
    try:
        auth = resolve_value(AUTH_VARIABLE, session.conf.get(AUTH, "") or "", open, os.environ)
    except ConfigurationError as error:
        raise Unavailable(f"the password of the schema registry cannot be read: {error}") from None
    return Registry(url, auth, float(session.conf.get(MISSING_AFTER, DEFAULT_MISSING_AFTER) or 0))


def frame(registry: Registry, subject: str, schema_format: SchemaFormat, text: str) -> bytes:
    """What Confluent's serializers write before a record: a zero byte and the id of the schema.

    The schema is registered, if the subject does not have it yet. Raises ``JobError``, or
    ``Unavailable`` if the registry does not answer.
    """
    try:
        schema_id = registry.client().register(subject, schema_format, text)
    except ValueError as error:
        raise JobError(
            f"the schema of {subject} was not registered: {error}. Change the schema, or the "
            "compatibility of the subject"
        ) from None
    except SchemaSourceUnavailable as error:
        raise Unavailable(f"the schema of {subject} was not registered: {error}") from None
    return b"\0" + schema_id.to_bytes(4, "big")


def framed_decoder(
    registry: Registry | None, reader: Hashable, decode_with: Callable[[RegisteredSchema], Decode]
) -> Decode:
    """A decoder of framed records, for one task; it raises ValueError if a record is malformed.

    ``decode_with`` returns, for a schema, a decoder of the bytes after the frame. Raises ValueError
    if there is none. The worker keeps the results for this ``reader``.
    """
    assert registry is not None, "the format is not bound to a session"
    schemas = _READERS.get((registry, reader))
    if schemas is None:
        if len(_READERS) >= _MAX_READERS:
            _READERS.pop(next(iter(_READERS)))
        schemas = _READERS[registry, reader] = _Schemas(registry, decode_with)
    known = schemas.decoder
    missing: dict[int, str] = {}  # id ► the registry's answer

    def decode(raw: bytes) -> Any:
        return known(schema_id_of(raw), missing)(raw[FRAME:])

    return decode


class _Schemas:
    """The decoders of one reader, by schema id."""

    def __init__(
        self, registry: Registry, decode_with: Callable[[RegisteredSchema], Decode]
    ) -> None:
        self._client = registry.client()
        self._missing_after = registry.missing_after
        self._missing: dict[int, bool] = {}  # ids that were missing for long enough
        self._decode_with = decode_with
        self._decoders: dict[int, Decode] = {}
        self._errors: dict[int, str] = {}  # of schemas that cannot be converted

    def decoder(self, schema_id: int, missing: dict[int, str]) -> Decode:
        """The decoder of a schema. ``missing``: the ids that one task has not found in the
        registry. Raises ValueError, SchemaSourceUnavailable."""
        if (known := self._decoders.get(schema_id)) is not None:
            return known
        error = self._errors.get(schema_id) or missing.get(schema_id)
        if error is not None:
            raise ValueError(error)
        errors = missing
        try:
            schema = self._fetch(schema_id)
            errors = self._errors
            decode = self._decode_with(schema)
        except ValueError as e:
            error = f"schema {schema_id}: {e}"
            _keep(errors, schema_id, error)
            raise ValueError(error) from None
        _keep(self._decoders, schema_id, decode)
        return decode

    def _fetch(self, schema_id: int) -> RegisteredSchema:
        """Fetches a schema. Raises SchemaNotFound if it was missing for long enough, in this task
        or an earlier one."""
        failures, pause = 0, _PAUSE
        missing_since: float | None = None
        while True:
            try:
                schema = self._client.registered(schema_id)
                self._missing.pop(schema_id, None)
                return schema
            except SchemaNotFound:
                now = time.monotonic()
                missing_since = now if missing_since is None else missing_since
                if schema_id in self._missing or now - missing_since >= self._missing_after:
                    _keep(self._missing, schema_id, True)
                    raise
            except SchemaSourceUnavailable:
                failures, missing_since = failures + 1, None
                if failures == _ATTEMPTS:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)


_READERS: dict[tuple[Registry, Hashable], _Schemas] = {}


def _keep(cache: dict[int, Any], schema_id: int, value: object) -> None:
    """Adds a value. A full cache drops its oldest value."""
    cache.pop(schema_id, None)
    if len(cache) >= _MAX_KNOWN:
        cache.pop(next(iter(cache)))
    cache[schema_id] = value
