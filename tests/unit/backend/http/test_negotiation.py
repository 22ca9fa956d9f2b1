"""Representations of a value (JSON, record bytes, Avro) and their choice by Accept."""

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.http.negotiation import ARROW, NDJSON, chosen, stream_type, wants_lines
from backend.http.router import Router
from backend.queries.routing import ReadOptions
from backend.storage.data_directory import DataDirectory
from model.formats.avro.schema import AvroSchema
from model.problems import NotAcceptable, Unavailable
from model.views import View
from tests.support.in_process.avro_examples import ORDER, FakeSchemas, binary, framed
from tests.support.in_process.examples import view
from tests.support.in_process.instance import Instance
from tests.support.in_process.requests import asked

ALL = ("json", "octet-stream", "avro")
OCTETS = ReadOptions(representation="octet-stream")
AVRO = ReadOptions(representation="avro")
RECORD = {"id": 2**63 - 1, "price": math.nan, "note": None}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataDirectory]:
    folder = DataDirectory(tmp_path)
    yield folder
    folder.close()


@pytest.mark.parametrize(
    ("accept", "lines"),
    [
        ("application/x-ndjson", True),
        ("Application/X-NDJSON; charset=utf-8", True),
        ("application/x-ndjson, */*", True),
        ("application/x-ndjson, application/json;q=0.5", True),
        ("application/json;q=0.9, application/x-ndjson", True),
        # the header of the client that openapi-generator makes for Java
        ("application/json, application/x-ndjson, application/problem+json", False),
        ("application/x-ndjson, application/json", False),
        ("application/x-ndjson;q=0", False),
        ("application/x-ndjson2", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_lines_are_a_choice_of_the_client(accept: str, lines: bool) -> None:
    assert wants_lines([(b"accept", accept.encode())]) is lines


@pytest.mark.parametrize(
    ("accept", "streamed"),
    [
        ("application/vnd.apache.arrow.stream", ARROW),
        ("Application/Vnd.Apache.Arrow.Stream, */*;q=0.1", ARROW),
        ("application/x-ndjson;q=0.4, application/vnd.apache.arrow.stream;q=0.5", ARROW),
        ("application/x-ndjson, application/vnd.apache.arrow.stream", NDJSON),
        # of a generated client, which names all types of the document
        ("application/json, application/x-ndjson, application/vnd.apache.arrow.stream", None),
        ("application/vnd.apache.arrow.file", None),
        ("application/vnd.apache.arrow.stream;q=0", None),
    ],
)
def test_the_type_of_a_stream(accept: str, streamed: bytes | None) -> None:
    assert stream_type([(b"accept", accept.encode())]) == streamed


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "json"),
        ("*/*", "json"),
        ("application/json", "json"),
        ("application/*", "json"),
        ("application/avro", "avro"),
        ("Application/Avro", "avro"),
        ("application/octet-stream", "octet-stream"),
        ("application/json;q=0.5, application/avro", "avro"),
        ("application/avro;q=0.5,application/json;q=0.5", "json"),
        ("application/avro; charset=x; q=0.4, */*;q=0.3", "avro"),
        ("application/json;q=0, */*", "octet-stream"),
        ("application/*;q=0.1, application/avro;q=0", "json"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "json"),
        ("nonsense", "json"),
        ("", "json"),
        ("text/html", None),
        ("application/json;q=0", None),
        ("application/json;q=0.000", None),
        ("*/*;q=0", None),
    ],
)
def test_the_chosen_representation(accept: str | None, kind: str | None) -> None:
    headers = [] if accept is None else [(b"accept", accept.encode())]
    if kind is not None:
        assert chosen(headers, ALL) == kind
        return
    with pytest.raises(NotAcceptable) as error:
        chosen(headers, ALL)
    assert (error.value.status, error.value.code) == (406, "not-acceptable")
    assert "application/json, application/octet-stream, application/avro" in error.value.detail


def test_accept_in_two_lines() -> None:
    headers = [
        (b"accept", b"application/json;q=0.1"),
        (b"x", b""),
        (b"accept", b"application/avro"),
    ]
    assert chosen(headers, ALL) == "avro"


def test_only_views_with_avro_values_offer_avro() -> None:
    with pytest.raises(NotAcceptable):
        chosen([(b"accept", b"application/avro")], ALL[:2])


def held(folder: DataDirectory, of: View, value: bytes, key: bytes = b"a") -> Instance:
    instance = Instance(folder, of)
    instance.place(0)
    instance.hold(0, {key: value})
    return instance


@pytest.mark.parametrize(
    ("value", "raw", "body"),
    [
        ("json", b'{ "n":1.0 }', b'{ "n":1.0 }'),
        ("int64", struct.pack(">q", -5), struct.pack(">q", -5)),
        ("float64", struct.pack(">d", math.nan), struct.pack(">d", math.nan)),
        ("string", "é".encode(), "é".encode()),
        ("bytes", b"\xff\0", b"\xff\0"),
        ("none", b"", b""),
    ],
)
def test_the_record_bytes_of_a_value(
    folder: DataDirectory, value: str, raw: bytes, body: bytes
) -> None:
    instance = held(folder, view(value=value), raw)
    plain, answer = instance.read(b"a"), instance.read(b"a", OCTETS)
    assert (answer.status, answer.body) == (200, body)
    headers, plain_headers = dict(answer.headers), dict(plain.headers)
    assert headers[b"content-type"] == b"application/octet-stream"
    assert headers[b"vary"] == plain_headers[b"vary"] == b"accept"
    assert headers[b"etag"] == plain_headers[b"etag"].replace(b"-json", b"-octet-stream")
    assert headers[b"offset"] == plain_headers[b"offset"]
    assert instance.read(b"b", OCTETS).status == 404
    counts = instance.reads.counts
    assert (counts.found, counts.missed) == (2, 1)
    instance.close()


