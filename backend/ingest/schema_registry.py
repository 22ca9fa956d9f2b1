"""Schemas by id, from a registry over HTTP or from a folder.

Schemas are cached, because the schema of an id never changes. Callers never wait for the network.
If a schema is not cached, they get SchemaNotYet, and one thread fetches the schema, with retries.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

from backend.instance.settings import Settings
from model.formats.format import Origin
from model.formats.registry import SCHEMA_FORMATS
from model.formats.schema_registry import (
    AUTH_VARIABLE,
    RegisteredSchema,
    RegistryClient,
    SchemaSourceUnavailable,
)
from model.formats.schemas import Schema, SchemaNotFound, SchemaNotYet
from model.http.requests import send
from model.kafka.config_providers import resolve_value
from model.problems import ConfigurationError
from model.views import Deployment

log = logging.getLogger(__name__)

_MAX_CACHED = 1000  # schemas that records need; also the maximum of their queued ids
_MAX_OF_REQUESTS = 64  # cached schemas that only clients have named
_MAX_QUEUED_OF_REQUESTS = 16  # ids
_ERROR_TTL = 10.0  # s after which an unknown id that is needed is fetched again
_RETRY_AFTER, _MAX_RETRY_AFTER = 0.5, 5.0  # s: the first pause after a failure, and the longest


class SchemaFetcher(Protocol):
    """Fetches schemas, and waits for the network or the disk."""

    name: str

    def fetch(self, schema_id: int) -> Schema:
        """Raises SchemaSourceUnavailable, SchemaNotFound, or ValueError if the schema is not
        supported."""


class SchemaCache:
    """A cache in front of a fetcher. Implements `formats.schemas.SchemaSource`, for ingest.

    The thread first fetches the schemas that records need. `for_requests` is for ids that clients
    may choose. Only few of these ids are queued or cached. They never displace a schema that
    records need, and never make a record undecodable.

    A schema that cannot be fetched is requested again, after a pause that grows. A schema that a
    record needs counts as missing only after the source has said so, at each request, for
    `missing_after` s. Even then it is requested again.
    """

    def __init__(self, source: SchemaFetcher, missing_after: float = 0.0) -> None:
        self.for_requests = _SchemasOfRequests(self)
        self._source = source
        self._missing_after = missing_after
        self._for_records = _Known(_MAX_CACHED, _MAX_CACHED)
        self._for_requests = _Known(_MAX_OF_REQUESTS, _MAX_QUEUED_OF_REQUESTS)
        # ids of records ► s, monotonic: since when the source has said that it has no such schema
        self._not_found_since: dict[int, float] = {}
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

    def state(self, schema_id: int) -> str:
        """Why a schema is not available yet, for error messages."""
        since = self._not_found_since.get(schema_id)
        if since is None:
            return self._error or f"being fetched from {self._source.name}."
        return (
            f"{self._source.name} has had no such schema for {time.monotonic() - since:.0f} s. "
            f"After {self._missing_after:.0f} s, its records are unreadable."
        )

    def schema(self, schema_id: int) -> Schema:
        """The cached schema. Raises SchemaNotYet if it must be fetched first, ValueError if it does
        not exist or is not supported."""
        if (schema := self._find(self._for_records, schema_id)) is not None:
            return schema
        self._fetch_later(self._for_records, schema_id)
        raise SchemaNotYet(schema_id, self)

    def stored_schema(self, schema_id: int) -> Schema:
        """Like `schema`, for a record that was ingested."""
        return self.schema(schema_id)

    def schema_for_request(self, schema_id: int, is_stored: bool) -> Schema:
        """Like `schema`, for a request. `is_stored`: whether a stored record has the id."""
        for known in (self._for_records, self._for_requests):
            if (schema := self._find(known, schema_id)) is not None:
                return schema
        self._fetch_later(self._for_records if is_stored else self._for_requests, schema_id)
        raise SchemaNotYet(schema_id, self.for_requests)

    def _find(self, known: _Known, schema_id: int) -> Schema | None:
        """The cached schema, if there is one. Raises ValueError if it is missing or not
        supported."""
        if (schema := known.get(schema_id)) is not None:
            return schema
        if (error := known.error(schema_id)) is not None:
            if error.is_old:
                self._fetch_later(known, schema_id)
            raise ValueError(error.message)
        return None

    def _fetch_later(self, known: _Known, schema_id: int) -> None:
        if known.enqueue(schema_id):
            self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            if not (self._fetch_due(self._for_records) or self._fetch_due(self._for_requests)):
                self._wake.wait(self._pause())
                self._wake.clear()

    def _pause(self) -> float | None:
        """The time (s) until the next id is due; None if no id is queued."""
        times = [*self._for_records.due_times(), *self._for_requests.due_times()]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _fetch_due(self, known: _Known) -> bool:
        """Fetch the first id of the queue that is due; False if there is none."""
        schema_id = known.first_due()
        if schema_id is None:
            return False
        try:
            known.add(schema_id, self._source.fetch(schema_id))
        except SchemaNotFound as e:
            if known is self._for_records and self._may_come(schema_id, str(e)):
                known.postpone(schema_id)
                return True
            self._refuse(known, schema_id, str(e))
        except ValueError as e:
            self._refuse(known, schema_id, str(e))
        except Exception as e:  # the thread must survive any error of a source
            if self._error is None:
                log.warning("cannot fetch schema %d; records that need it wait: %s", schema_id, e)
            self._error = str(e)
            # The time for this id starts again, because the source may have lost its schemas. The
            # times of other ids go on, because one id may fail forever
            self._not_found_since.pop(schema_id, None)
            known.postpone(schema_id)
            return True
        if self._error is not None:
            log.info("%s answers again", self._source.name)
            for known_schemas in (self._for_records, self._for_requests):
                known_schemas.hurry()
        self._error = None
        self._not_found_since.pop(schema_id, None)
        known.dequeue(schema_id)
        return True

    def _may_come(self, schema_id: int, reason: str) -> bool:
        """Whether the schema may still appear, because it has not been missing for long enough."""
        if self._for_records.error(schema_id) is not None:
            return False
        now = time.monotonic()
        if schema_id not in self._not_found_since:
            self._not_found_since[schema_id] = now
            log.warning(
                "schema %d of %s: %s; records that need it wait, for %.0f s at most", schema_id,
                self._source.name, reason, self._missing_after,
            )  # fmt: skip
        return now - self._not_found_since[schema_id] < self._missing_after

    def _refuse(self, known: _Known, schema_id: int, reason: str) -> None:
        if known.error(schema_id) is None:
            log.warning("schema %d of %s: %s", schema_id, self._source.name, reason)
        known.add_error(schema_id, reason)


class _SchemasOfRequests:
    """The schemas of a cache for requests. Implements `formats.schemas.SchemaSource`."""

    def __init__(self, cache: SchemaCache) -> None:
        self._cache = cache

    def state(self, schema_id: int) -> str:
        return self._cache.state(schema_id)

    def schema(self, schema_id: int) -> Schema:
        return self._cache.schema_for_request(schema_id, is_stored=False)

    def stored_schema(self, schema_id: int) -> Schema:
        return self._cache.schema_for_request(schema_id, is_stored=True)


class _Cached:
    """A schema, and when it was last used: a number that grows."""

    __slots__ = ("schema", "used")

    def __init__(self, schema: Schema, used: int) -> None:
        self.schema = schema
        self.used = used


class _Error(NamedTuple):
    """Why there is no schema. `is_old`: whether it should be fetched again."""

    message: str
    is_old: bool


class _Known:
    """Cached schemas and errors, and the ids to fetch. Any thread reads and enqueues; the cache's
    own thread does the rest."""

    def __init__(self, max_cached: int, max_queued: int) -> None:
        # ids to fetch, in this order ► when (s, monotonic), and the pause after the next failure
        self.queue: dict[int, tuple[float, float]] = {}
        self._max_cached, self._max_queued = max_cached, max_queued
        self._schemas: dict[int, _Cached] = {}
        self._errors: dict[int, tuple[str, float]] = {}  # id -> message and expiry time
        self._uses = count()
        self._lock = threading.Lock()

    def get(self, schema_id: int) -> Schema | None:
        cached = self._schemas.get(schema_id)
        if cached is None:
            return None
        cached.used = next(self._uses)
        return cached.schema

    def error(self, schema_id: int) -> _Error | None:
        """Why the schema is missing or not supported; None if it is not known to be."""
        error = self._errors.get(schema_id)
        return None if error is None else _Error(error[0], time.monotonic() >= error[1])

    def add(self, schema_id: int, schema: Schema) -> None:
        """Cache a schema. A full cache drops the least recently used one."""
        if len(self._schemas) >= self._max_cached:
            del self._schemas[min(self._schemas, key=lambda id_: self._schemas[id_].used)]
        self._schemas[schema_id] = _Cached(schema, next(self._uses))
        self._errors.pop(schema_id, None)

    def add_error(self, schema_id: int, message: str) -> None:
        self._errors.pop(schema_id, None)
        if len(self._errors) >= self._max_cached:
            self._errors.pop(next(iter(self._errors)))
        self._errors[schema_id] = message, time.monotonic() + _ERROR_TTL

    def enqueue(self, schema_id: int) -> bool:
        """Queue an id. Returns whether it was added. If the queue is full, the caller has to ask
        again."""
        with self._lock:
            if schema_id in self.queue or len(self.queue) >= self._max_queued:
                return False
            self.queue[schema_id] = time.monotonic(), _RETRY_AFTER
            return True

    def first_due(self) -> int | None:
        now = time.monotonic()
        with self._lock:
            return next((id_ for id_, (due, _) in self.queue.items() if due <= now), None)

    def due_times(self) -> list[float]:
        with self._lock:
            return [due for due, _ in self.queue.values()]

    def dequeue(self, schema_id: int) -> None:
        with self._lock:
            self.queue.pop(schema_id, None)

    def postpone(self, schema_id: int) -> None:
        """Move an id to the end of the queue. It is due after its pause."""
        with self._lock:
            _, pause = self.queue.pop(schema_id, (0.0, _RETRY_AFTER))
            due = time.monotonic() + pause
            self.queue[schema_id] = due, min(2 * pause, _MAX_RETRY_AFTER)

    def hurry(self) -> None:
        """Make all ids due now."""
        with self._lock:
            self.queue = dict.fromkeys(self.queue, (time.monotonic(), _RETRY_AFTER))


class SchemaRegistry:
    """A schema registry over HTTP."""

    def __init__(self, url: str, auth: str = "") -> None:
        """`auth`: user:password, or empty. References in it are resolved for each schema, so a
        password in a file can be replaced. Raises ConfigurationError if a reference cannot be
        resolved now."""
        self.name = url
        self._auth = auth
        self._client()

    def fetch(self, schema_id: int) -> Schema:
        return self._available().fetch(schema_id)

    def newest(self, subject: str) -> tuple[Origin, RegisteredSchema]:
        """The newest version of a subject, and its schema. Raises SchemaSourceUnavailable,
        SchemaNotFound, or ValueError if it is not supported."""
        return self._available().newest(subject)

    def subjects(self, schema_id: int) -> list[str]:
        """The subjects that have a schema. Raises SchemaSourceUnavailable, SchemaNotFound."""
        return self._available().subjects(schema_id)

    def _available(self) -> RegistryClient:
        try:
            return self._client()
        except ConfigurationError as e:
            raise SchemaSourceUnavailable(str(e)) from None

    def _client(self) -> RegistryClient:
        auth = resolve_value(AUTH_VARIABLE, self._auth, open, os.environ)
        return RegistryClient(self.name, auth, send)


class SchemaFolder:
    """Files `<id>` with the suffix of their format."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder

    def fetch(self, schema_id: int) -> Schema:
        for schema_format in SCHEMA_FORMATS:
            path = self._folder / f"{schema_id}{schema_format.file_suffix}"
            try:
                return schema_format.parse_file(path.read_bytes())
            except FileNotFoundError:
                continue
            except OSError as e:
                raise SchemaSourceUnavailable(f"cannot read {path}: {e.strerror}") from None
        if not self._folder.is_dir():
            raise SchemaSourceUnavailable(f"the folder {self._folder} does not exist")
        names = " or ".join(f"{schema_id}{f.file_suffix}" for f in SCHEMA_FORMATS)
        raise SchemaNotFound(f"the file {self._folder / names} does not exist")


def schema_cache(settings: Settings, deployment: Deployment) -> SchemaCache | None:
    """The cache of schemas by id; None if the deployment has no source of them."""
    source = schema_source(settings.views, deployment, settings.schema_registry_auth)
    return None if source is None else SchemaCache(source, settings.schema_missing_after)


def schema_source(views: Path, deployment: Deployment, auth: str) -> SchemaFetcher | None:
    """The source that the table [schemas] of the file `views` names; None if it names none. `auth`:
    as QUERYABLE_SCHEMA_REGISTRY_AUTH. Raises ConfigurationError."""
    if deployment.registry is not None:
        return SchemaRegistry(deployment.registry, auth)
    if deployment.schema_folder is not None:
        return SchemaFolder(views.parent / deployment.schema_folder)
    return None
