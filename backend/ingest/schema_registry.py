"""Schemas by id, from a registry over HTTP or from a folder.

Schemas are cached, because the schema of an id never changes. Callers never wait for the network.
If a schema is not cached, they get SchemaNotYet, and one thread fetches the schema, with retries.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, Protocol

from backend.settings import Settings
from model.formats.registry import SCHEMA_FORMATS
from model.formats.schema_registry import RegistryClient, SchemaSourceUnavailable
from model.formats.schemas import Schema, SchemaNotYet
from model.kafka.config_providers import resolve_value
from model.problems import ConfigurationError
from model.views import Deployment

log = logging.getLogger(__name__)

_MAX_CACHED = 1000  # schemas; also the maximum of queued ids
_ERROR_TTL = 60.0  # s after which an unknown id is fetched again
_RETRY_AFTER = 0.5  # s


class SchemaFetcher(Protocol):
    """Fetches schemas, and waits for the network or the disk."""

    name: str

    def fetch(self, schema_id: int) -> Schema:
        """Raises SchemaSourceUnavailable, or ValueError if the schema does not exist or is not
        supported."""


class SchemaCache:
    """A cache in front of a fetcher. Implements `formats.schemas.SchemaSource`."""

    def __init__(self, source: SchemaFetcher) -> None:
        self._source = source
        self._schemas: dict[int, Schema] = {}
        self._errors: dict[int, tuple[str, float]] = {}  # id -> message and expiry time
        self._queue: dict[int, None] = {}  # ids to fetch, in this order
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name="schemas", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the current request."""
        self._stop.set()
        self._wake.set()

    @property
    def state(self) -> str:
        """Why a schema is not available yet, for error messages."""
        return self._error or f"being fetched from {self._source.name}."

    def schema(self, schema_id: int) -> Schema:
        """The cached schema. Raises SchemaNotYet if it must be fetched first, ValueError if it does
        not exist or is not supported."""
        schema = self._schemas.get(schema_id)
        if schema is not None:
            return schema
        error = self._errors.get(schema_id)
        if error is not None and time.monotonic() < error[1]:
            raise ValueError(error[0])
        with self._lock:
            if len(self._queue) < _MAX_CACHED:
                self._queue[schema_id] = None
        self._wake.set()
        raise SchemaNotYet(schema_id, self)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            while self._queue and not self._stop.is_set():
                if not self._fetch(next(iter(self._queue))):
                    self._stop.wait(_RETRY_AFTER)

    def _fetch(self, schema_id: int) -> bool:
        """Fetch a schema; False if it must be retried."""
        try:
            self._cache(self._schemas, schema_id, self._source.fetch(schema_id))
        except ValueError as e:
            self._cache(self._errors, schema_id, (str(e), time.monotonic() + _ERROR_TTL))
            log.warning("schema %d of %s: %s", schema_id, self._source.name, e)
        except Exception as e:  # the thread must survive any error of a source
            if self._error is None:
                log.warning("cannot fetch schema %d; records that need it wait: %s", schema_id, e)
            self._error = str(e)
            with self._lock:
                # move it to the end of the queue
                self._queue.pop(schema_id, None)
                self._queue[schema_id] = None
            return False
        if self._error is not None:
            log.info("%s answers again", self._source.name)
        self._error = None
        with self._lock:
            self._queue.pop(schema_id, None)
        return True

    def _cache(self, cache: dict[int, Any], schema_id: int, value: object) -> None:
        """Add a value. A full cache drops its oldest value."""
        if len(cache) >= _MAX_CACHED:
            cache.pop(next(iter(cache)))
        cache.pop(schema_id, None)
        cache[schema_id] = value


class SchemaRegistry:
    """A schema registry over HTTP."""

    def __init__(self, url: str, auth: str = "") -> None:
        """`auth`: user:password, or empty. References in it are resolved for each schema, so a
        password in a file can be replaced. Raises ConfigurationError if one cannot be resolved
        now."""
        self.name = url
        self._auth = auth
        self._client()

    def fetch(self, schema_id: int) -> Schema:
        try:
            client = self._client()
        except ConfigurationError as e:
            raise SchemaSourceUnavailable(str(e)) from None
        return client.fetch(schema_id)

    def _client(self) -> RegistryClient:
        auth = resolve_value("QUERYABLE_SCHEMA_REGISTRY_AUTH", self._auth, open, os.environ)
        return RegistryClient(self.name, auth, urllib.request.urlopen)


class SchemaFolder:
    """Files `<id>` with the suffix of their format."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder

    def fetch(self, schema_id: int) -> Schema:
        for of_format in SCHEMA_FORMATS:
            path = self._folder / f"{schema_id}{of_format.file_suffix}"
            try:
                return of_format.parse_file(path.read_bytes())
            except FileNotFoundError:
                continue
            except OSError as e:
                raise SchemaSourceUnavailable(f"cannot read {path}: {e.strerror}") from None
        if not self._folder.is_dir():
            raise SchemaSourceUnavailable(f"the folder {self._folder} does not exist")
        names = " or ".join(f"{schema_id}{each.file_suffix}" for each in SCHEMA_FORMATS)
        raise ValueError(f"the file {self._folder / names} does not exist")


def schema_cache(settings: Settings, deployment: Deployment) -> SchemaCache | None:
    """The cache of schemas by id; None if the deployment has no source of them."""
    if deployment.registry is not None:
        registry = SchemaRegistry(deployment.registry, settings.schema_registry_auth)
        return SchemaCache(registry)
    if deployment.schema_folder is not None:
        return SchemaCache(SchemaFolder(settings.views.parent / deployment.schema_folder))
    return None
