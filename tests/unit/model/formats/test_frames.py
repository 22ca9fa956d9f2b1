"""Frames of serializers: what is read, and what is refused by its name."""

from __future__ import annotations

import pytest

from model.formats.frames import schema_id_of
from model.formats.registry import FORMATS
from model.formats.schema_registry import RegistryClient, SchemaSourceUnavailable
from model.formats.schemas import CONFLUENT
from model.http.requests import send
from model.problems import ConfigurationError
from model.views import View
from model.views_file import parse_views
from tests.support.in_process.avro_examples import registry
from tests.vectors.frames import frames

FRAMES = frames()
JSON_SR = FRAMES["confluent-kafka JSONSerializer"].record
SHORT_IDS = FRAMES["Apicurio Legacy4ByteIdHandler"].record


def json_view(lines: str) -> View:
    [view] = parse_views(f'[views.t]\ntopic = "t"\n{lines}').views
    return view


def test_json_with_confluents_frame() -> None:
    view = json_view('key = "json"\nkey_schema = "confluent"\nvalue = "json"')
    framed = view.key_codec
    for raw, document in ((JSON_SR, '{"id":4711,"note":"ä"}'), (SHORT_IDS, '{"id":4711}')):
        framed.check(raw)
        assert framed.to_json(raw) == document.encode()
    with pytest.raises(ValueError, match="not JSON"):
        framed.check(JSON_SR[:-1])
    with pytest.raises(ValueError, match="without Confluent's framing"):
        framed.check(b'{"id":4711}')
    with pytest.raises(ValueError, match="encoding=base64url"):
        framed.from_text(b'{"id":4711}')
    # nginx cannot compose the record's bytes, as the schema id is not in a request
    assert view.routed_encodings == ("base64url",)
    assert json_view('key = "json"\nvalue = "json"').routed_encodings == ("text", "base64url")
    assert view.description()["key_schema"] == CONFLUENT


def test_json_needs_no_source_of_schemas_and_no_file() -> None:
    view = json_view('key = "string"\nvalue = "json"\nvalue_schema = "confluent"')
    assert view.value_codec.to_json(JSON_SR) == '{"id":4711,"note":"ä"}'.encode()
    assert view.hash != json_view('key = "string"\nvalue = "json"').hash
    with pytest.raises(ConfigurationError, match="JSON is read without a schema"):
        json_view('key = "string"\nvalue = "json"\nvalue_schema = "a.json"')


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("AWS Glue, NONE", "AWS Glue"),
        ("AWS Glue, ZLIB", "AWS Glue"),
        ("Apicurio DefaultIdHandler", "Apicurio's serializers with an id of 8 bytes"),
    ],
)
@pytest.mark.parametrize("name", ["json", "avro", "protobuf"])
def test_other_frames_are_refused_by_name(name: str, tool: str, reason: str) -> None:
    codec = FORMATS[name].codec_with(CONFLUENT, None)
    with pytest.raises(ValueError, match=reason):
        codec.check(FRAMES[tool].record)


def test_ids_and_payloads_that_only_look_like_another_frame() -> None:
    assert schema_id_of(JSON_SR) == 1
    assert schema_id_of(SHORT_IDS) == 7
    # an empty payload, or one of zeros, is no id of 8 bytes
    assert schema_id_of(bytes(5)) == 0
    assert schema_id_of(bytes(20)) == 0


def test_protobuf_that_is_registered_as_descriptors() -> None:
    """confluent-kafka for Python registers descriptors, and Apicurio returns what was registered,
    whatever form is asked for."""
    framed = FRAMES["confluent-kafka ProtobufSerializer"]
    document = {"schema": framed.registered, "schemaType": "PROTOBUF"}
    proto = {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}
    with registry() as running:
        client = RegistryClient(running.url, "", send)
        for query in ("", "?format=serialized"):
            running.answers[f"/schemas/ids/3{query}"] = (200, document)
            running.answers[f"/schemas/ids/4{query}"] = (200, proto)
            mixed = {**document, "references": [{"name": "a", "subject": "a", "version": 1}]}
            running.answers[f"/schemas/ids/5{query}"] = (200, mixed)
            running.answers[f"/subjects/a/versions/1{query}"] = (200, proto)
        schema = client.fetch(3)
        assert schema.to_json(framed.record[5:]) == b'{"currencyCode":"EUR","units":"5","nanos":0}'
        for schema_id in (4, 5):
            with pytest.raises(SchemaSourceUnavailable, match="does not support format=serialized"):
                client.fetch(schema_id)
