"""Schemas by id, from a registry over HTTP or from a folder.

Schemas are cached, because the schema of an id never changes. Callers never wait for the network.
If a schema is not cached, they get SchemaNotYet, and one thread fetches the schema, with retries.
"""

from __future__ import annotations

import base64
import http.client
import logging
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import orjson

from model.formats.format import SchemaFormat
from model.formats.registry import SCHEMA_FORMATS
from model.formats.schemas import Schema, SchemaNotYet

log = logging.getLogger(__name__)

_MAX_CACHED = 1000  # schemas; also the maximum of queued ids
_ERROR_TTL = 60.0  # s after which an unknown id is fetched again
_RETRY_AFTER = 0.5  # s
_TIMEOUT = 5.0  # s
_MAX_BYTES = 8 << 20
_MAX_REFERENCES = 100
_DEFAULT_TYPE = "AVRO"  # of a registry whose answer has no `schemaType`
_BY_TYPE: dict[str, SchemaFormat] = {each.registry_type: each for each in SCHEMA_FORMATS}
_NOT_FOUND = 40403  # the registry's error code; a bare 404 may mean a wrong URL


class SchemaSourceUnavailable(Exception):
    """The source cannot be read now; the message gives the reason."""


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
    """A schema registry with Confluent's REST API: Confluent's, Karapace, Apicurio, Redpanda."""

    def __init__(self, url: str, auth: str = "") -> None:
        """`auth`: user:password, or empty."""
        self.name = url
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        self._authorization = f"Basic {base64.b64encode(auth.encode()).decode()}" if auth else ""

    def fetch(self, schema_id: int) -> Schema:
        path = f"/schemas/ids/{schema_id}"
        document = self._get(path)
        schema_type = document.get("schemaType", _DEFAULT_TYPE)
        schema_format = _BY_TYPE.get(schema_type)
        if schema_format is None:
            supported = ", ".join(_BY_TYPE)
            raise ValueError(
                f"schemas of type {schema_type} are not supported; supported: {supported}"
            )
        query = ""
        if schema_format.registry_form:
            query = f"?format={schema_format.registry_form}"
            text = document["schema"]
            document = self._get(path + query)
            if document["schema"] == text:
                raise SchemaSourceUnavailable(
                    f"{self.name} does not support {query[1:]} of {schema_type} schemas"
                )
        references: dict[tuple[str, int], tuple[str, str]] = {}
        self._add_references(document, references, query)
        return schema_format.parse_registered(str(document["schema"]), tuple(references.values()))

    def _add_references(
        self, document: dict[str, Any], schemas: dict[tuple[str, int], tuple[str, str]], query: str
    ) -> None:
        """Add the name and text of the schemas that a schema references, in dependency order."""
        for reference in document.get("references") or ():
            subject, version = str(reference["subject"]), int(reference["version"])
            if (subject, version) in schemas:
                continue
            if len(schemas) >= _MAX_REFERENCES:
                raise ValueError(f"the schema references more than {_MAX_REFERENCES} others")
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}{query}"
            referenced = self._get(path)
            self._add_references(referenced, schemas, query)
            schemas[(subject, version)] = str(reference.get("name", "")), str(referenced["schema"])

    def _get(self, path: str) -> dict[str, Any]:
        """The response document, whose `schema` is a string. Raises SchemaSourceUnavailable,
        ValueError."""
        request = urllib.request.Request(self.name + path, headers=self._headers)
        if self._authorization:  # not for the server to which a redirect leads
            request.add_unredirected_header("Authorization", self._authorization)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
                body = response.read(_MAX_BYTES + 1)
        except urllib.error.HTTPError as e:
            with e:
                self._raise_for_status(e, path)
        except (OSError, http.client.HTTPException) as e:
            raise SchemaSourceUnavailable(f"{self.name} does not answer: {e}") from None
        if len(body) > _MAX_BYTES:
            raise ValueError(f"the schema has more than {_MAX_BYTES} bytes")
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
            raise SchemaSourceUnavailable(
                f"{self.name}{path} does not answer like a schema registry"
            )
        return document

    def _raise_for_status(self, error: urllib.error.HTTPError, path: str) -> None:
        try:
            document = orjson.loads(error.read(_MAX_BYTES))
            code = document["error_code"]
        except Exception:
            code = None
        if error.code == 404 and code == _NOT_FOUND:
            raise ValueError("the registry has no schema with this id")
        raise SchemaSourceUnavailable(f"{self.name}{path} answers {error.code} {error.reason}")


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