def test_bare_avro(folder: DataDirectory) -> None:
    of = view(value="avro", value_schema=json.dumps(ORDER))
    raw = binary(ORDER, RECORD)
    instance = held(folder, of, raw)
    assert instance.read(b"a").body == (
        b'{"key":"a","value":{"id":9223372036854775807,"price":"NaN","note":null}}'
    )
    answer = instance.read(b"a", AVRO)
    headers = dict(answer.headers)
    assert answer.body == raw
    assert headers[b"content-type"] == b"application/avro"
    assert headers[b"schema-fingerprint"].decode() == AvroSchema(json.dumps(ORDER)).fingerprint
    assert b"schema-id" not in headers
    assert headers[b"etag"].endswith(b'-avro"')
    assert instance.read(b"a", OCTETS).body == raw
    instance.close()


def test_framed_avro(folder: DataDirectory) -> None:
    schemas = FakeSchemas()
    of = replace(view(value="avro", value_schema="confluent"), schemas=schemas)
    raw = framed(7, ORDER, RECORD)
    instance = held(folder, of, raw)
    for options in (ReadOptions(), AVRO):
        assert instance.refusal(b"a", options).code == "schema-unavailable"
    assert instance.reads.counts.found == 0
    assert instance.read(b"a", OCTETS).body == raw, "it needs no schema"
    schemas.by_id[7] = ORDER
    answer = instance.read(b"a", AVRO)
    assert answer.body == raw[5:]
    assert dict(answer.headers)[b"schema-id"] == b"7"
    assert json.loads(instance.read(b"a").body)["value"]["id"] == 2**63 - 1
    instance.close()


def test_avro_keys(folder: DataDirectory) -> None:
    schema = {"type": "record", "name": "K", "fields": [{"name": "n", "type": "long"}]}
    of = view(key="avro", key_schema=json.dumps(schema))
    key = binary(schema, {"n": 2**60})
    instance = held(folder, of, b"1", key)
    parsed = instance.reads.parse_key(b'{ "n": %d }' % 2**60)
    assert parsed == key
    assert instance.read(parsed).body == b'{"key":{"n":%d},"value":1}' % 2**60
    instance.close()


# through the router


def test_requests_with_an_accept_header(folder: DataDirectory) -> None:
    of = view(value="avro", value_schema=json.dumps(ORDER))
    raw = binary(ORDER, RECORD)
    instance = held(folder, of, raw)
    shell = Router(instance.context, None)  # type: ignore[arg-type]
    path = "/views/orders/keys/a"
    status, headers, body = asked(shell, path, accept="application/avro")
    assert (status, body, headers[b"content-length"]) == (200, raw, b"%d" % len(raw))
    status, again, body = asked(shell, path, "HEAD", accept="application/avro")
    assert (status, body, again[b"schema-fingerprint"]) == (
        200,
        b"",
        headers[b"schema-fingerprint"],
    )
    etag = headers[b"etag"].decode()
    known = {"accept": "application/avro", "if-none-match": etag}
    assert asked(shell, path, **known)[0] == 304
    # another representation has another ETag
    assert asked(shell, path, **{"if-none-match": etag})[0] == 200
    status, _, body = asked(shell, path, accept="text/html")
    assert (status, json.loads(body)["code"]) == (406, "not-acceptable")
    plain = asked(shell, f"{path}?stale=allow", accept="*/*")
    now = shell.fast_path.answer_now(path.encode())
    assert now is not None
    assert plain == (200, dict(now.headers), now.body)
    instance.close()


def test_a_framed_key_is_given_as_its_bytes(folder: DataDirectory) -> None:
    import base64

    of = replace(
        view(key="avro", key_schema="confluent"), schemas=FakeSchemas(id7="long", id9=None)
    )
    key = framed(7, "long", 5)
    instance = held(folder, of, b"1", key)
    shell = Router(instance.context, None)  # type: ignore[arg-type]

    def status(raw: bytes) -> tuple[int, str]:
        text = base64.urlsafe_b64encode(raw).decode()
        found, _, body = asked(shell, f"/views/orders/keys/{text}?encoding=base64url")
        return found, json.loads(body).get("code", body.decode())

    assert status(key) == (200, '{"key":5,"value":1}')
    assert status(framed(9, "long", 5)) == (400, "key-undecodable")
    assert status(b"\1") == (400, "key-undecodable")
    assert status(framed(8, "long", 5)) == (503, "schema-unavailable")
    found, _, body = asked(shell, "/views/orders/keys/5")
    assert (found, json.loads(body)["code"]) == (400, "key-undecodable")
    assert "encoding=base64url" in json.loads(body)["detail"]
    instance.close()


def test_a_schema_that_the_registry_no_longer_has(folder: DataDirectory) -> None:
    of = replace(view(value="avro", value_schema="confluent"), schemas=FakeSchemas(id7=None))
    instance = held(folder, of, framed(7, ORDER, RECORD))
    with pytest.raises(Unavailable, match="knows no schema"):
        instance.read(b"a")
    instance.close()
