"""The REST API of a schema registry: Confluent's, Karapace, Apicurio, Redpanda.

The caller passes the function ``send``, because this package does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urljoin

import orjson

from model.formats.format import Format, Origin, References, SchemaFormat
from model.formats.json_decoder import decode_json
from model.formats.registry import FORMATS
from model.formats.schemas import Schema, SchemaNotFound
from model.http.answers import Answer, AnswerTooLong, Options, RequestFailed, Send, basic

_TIMEOUT_S = 10.0  # for an answer
_MAX_BYTES = 8 << 20
_MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REFERENCES = 100
_DEFAULT_TYPE = "AVRO"  # the type of a schema if the registry sends no `schemaType`
_BY_TYPE = {format_.registry_type: format_ for format_ in FORMATS.values() if format_.registry_type}
_NOT_FOUND = 40403  # the registry's error code; a bare 404 may mean a wrong URL
_REFERENCE_NOT_FOUND = (40401, 40402)  # the subject, or its version
_REFUSED = (401, 403)
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"

AUTH_VARIABLE = "QUERYABLE_SCHEMA_REGISTRY_AUTH"
"""The environment variable with the credentials, user:password."""


class SchemaSourceUnavailable(Exception):
    """The source cannot be read now; the message gives the reason."""


class SchemaNotParsed(ValueError):
    """The registry has a schema of a type that is not parsed here. `format_name`: the format of its
    records, if they are read without their schema; otherwise None."""

    def __init__(self, schema_type: str) -> None:
        parsed = [type_ for type_, known in _BY_TYPE.items() if isinstance(known, SchemaFormat)]
        super().__init__(
            f"schemas of type {schema_type} are not supported; supported: {', '.join(parsed)}"
        )
        self.format_name = _BY_TYPE[schema_type].name if schema_type in _BY_TYPE else None


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it. `references`: name and text of the schemas that it uses, in
    dependency order."""

    format: Format
    text: str
    references: References

    def parsed(self) -> Schema:
        """The parsed schema. Raises ValueError if it is not supported."""
        if not isinstance(self.format, SchemaFormat):
            raise SchemaNotParsed(self.format.registry_type)
        return self.format.parse_registered(self.text, self.references)


