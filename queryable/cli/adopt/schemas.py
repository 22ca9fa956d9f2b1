"""What the schemas say that sampled records name: the format of keys or values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from model.formats.codec import Codec
from model.formats.registry import FORMATS, SCHEMA_FORMATS
from model.formats.schema_registry import AUTH_VARIABLE, SchemaNotParsed, SchemaSourceUnavailable
from model.formats.schemas import CONFLUENT
from model.problems import Unavailable
from model.schemas_table import schemas_toml
from queryable.cli.adopt.prompts import NO_VALUE
from queryable.cli.answers import read_answer
from queryable.cli.exit_codes import NoRegistry, print_stderr
from queryable.cli.inspection.inference import Confidence, Inference
from queryable.cli.inspection.schema_sources import (
    REGISTRY_OPTION,
    FetchedSchemas,
    SchemaFetcher,
    SchemaRegistry,
    open_registry,
)
from queryable.client.protocol.errors import BadUse, QueryableError

_MAX_SCHEMAS = 20  # that are fetched for the keys or values of a topic
_NONE = f"`{REGISTRY_OPTION} {NO_VALUE}` serves them as bytes"
_HINT = (
    "Is it the URL of the producers' registry, with the path of its Confluent API, if it has one "
    "(Apicurio: /apis/ccompat/v7)?"
)


class Schemas:
    """The source of schemas, which the user names when a record has the id of one. `source` is None
    until then."""

    def __init__(
        self,
        given: str | None = None,
        *,
        is_interactive: bool = False,
        existing: SchemaFetcher | None = None,
    ) -> None:
        """`given`: a URL, or NO_VALUE for none. `existing`: of the file to which views are added.
        Raises BadUse."""
        self._is_interactive = is_interactive
        self._is_refused = given == NO_VALUE
        self._is_existing = existing is not None
        if existing is None and given is not None and not self._is_refused:
            existing = open_registry(given)
        self.source = None if existing is None else FetchedSchemas(existing)
        self._is_used = False  # whether a view needs it

    @property
    def toml(self) -> str:
        """The table [schemas] that the views need; empty if the file has it, or if none is
        needed."""
        if self.source is None or self._is_existing or not self._is_used:
            return ""
        return schemas_toml(self.source.name)

    def registry(self) -> SchemaRegistry:
        """The registry, which is then a part of the file. Raises BadUse if the user has none."""
        source = None if self.source is None else self.source.source
        if not isinstance(source, SchemaRegistry):
            raise BadUse(f"Give the URL of the schema registry with {REGISTRY_OPTION}.")
        self._is_used = True
        return source

    def documents(self, chosen: Inference, samples: Sequence[bytes]) -> list[bytes]:
        """The keys or values as JSON, without those that cannot be read; empty if the format has no
        documents."""
        codec = FORMATS[chosen.value or ""].codec_with(chosen.schema, self.source)
        if not codec.is_document:
            return []
        return [codec.to_json(raw) for raw in samples if _is_valid(codec, raw)]

    def resolved(
        self, topic: str, what: str, inferred: Inference, samples: Sequence[bytes]
    ) -> Inference:
        """The format by the schemas. If it needs them and cannot have them, the user is asked.
        Without a terminal, it raises BadUse or NoRegistry."""
        if by_schema := self._by_schema(topic, what, inferred, samples):
            return by_schema
        if inferred.value is not None:
            is_open = bool(inferred.schema_ids) and self.source is None
            hint = f": {REGISTRY_OPTION} tells" if is_open else ""
            return replace(inferred, reason=inferred.reason + hint)
        if not (self._is_interactive or self._is_refused):
            why = inferred.reason[:1].upper() + inferred.reason[1:]
            raise BadUse(f"The {what}s of {topic} cannot be read. {why}. {_NONE}.")
        return Inference("bytes", Confidence.GUESS, inferred.reason)

    def _by_schema(
        self, topic: str, what: str, inferred: Inference, samples: Sequence[bytes]
    ) -> Inference | None:
        """None if the samples name no schemas, or if the user has no registry."""
        may_be_numbers = inferred.value is not None
        while inferred.schema_ids and not self._is_refused:
            if self.source is None:
                if may_be_numbers:
                    return None
                if not self._is_interactive:
                    raise BadUse(
                        f"The {what}s of {topic} are {inferred.reason}: only their schema registry "
                        f"says what format they have. Give its URL with {REGISTRY_OPTION}, and its "
                        f"user:password in {AUTH_VARIABLE}. {_NONE}."
                    )
                print_stderr(f"{topic}: the {what}s are {inferred.reason}")
                self._ask()
                continue
            try:
                by_schema = _by_source(self.source, inferred, samples)
            except (SchemaSourceUnavailable, ValueError) as error:
                if may_be_numbers and isinstance(error, ValueError):
                    return None
                self._report(topic, what, error)
                continue
            if may_be_numbers and by_schema.confidence is not Confidence.CERTAIN:
                return None
            self._is_used = self._is_used or _needs_schemas(by_schema)
            return by_schema
        return None

    def _report(self, topic: str, what: str, error: Exception) -> None:
        """Say why the schemas of a topic cannot be had, and ask for another registry. Raises
        QueryableError if no user can be asked."""
        hint = "It is in [schemas] of the views file." if self._is_existing else _HINT
        if not self._is_existing and not self._is_interactive:
            hint = f"{hint} Set it with {REGISTRY_OPTION}."
        text = f"The {what}s of {topic}: {str(error).rstrip('.')}. {hint}"
        is_away = isinstance(error, SchemaSourceUnavailable)
        if self._is_existing or not self._is_interactive:
            failed: QueryableError = NoRegistry(text) if is_away else BadUse(text)
            raise failed from None
        print_stderr(text)
        self._ask()

    def _ask(self) -> None:
        """Ask for the registry until it is one, or none."""
        known = self.source.name if self.source is not None else ""
        while True:
            answer = read_answer(f"Schema registry (URL, or {NO_VALUE} for none)", known)
            if answer is None:
                raise BadUse("The input ended before all questions were answered.")
            if answer == NO_VALUE:
                self._is_refused = True
                return
            if not answer:
                continue
            try:
                source = open_registry(answer)
            except BadUse as error:
                print_stderr(error.detail)
                continue
            if self._is_used and source.name != known:
                print_stderr(f"Another view needs {known}, and a views file has one registry.")
                continue
            self.source = FetchedSchemas(source)
            return


def _by_source(source: FetchedSchemas, inferred: Inference, samples: Sequence[bytes]) -> Inference:
    """The format of the most frequent schema. Raises SchemaSourceUnavailable, and ValueError if the
    source has no schema that fits."""
    by_id: dict[int, str] = {}
    error = ValueError("no record names a schema")
    for schema_id in inferred.schema_ids[:_MAX_SCHEMAS]:
        try:
            by_id[schema_id] = source.fetch(schema_id).format
        except ValueError as refused:
            name = refused.format_name if isinstance(refused, SchemaNotParsed) else None
            if name is not None:
                by_id[schema_id] = name
            error = ValueError(f"{source.name}, schema {schema_id}: {refused}")
    if not by_id:
        raise error
    name, ids = next(iter(by_id.values())), ", ".join(map(str, sorted(by_id)))
    codec = FORMATS[name].codec_with(CONFLUENT, source)
    fitting = sum(_is_valid(codec, raw) for raw in samples)
    if not fitting:
        raise ValueError(f"{source.name}, schema {ids}: they do not fit it")
    return Inference(
        name,
        Confidence.CERTAIN if fitting == len(samples) else Confidence.LIKELY,
        f"schema {ids} of the registry, which {fitting} of {len(samples)} fit",
        CONFLUENT,
    )


def _needs_schemas(inferred: Inference) -> bool:
    return any(schema_format.name == inferred.value for schema_format in SCHEMA_FORMATS)


def _is_valid(codec: Codec, raw: bytes) -> bool:
    try:
        codec.check(raw)
    except (ValueError, Unavailable):
        return False
    return True
