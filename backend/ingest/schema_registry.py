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
from itertools import count
from pathlib import Path
from typing import Protocol

from backend.settings import Settings
from model.formats.registry import SCHEMA_FORMATS
from model.formats.schema_registry import RegistryClient, SchemaSourceUnavailable
from model.formats.schemas import Schema, SchemaNotYet
from model.kafka.config_providers import resolve_value
from model.problems import ConfigurationError
from model.views import Deployment

log = logging.getLogger(__name__)

_MAX_CACHED = 1000  # schemas that records need; also the maximum of their queued ids
_MAX_OF_REQUESTS = 64  # cached schemas that only clients have named
_MAX_QUEUED_OF_REQUESTS = 16  # ids
_ERROR_TTL = 60.0  # s after which an unknown id is fetched again
_RETRY_AFTER = 0.5  # s


class SchemaFetcher(Protocol):
    """Fetches schemas, and waits for the network or the disk."""

    name: str

    def fetch(self, schema_id: int) -> Schema:
        """Raises SchemaSourceUnavailable, or ValueError if the schema does not exist or is not
        supported."""


class SchemaCache:
    """A cache in front of a fetcher. Implements `formats.schemas.SchemaSource`, for ingest.

    The thread fetches first what records need. `of_requests` is for ids that clients may choose:
    few of them wait or are cached, and none of them can displace one of records, or be the reason
    why a record is undecodable.
    """

    def __init__(self, source: SchemaFetcher) -> None:
        self.of_requests = _SchemasOfRequests(self)
        self._source = source
        self._of_records = _Known(_MAX_CACHED, _MAX_CACHED)
        self._of_requests = _Known(_MAX_OF_REQUESTS, _MAX_QUEUED_OF_REQUESTS)
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
        if (schema := self._of_records.get(schema_id)) is not None:
            return schema
        self._fetch_later(self._of_records, schema_id)
        raise SchemaNotYet(schema_id, self)

    def of_stored(self, schema_id: int) -> Schema:
        """`schema` for a record that was ingested."""
        return self.schema(schema_id)

    def of_request(self, schema_id: int, is_stored: bool) -> Schema:
        """`schema` for a request. `is_stored`: whether a stored record has the id."""
        for known in (self._of_records, self._of_requests):
            if (schema := known.get(schema_id)) is not None:
                return schema
        self._fetch_later(self._of_records if is_stored else self._of_requests, schema_id)
        raise SchemaNotYet(schema_id, self.of_requests)

    def _fetch_later(self, known: _Known, schema_id: int) -> None:
        known.enqueue(schema_id)
        self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            while (self._of_records.queue or self._of_requests.queue) and not self._stop.is_set():
                if self._fetch_next(self._of_records):
                    continue
                failed = bool(self._of_records.queue)
                if not self._fetch_next(self._of_requests) or failed:
                    self._stop.wait(_RETRY_AFTER)

    def _fetch_next(self, known: _Known) -> bool:
        """Fetch the first id of the queue; False if there is none, or it must be retried."""
        schema_id = known.first_queued()
        if schema_id is None:
            return False
        try:
            known.add(schema_id, self._source.fetch(schema_id))
        except ValueError as e:
            known.add_error(schema_id, str(e))
            log.warning("schema %d of %s: %s", schema_id, self._source.name, e)
        except Exception as e:  # the thread must survive any error of a source
            if self._error is None:
                log.warning("cannot fetch schema %d; records that need it wait: %s", schema_id, e)
            self._error = str(e)
            known.move_to_end(schema_id)
            return False
        if self._error is not None:
            log.info("%s answers again", self._source.name)
        self._error = None
        known.dequeue(schema_id)
        return True


class _SchemasOfRequests:
    """The schemas of a cache for requests. Implements `formats.schemas.SchemaSource`."""

    def __init__(self, cache: SchemaCache) -> None:
        self._cache = cache

    @property
    def state(self) -> str:
        return self._cache.state

    def schema(self, schema_id: int) -> Schema:
        return self._cache.of_request(schema_id, is_stored=False)

    def of_stored(self, schema_id: int) -> Schema:
        return self._cache.of_request(schema_id, is_stored=True)


class _Cached:
    """A schema, and when it was last used: a number that grows."""

    __slots__ = ("schema", "used")

    def __init__(self, schema: Schema, used: int) -> None:
        self.schema = schema
        self.used = used


class _Known:
    """Cached schemas and errors, and the ids to fetch. Any thread reads and enqueues; the cache's
    own thread does the rest."""

    def __init__(self, max_cached: int, max_queued: int) -> None:
        self.queue: dict[int, None] = {}  # ids to fetch, in this order
        self._max_cached, self._max_queued = max_cached, max_queued
        self._schemas: dict[int, _Cached] = {}
        self._errors: dict[int, tuple[str, float]] = {}  # id -> message and expiry time
        self._uses = count()
        self._lock = threading.Lock()

    def get(self, schema_id: int) -> Schema | None:
        """ValueError if the schema does not exist or is not supported."""
        cached = self._schemas.get(schema_id)
        if cached is not None:
            cached.used = next(self._uses)
            return cached.schema
        error = self._errors.get(schema_id)
        if error is not None and time.monotonic() < error[1]:
            raise ValueError(error[0])
        return None

    def add(self, schema_id: int, schema: Schema) -> None:
        """A full cache drops the schema that was not used for the longest time."""
        if len(self._schemas) >= self._max_cached:
            del self._schemas[min(self._schemas, key=lambda each: self._schemas[each].used)]
        self._schemas[schema_id] = _Cached(schema, next(self._uses))

    def add_error(self, schema_id: int, message: str) -> None:
        if len(self._errors) >= self._max_cached:
            self._errors.pop(next(iter(self._errors)))
        self._errors.pop(schema_id, None)
        self._errors[schema_id] = message, time.monotonic() + _ERROR_TTL

    def enqueue(self, schema_id: int) -> None:
        """If the queue is full, the caller has to ask again."""
        with self._lock:
            if len(self.queue) < self._max_queued:
                self.queue[schema_id] = None

    def first_queued(self) -> int | None:
        with self._lock:
            return next(iter(self.queue), None)

    def dequeue(self, schema_id: int) -> None:
        with self._lock:
            self.queue.pop(schema_id, None)

    def move_to_end(self, schema_id: int) -> None:
        with self._lock:
            self.queue.pop(schema_id, None)
            self.queue[schema_id] = None


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