class RegistryClient:
    """A schema registry. Methods wait for its answer, and raise SchemaSourceUnavailable if it does
    not answer as a registry does."""

    def __init__(self, url: str, auth: str, send: Send) -> None:
        """`auth`: user:password, or empty. `send`: see `model.http.requests`."""
        self.name = url
        self._send = send
        self._authorization = {"Authorization": basic(auth)} if auth else {}
        self._when_refused = (
            f"it refuses the user or the password in {AUTH_VARIABLE}"
            if auth
            else f"set user:password in {AUTH_VARIABLE}"
        )

    def fetch(self, schema_id: int) -> Schema:
        """The parsed schema. Raises SchemaNotFound, or ValueError if it is not supported."""
        return self.registered(schema_id).parsed()

    def registered(self, schema_id: int) -> RegisteredSchema:
        """The schema as the registry has it. Raises the same errors as `fetch`."""
        path = f"/schemas/ids/{schema_id}"
        document = self._get(path)
        schema_format = _format_of(document)
        if not isinstance(schema_format, SchemaFormat):
            raise SchemaNotParsed(schema_format.registry_type)
        return self._complete(path, document, schema_format)

    def newest(self, subject: str) -> tuple[Origin, RegisteredSchema]:
        """The newest version of a subject, and its schema, which may be one that is not parsed
        here. Raises SchemaNotFound if there is no such subject, and ValueError."""
        path = f"/subjects/{quote(subject, safe='')}/versions/latest"
        try:
            document = self._get(path)
        except SchemaNotFound:
            raise SchemaNotFound(f"the registry has no subject {subject}") from None
        version, schema_id = document.get("version"), document.get("id")
        if type(version) is not int or type(schema_id) is not int:
            raise self._no_registry(path)
        # not "latest" again, which may be another one by then
        path = f"{path.removesuffix('latest')}{version}"
        schema = self._complete(path, document, _format_of(document))
        return Origin(subject, version, schema_id), schema

    def _complete(
        self, path: str, document: dict[str, Any], schema_format: Format
    ) -> RegisteredSchema:
        """The schema in a document, which is the answer at a path, with its references."""
        query = ""
        if schema_format.registry_form:
            query = f"?format={schema_format.registry_form}"
            document = self._get(path + query)
        references: dict[tuple[str, int], tuple[str, str]] = {}
        self._add_references(document, references, query)
        texts = (document["schema"], *(text for _, text in references.values()))
        for schema_text in texts:
            # a registry that ignores the parameter returns what the producer has registered
            if not schema_format.is_registry_form(schema_text):
                raise SchemaSourceUnavailable(
                    f"{self.name} does not support {query[1:]} of {schema_format.registry_type} "
                    "schemas: put files of the schemas into a folder (docs/reference/formats.md)"
                )
        return RegisteredSchema(schema_format, str(document["schema"]), tuple(references.values()))

    def subjects(self, schema_id: int) -> list[str]:
        """The subjects that have a schema, without repetition. Raises SchemaNotFound,
        SchemaSourceUnavailable."""
        path = f"/schemas/ids/{schema_id}/versions"
        answer = self._answer(path)
        if not isinstance(answer, list):
            raise self._no_registry(path)
        found = (version.get("subject") for version in answer if isinstance(version, dict))
        return list(dict.fromkeys(subject for subject in found if isinstance(subject, str)))

    def register(self, subject: str, schema_format: SchemaFormat, text: str) -> int:
        """The id of the schema, which is registered if the subject does not have it. Raises
        ValueError if the registry rejects it."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        document = {"schema": text, "schemaType": schema_format.registry_type}
        answer = self._answer(path, orjson.dumps(document))
        if not isinstance(answer, dict) or type(answer.get("id")) is not int:
            raise self._no_registry(path)
        return int(answer["id"])

    def _add_references(
        self, document: dict[str, Any], schemas: dict[tuple[str, int], tuple[str, str]], query: str
    ) -> None:
        """Add the name and text of the schemas that a schema references, in dependency order."""
        references: Sequence[Any] = document.get("references") or ()
        for reference in references:
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
        document = self._answer(path)
        if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
            raise self._no_registry(path)
        return document

    def _answer(self, path: str, body: bytes | None = None) -> Any:
        """The parsed answer; None if it is not JSON. With a body, the request is a POST."""
        url, headers = self.name + path, {"Accept": f"{_MEDIA_TYPE}, application/json"}
        options: Options = {"headers": headers | self._authorization, "use_proxies": True}
        redirects = _MAX_REDIRECTS
        if body is not None:
            options["headers"] = {**options["headers"], "Content-Type": _MEDIA_TYPE}
            options["body"] = body
            redirects = 0
        try:
            answer = self._send(url, _TIMEOUT_S, _MAX_BYTES, **options)
            for _ in range(redirects):
                location = answer.headers.get("Location")
                if answer.status not in _REDIRECTS or not location:
                    break
                # the password is not for the server to which a redirect leads
                url = urljoin(url, location)
                answer = self._send(url, _TIMEOUT_S, _MAX_BYTES, headers=headers, use_proxies=True)
        except AnswerTooLong:
            raise ValueError(f"the schema has more than {_MAX_BYTES} bytes") from None
        except RequestFailed as e:
            raise SchemaSourceUnavailable(f"{self.name} does not answer: {e}") from None
        if not answer.is_success:
            self._raise_for_status(answer, path)
        try:
            return decode_json(answer.body)
        except ValueError:
            return None

    def _no_registry(self, path: str) -> SchemaSourceUnavailable:
        return SchemaSourceUnavailable(f"{self.name}{path} does not answer like a schema registry")

    def _raise_for_status(self, answer: Answer, path: str) -> None:
        try:
            document = orjson.loads(answer.body)
            code, message = document["error_code"], str(document.get("message", ""))
        except Exception:
            code, message = None, ""
        if answer.status == 404 and code == _NOT_FOUND:
            raise SchemaNotFound("the registry has no schema with this id")
        if answer.status == 404 and code in _REFERENCE_NOT_FOUND:
            raise SchemaNotFound(f"the registry has no schema at {path}, which this one references")
        if answer.status in (409, 422) and code is not None:
            raise ValueError(f"the registry rejects the schema: {message[:500]}")
        advice = f": {self._when_refused}" if answer.status in _REFUSED else ""
        raise SchemaSourceUnavailable(f"{self.name}{path} answers {answer.status}{advice}")


def _format_of(document: dict[str, Any]) -> Format:
    """The format of the records of a schema. Raises SchemaNotParsed if it is unknown."""
    schema_type = document.get("schemaType") or _DEFAULT_TYPE
    if schema_type not in _BY_TYPE:
        raise SchemaNotParsed(str(schema_type))
    return _BY_TYPE[schema_type]
