"""Schemas by id, from a registry over HTTP or from a folder.

Schemas are cached, because the schema of an id never changes. Callers never wait for the network:
for a schema that is not cached they get SchemaNotYet, and one thread fetches it, with retries.
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

_KEPT = 1000  # cached schemas, and ids waiting to be fetched
_UNKNOWN_FOR = 60.0  # s after which an unknown id is fetched again
_RETRY_AFTER = 0.5
_TIMEOUT = 5.0
_MAX_BYTES = 8 << 20
_MAX_REFERENCES = 100
_DEFAULT_TYPE = "AVRO"  # of a registry whose answer has no `schemaType`
_BY_TYPE: dict[str, SchemaFormat] = {each.registry_type: each for each in SCHEMA_FORMATS}
_NOT_FOUND = 40403  # the registry's error code; a bare 404 may mean a wrong URL


class Unanswered(Exception):
    """The source does not answer; the message says why."""


class Source(Protocol):
    """A source of schemas."""

    name: str

    def fetch(self, schema_id: int) -> Schema:
        """Unanswered; ValueError if the schema does not exist or is not supported."""


class SchemaCache:
    """A cache in front of a source; implements `formats.schemas.SchemaSource`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[int, Schema] = {}
        self._refused: dict[int, tuple[str, float]] = {}  # id -> error, and until when
        self._wanted: dict[int, None] = {}
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
        return self._error or f"being fetched from {self._source.name}."

    def schema(self, schema_id: int) -> Schema:
        known = self._known.get(schema_id)
        if known is not None:
            return known
        refused = self._refused.get(schema_id)
        if refused is not None and time.monotonic() < refused[1]:
            raise ValueError(refused[0])
        with self._lock:
            if len(self._wanted) < _KEPT:
                self._wanted[schema_id] = None
        self._wake.set()
        raise SchemaNotYet(schema_id, self)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            while self._wanted and not self._stop.is_set():
                if not self._fetch(next(iter(self._wanted))):
                    self._stop.wait(_RETRY_AFTER)

    def _fetch(self, schema_id: int) -> bool:
        """Fetch a schema; False if it must be retried."""
        try:
            self._keep(self._known, schema_id, self._source.fetch(schema_id))
        except ValueError as e:
            self._keep(self._refused, schema_id, (str(e), time.monotonic() + _UNKNOWN_FOR))
            log.warning("schema %d of %s: %s", schema_id, self._source.name, e)
        except Exception as e:  # the thread must survive any error of a source
            if self._error is None:
                log.warning("cannot fetch schema %d; records that need it wait: %s", schema_id, e)
            self._error = str(e)
            with self._lock:
                # move it to the end of the queue
                self._wanted.pop(schema_id, None)
                self._wanted[schema_id] = None
            return False
        if self._error is not None:
            log.info("%s answers again", self._source.name)
        self._error = None
        with self._lock:
            self._wanted.pop(schema_id, None)
        return True

    def _keep(self, kept: dict[int, Any], schema_id: int, what: object) -> None:
        if len(kept) >= _KEPT:
            kept.pop(next(iter(kept)))
        kept.pop(schema_id, None)
        kept[schema_id] = what


class Registry:
    """A schema registry with Confluent's REST API: Confluent's, Karapace, Apicurio, Redpanda."""

    def __init__(self, url: str, auth: str = "") -> None:
        """`auth`: user:password, or empty."""
        self.name = url
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if auth:
            self._headers["Authorization"] = f"Basic {base64.b64encode(auth.encode()).decode()}"

    def fetch(self, schema_id: int) -> Schema:
        path = f"/schemas/ids/{schema_id}"
        found = self._get(path)
        kind = found.get("schemaType", _DEFAULT_TYPE)
        of_format = _BY_TYPE.get(kind)
        if of_format is None:
            supported = ", ".join(_BY_TYPE)
            raise ValueError(f"schemas of type {kind} are not supported; supported: {supported}")
        form = f"?format={of_format.registry_form}" if of_format.registry_form else ""
        if form:
            text = _text(found)
            found = self._get(path + form)
            if _text(found) == text:
                raise Unanswered(f"{self.name} does not support {form[1:]} of {kind} schemas")
        references: dict[tuple[str, int], tuple[str, str]] = {}
        self._add_references(found, references, form)
        return of_format.parse_registered(_text(found), tuple(references.values()))

    def _add_references(
        self, of: dict[str, Any], found: dict[tuple[str, int], tuple[str, str]], form: str
    ) -> None:
        """Add the name and text of the schemas that a schema references, in dependency order."""
        for reference in of.get("references") or ():
            subject, version = str(reference["subject"]), int(reference["version"])
            if (subject, version) in found:
                continue
            if len(found) >= _MAX_REFERENCES:
                raise ValueError(f"the schema references more than {_MAX_REFERENCES} others")
            used = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}{form}")
            self._add_references(used, found, form)
            found[(subject, version)] = str(reference.get("name", "")), _text(used)

    def _get(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self.name + path, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                body = answer.read(_MAX_BYTES + 1)
        except urllib.error.HTTPError as e:
            with e:
                self._refuse(e, path)
        except (OSError, http.client.HTTPException) as e:
            raise Unanswered(f"{self.name} does not answer: {e}") from None
        if len(body) > _MAX_BYTES:
            raise ValueError(f"the schema has more than {_MAX_BYTES} bytes")
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
            raise Unanswered(f"{self.name}{path} does not answer like a schema registry")
        return document

    def _refuse(self, error: urllib.error.HTTPError, path: str) -> None:
        try:
            document = orjson.loads(error.read(_MAX_BYTES))
            code = document["error_code"]
        except Exception:
            code = None
        if error.code == 404 and code == _NOT_FOUND:
            raise ValueError("the registry has no schema with this id")
        raise Unanswered(f"{self.name}{path} answers {error.code} {error.reason}")


def _text(found: dict[str, Any]) -> str:
    return str(found["schema"])


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
                raise Unanswered(f"cannot read {path}: {e.strerror}") from None
        if not self._folder.is_dir():
            raise Unanswered(f"the folder {self._folder} does not exist")
        names = " or ".join(f"{schema_id}{each.file_suffix}" for each in SCHEMA_FORMATS)
        raise ValueError(f"the file {self._folder / names} does not exist")
