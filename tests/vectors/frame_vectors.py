"""Prints what the serializers of confluent-kafka write, and what its Protobuf one registers.

It needs `confluent-kafka[schemaregistry,avro,json,protobuf]` 2.16 and no registry.
"""

from __future__ import annotations

import json

from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry._sync.mock_schema_registry_client import (
    MockSchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.type.money_pb2 import Money

ORDER = {"type": "object", "title": "Order", "properties": {"id": {"type": "integer"}}}
AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
IN_HEADER = {"schema.id.serializer": header_schema_id_serializer}


def main() -> None:
    client = MockSchemaRegistryClient({"url": "mock://"})
    of_json, of_avro = json.dumps(ORDER), json.dumps(AVRO)
    order, message = {"id": 4711, "note": "ä"}, Money(currency_code="EUR", units=5)
    for tool, serializer, value in (
        ("JSONSerializer", JSONSerializer(of_json, client), order),
        ("AvroSerializer", AvroSerializer(client, of_avro), order),
        ("ProtobufSerializer", ProtobufSerializer(Money, client), message),
        ("JSONSerializer, id in a header", JSONSerializer(of_json, client, conf=IN_HEADER), order),
        ("AvroSerializer, id in a header", AvroSerializer(client, of_avro, conf=IN_HEADER), order),
    ):
        headers: list[tuple[str, bytes]] = []
        context = SerializationContext(tool, MessageField.VALUE, headers)
        found = {"tool": f"confluent-kafka {tool}", "record": serializer(value, context).hex()}
        if headers:
            found["headers"] = {name: value.hex() for name, value in headers}
        if tool == "ProtobufSerializer":
            found["registered"] = client.get_latest_version(f"{tool}-value").schema.schema_str
        print(json.dumps(found))


if __name__ == "__main__":
    main()
