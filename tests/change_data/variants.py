"""The ways in which connectors write: with and without the envelope, and in each format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from bench.references.postgres import USER, Postgres
from local.ports import LOOPBACK

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_AVRO = "io.apicurio.registry.utils.converter.AvroConverter"
_FLAT = "io.debezium.transforms.ExtractNewRecordState"
# what docs/reference/change-data.md says to set, for values as people expect them
_AS_TEXT = {
    "decimal.handling.mode": "string",
    "time.precision.mode": "connect",
    "interval.handling.mode": "string",
    "binary.handling.mode": "hex",
}


class Format(Enum):
    JSON = "JSON without schemas"
    SCHEMAS = "JSON with schemas"
    AVRO = "Avro"


@dataclass(frozen=True, slots=True)
class Variant:
    """`name`: of the connector, and the start of its topics' names."""

    name: str
    format: Format
    is_flat: bool = False
    """Whether ExtractNewRecordState takes the row out of the envelope."""

    is_text: bool = False
    """Whether the handling modes are those that the docs recommend, not the defaults."""

    def topic(self, table: str) -> str:
        return f"{self.name}.public.{table}"

    def properties(self, server: Postgres, registry: str) -> dict[str, str]:
        """Of the connector. `registry`: the URL of Apicurio without a path."""
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": LOOPBACK,
            "database.port": str(server.port),
            "database.user": USER,
            "database.password": "",
            "database.dbname": "postgres",
            "topic.prefix": self.name,
            "slot.name": self.name,
            "publication.name": self.name,
            "schema.include.list": "public",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "3",
            "topic.creation.default.cleanup.policy": "compact",
            **(_AS_TEXT if self.is_text else {}),
            **({"transforms": "row", "transforms.row.type": _FLAT} if self.is_flat else {}),
            **self._converters(registry),
        }

    def _converters(self, registry: str) -> Mapping[str, str]:
        options = {"": _JSON, ".schemas.enable": str(self.format is Format.SCHEMAS).lower()}
        if self.format is Format.AVRO:
            options = {
                "": _AVRO,
                ".apicurio.registry.url": f"{registry}/apis/registry/v2",
                ".apicurio.registry.auto-register": "true",
                # the frame of Confluent's serializers, with ids of 4 bytes
                ".apicurio.registry.as-confluent": "true",
                ".apicurio.registry.use-id": "contentId",
                ".apicurio.registry.headers.enabled": "false",  # the default: ids in headers
            }
        converters = {
            f"{part}.converter{option}": value
            for part in ("key", "value")
            for option, value in options.items()
        }
        is_avro = self.format is Format.AVRO
        return converters | ({"schema.name.adjustment.mode": "avro"} if is_avro else {})


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("json", Format.JSON),
        Variant("json_flat", Format.JSON, is_flat=True),
        Variant("json_text", Format.JSON, is_text=True),
        Variant("schemas", Format.SCHEMAS),
        Variant("schemas_flat", Format.SCHEMAS, is_flat=True),
        Variant("avro", Format.AVRO),
        Variant("avro_flat", Format.AVRO, is_flat=True),
        Variant("avro_text", Format.AVRO, is_text=True),
    )
}
