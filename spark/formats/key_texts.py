"""The texts of keys that are documents, as Kafka Connect and Debezium write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from model.formats.json import JsonCodec
from model.formats.schema_registry import RegisteredSchema
from model.keys.codec import KeyFields
from spark.errors import JobError
from spark.formats.registry import URL, Registry, framed_decoder, registry_of

_FRAME_START = b"\0"  # JSON begins with another byte


@dataclass(frozen=True, slots=True)
class KeyTexts:
    """Reads keys by their ``fields``: JSON, or documents with Confluent's frame, whose schemas come
    from the registry. Spark sends it to its workers."""

    fields: tuple[str, ...]
    registry: Registry | None = None

    def bound(self, session: SparkSession) -> KeyTexts:
        """With the registry of the deployment, if it has one."""
        if not session.conf.get(URL, ""):
            return self
        return replace(self, registry=registry_of(session))

    def reader(self) -> Callable[[bytes], str]:
        """A function from a key to its text, for one task. Raises ValueError with the reason if the
        key has none."""
        documents = KeyFields(JsonCodec(), self.fields)

        def written_with(schema: RegisteredSchema) -> Callable[[bytes], str]:
            parsed = schema.parsed()
            return lambda raw: documents.derived_text(parsed.to_json(raw))

        framed = (
            None
            if self.registry is None
            else framed_decoder(self.registry, ("key", self.fields), written_with)
        )

        def read(key: bytes) -> str:
            if not key.startswith(_FRAME_START):
                return documents.derived_text(key)
            if framed is None:
                raise JobError(
                    "the keys name their schemas, but there is no schema registry. Set registry in "
                    "[schemas] of --views-toml"
                )
            text: str = framed(key)
            return text

        return read
