"""What the schemas say that records name, and what the user is asked for."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from model.views_file import parse_views
from queryable.cli.adopt.schemas import Schemas
from queryable.cli.exit_codes import UNAVAILABLE, USAGE_ERROR, NoRegistry, exit_code_of
from queryable.cli.inspection.formats import infer_format
from queryable.cli.inspection.inference import Confidence, Inference
from queryable.cli.inspection.schema_sources import open_registry
from queryable.client.protocol.errors import BadUse, QueryableError
from tests.support.in_process.avro_examples import ORDER, FakeRegistry, framed, registry
from tests.support.in_process.protobuf_examples import SHOP, order, serialized
from tests.support.in_process.protobuf_examples import framed as framed_message
from tests.vectors.frames import frames

AVRO = [framed(7, ORDER, {"id": n, "price": 2.5, "note": None}) for n in range(1, 50)]
PROTOBUF = [framed_message(3, order(order_id=n)) for n in range(1, 50)]
NO_JSON = [b"\0\0\0\0\5NaN", *[b'\0\0\0\0\5{"id":%d}' % n for n in range(49)]]
AUTH = "QUERYABLE_SCHEMA_REGISTRY_AUTH"

Answer = Callable[[str], None]


@pytest.fixture
def running() -> Iterator[FakeRegistry]:
    with registry() as started:
        started.add(7, ORDER)
        for query, text in (("", 'syntax = "proto3";'), ("?format=serialized", serialized(SHOP))):
            document = {"schema": text, "schemaType": "PROTOBUF"}
            started.answers[f"/schemas/ids/3{query}"] = (200, document)
        started.answers["/schemas/ids/5"] = (200, {"schema": "{}", "schemaType": "JSON"})
        yield started


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """What the user types, one line for each question."""
    return lambda typed: monkeypatch.setattr(sys, "stdin", io.StringIO(typed))


def resolved(schemas: Schemas, samples: list[bytes], what: str = "value") -> Inference:
    return schemas.resolved("orders", what, infer_format(samples, what == "key"), samples)


@pytest.mark.parametrize("what", ["key", "value"])
@pytest.mark.parametrize(
    ("samples", "name", "schema_id"), [(AVRO, "avro", 7), (PROTOBUF, "protobuf", 3)]
)
def test_the_format_is_the_type_of_the_schema(
    running: FakeRegistry, what: str, samples: list[bytes], name: str, schema_id: int
) -> None:
    schemas = Schemas(f"{running.url}/")
    assert schemas.toml == ""
    found = resolved(schemas, samples, what)
    assert (found.value, found.schema, found.confidence) == (
        name, "confluent", Confidence.CERTAIN
    )  # fmt: skip
    assert found.reason == f"schema {schema_id} of the registry, which 49 of 49 fit"
    view = '[views.v]\ntopic = "t"\nkey = "string"\nvalue = "json"\n'
    assert parse_views(schemas.toml + view).registry == running.url
    first = len(running.asked)
    resolved(schemas, samples, what)
    assert len(running.asked) == first, "each schema is fetched once"


def test_json_schema_is_json_with_a_frame_and_needs_no_table(running: FakeRegistry) -> None:
    schemas = Schemas(running.url)
    found = resolved(schemas, NO_JSON)
    assert (found.value, found.schema) == ("json", "confluent")
    assert found.confidence is Confidence.LIKELY
    assert "49 of 50 fit" in found.reason
    assert schemas.toml == ""
    running.asked.clear()
    assert resolved(schemas, NO_JSON[1:]).value == "json"
    assert running.asked == [], "no registry is needed if all are JSON"


def test_the_most_frequent_schema_says_the_format(running: FakeRegistry) -> None:
    found = resolved(Schemas(running.url), [*PROTOBUF[:40], *AVRO[:5]])
    assert (found.value, found.confidence) == ("protobuf", Confidence.LIKELY)
    assert found.reason == "schema 3, 7 of the registry, which 40 of 45 fit"


def test_a_schema_that_is_missing_next_to_others_is_no_obstacle(running: FakeRegistry) -> None:
    other = [framed(8, ORDER, {"id": 1, "price": 2.5, "note": None})] * 45
    found = resolved(Schemas(running.url), [*AVRO[:40], *other])
    assert (found.value, found.confidence) == ("avro", Confidence.LIKELY)
    assert "schema 7 of the registry, which 40 of 85 fit" in found.reason


def test_a_few_records_without_a_frame_do_not_hide_it(running: FakeRegistry) -> None:
    """Regression: one of them made all records `bytes`."""
    odd = [b"{}", b"\0\0\0\0\7"]
    assert "framed by" in refused(Schemas(), [*odd, *AVRO]).detail
    found = resolved(Schemas(running.url), [*odd, *AVRO])
    assert (found.value, found.confidence) == ("avro", Confidence.LIKELY)
    assert "which 49 of 51 fit" in found.reason
    found = resolved(Schemas(), [b"{}", *NO_JSON[1:]])
    assert (found.value, found.schema, found.confidence) == (
        "json", "confluent", Confidence.LIKELY
    )  # fmt: skip
    glue = [frames()["AWS Glue, NONE"].record] * 20
    with pytest.raises(BadUse, match=r"cannot be read\. 20 of 21 have the frame of AWS Glue"):
        resolved(Schemas(), [b"{}", *glue])
    # frames of half of the records may be chance
    assert resolved(Schemas(), [*AVRO[:20], *[b"\xff\xfe"] * 20]).value == "bytes"


def test_numbers_are_what_their_schema_says_if_there_is_one(running: FakeRegistry) -> None:
    keys = [framed(9, "string", text) for text in ("ab", "cd")]
    found = resolved(Schemas(), keys, "key")
    assert (found.value, found.confidence) == ("int64", Confidence.GUESS)
    assert "or framed by Confluent's serializers, schema 9: --schema-registry tells" in found.reason
    schemas = Schemas(running.url)
    assert resolved(schemas, keys, "key").value == "int64"
    running.add(9, "string")
    schemas = Schemas(running.url)
    assert resolved(schemas, keys, "key").value == "avro"
    assert schemas.toml
    some = [*keys, keys[0][:6] + b"\xff\xff"]  # no UTF-8
    assert resolved(Schemas(running.url), some, "key").value == "int64", "not all fit"
    with registry() as stopped:
        url = stopped.url
    with pytest.raises(NoRegistry, match="does not answer"):
        resolved(Schemas(url), keys, "key")
    running.add(9, "long")
    assert resolved(Schemas(running.url), keys, "key").value == "int64", "it does not fit"


def refused(schemas: Schemas, samples: list[bytes] = AVRO) -> QueryableError:
    with pytest.raises((BadUse, NoRegistry)) as raised:
        resolved(schemas, samples)
    assert "--schema-registry" in raised.value.detail
    assert raised.value.detail.startswith("The values of orders")
    return raised.value


def test_without_a_terminal_and_a_registry_nothing_is_guessed() -> None:
    error = refused(Schemas())
    assert exit_code_of(error) == USAGE_ERROR
    assert AUTH in error.detail
    assert "`--schema-registry -` serves them as bytes" in error.detail
    assert resolved(Schemas("-"), AVRO).value == "bytes"


def test_a_registry_that_is_away_is_said() -> None:
    with registry() as stopped:
        url = stopped.url
    error = refused(Schemas(url))
    assert exit_code_of(error) == UNAVAILABLE
    assert f"{url} does not answer: " in error.detail


@pytest.mark.parametrize(
    ("auth", "why"),
    [
        ("", f"set user:password in {AUTH}"),
        ("me:wrong", f"it refuses the user or the password in {AUTH}"),
    ],
)
def test_a_registry_that_refuses_says_where_the_password_is(
    running: FakeRegistry, monkeypatch: pytest.MonkeyPatch, auth: str, why: str
) -> None:
    running.accepted.add("me:secret")
    monkeypatch.setenv(AUTH, auth)
    error = refused(Schemas(running.url))
    assert f"{running.url}/schemas/ids/7 answers 401: {why}" in error.detail
    assert "me:wrong" not in error.detail
    monkeypatch.setenv(AUTH, "me:${env:REGISTRY_PASSWORD}")
    with pytest.raises(BadUse, match=rf"{AUTH}.*REGISTRY_PASSWORD"):
        Schemas(running.url)
    monkeypatch.setenv("REGISTRY_PASSWORD", "secret")
    assert resolved(Schemas(running.url), AVRO).value == "avro"


def test_other_servers_and_other_registries_are_told_apart(running: FakeRegistry) -> None:
    running.answers["/schemas/ids/7"] = (404, {"error_code": 40403, "message": "not found"})
    error = refused(Schemas(running.url))
    assert (exit_code_of(error), "the registry has no schema with this id" in error.detail) == (
        USAGE_ERROR, True
    )  # fmt: skip
    running.answers["/schemas/ids/7"] = (404, b"<html>")
    error = refused(Schemas(running.url))
    assert exit_code_of(error) == UNAVAILABLE
    assert "answers 404" in error.detail
    assert "/apis/ccompat/v7" in error.detail
    running.add(7, "int")
    assert "schema 7: they do not fit it" in refused(Schemas(running.url)).detail
    running.answers["/schemas/ids/7"] = (200, {"schema": "", "schemaType": "XSD"})
    assert "schemas of type XSD are not supported" in refused(Schemas(running.url)).detail
    proto = running.answers["/schemas/ids/3"]
    running.answers["/schemas/ids/3?format=serialized"] = proto
    error = refused(Schemas(running.url), PROTOBUF)
    assert "does not support format=serialized of PROTOBUF schemas" in error.detail


def test_a_url_with_a_password_is_refused_without_showing_it() -> None:
    for url in ("http://me:s3cret@registry:8081", "registry:8081", "http://registry?a=b"):
        with pytest.raises(BadUse, match="--schema-registry: ") as raised:
            Schemas(url)
        assert "s3cret" not in str(raised.value)
        assert (AUTH in str(raised.value)) == ("@" in url)


def test_at_a_terminal_it_is_asked_for_until_it_has_the_schema(
    running: FakeRegistry, answers: Answer, capsys: pytest.CaptureFixture[str]
) -> None:
    with registry() as other:
        answers(f"\nlocalhost:8081\n{other.url}\n{running.url}\n")
        schemas = Schemas(is_interactive=True)
        assert resolved(schemas, AVRO).value == "avro"
    shown = capsys.readouterr().err
    assert "orders: the values are framed by Confluent's serializers, schema 7" in shown
    assert '"localhost:8081" is not a URL such as "http://host:8081"' in shown
    assert f"{other.url}, schema 7: the registry has no schema with this id" in shown
    assert f"[{other.url}]: " in shown, "Enter asks it once more"
    assert running.url in schemas.toml
    # the next topic is not asked for it, and the file has one registry
    assert resolved(schemas, PROTOBUF).value == "protobuf"
    unknown = [b"\0\0\0\0\x44\x00\x08\x01"[:7]] * 20
    answers(f"http://127.0.0.1:9\n{running.url}\n-\n")
    assert resolved(schemas, unknown).value == "bytes"
    assert f"Another view needs {running.url}" in capsys.readouterr().err
    assert running.url in schemas.toml


def test_none_is_an_answer(answers: Answer, capsys: pytest.CaptureFixture[str]) -> None:
    answers("-\n")
    schemas = Schemas(is_interactive=True)
    found = resolved(schemas, AVRO)
    assert (found.value, found.confidence) == ("bytes", Confidence.GUESS)
    assert resolved(schemas, PROTOBUF).value == "bytes"
    assert capsys.readouterr().err.count("Schema registry") == 1
    answers("")
    with pytest.raises(BadUse, match="input ended"):
        resolved(Schemas(is_interactive=True), AVRO)


def test_frames_that_are_not_read_ask_for_no_registry(answers: Answer) -> None:
    glue = [frames()["AWS Glue, NONE"].record] * 20
    answers("")
    assert resolved(Schemas(is_interactive=True), glue).value == "bytes"


def test_the_source_of_an_existing_file_is_used_and_not_written(running: FakeRegistry) -> None:
    schemas = Schemas(existing=open_registry(running.url))
    assert resolved(schemas, AVRO).value == "avro"
    assert schemas.toml == ""
    running.answers.clear()
    with pytest.raises(BadUse, match=r"no schema with this id\. It is in \[schemas\]"):
        resolved(Schemas(existing=open_registry(running.url), is_interactive=True), AVRO)


def test_documents_are_those_of_the_format(running: FakeRegistry) -> None:
    schemas = Schemas(running.url)
    documents = partial(schemas.documents, resolved(schemas, PROTOBUF))
    assert b'"orderId":"1"' in documents(PROTOBUF[:1])[0].replace(b" ", b"")
    assert documents([b"", PROTOBUF[0][:7]]) == []
    assert schemas.documents(Inference("string", Confidence.CERTAIN), [b"a"]) == []
    assert schemas.documents(Inference("json", Confidence.CERTAIN), [b"[1]", b"]"]) == [b"[1]"]
