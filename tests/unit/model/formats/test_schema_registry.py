"""What the client of a schema registry sends, and what it makes of odd answers. The registry is a
function: tests of backends and of Spark use one over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from model.formats import schema_registry
from model.formats.format import Origin
from model.formats.registry import SCHEMA_FORMATS
from model.formats.schema_registry import RegistryClient, SchemaNotParsed, SchemaSourceUnavailable
from model.formats.schemas import SchemaNotFound
from model.http.answers import Answer, AnswerTooLong, RequestFailed, basic
from model.http.requests import send
from tests.unit.model.http.servers import HEADS, dripping, proxy

URL = "http://registry.test/base"
AVRO = next(each for each in SCHEMA_FORMATS if each.registry_type == "AVRO")


class FakeServers:
    """Sends requests to `answers`, which has them by URL, and keeps them."""

    def __init__(self, answers: Mapping[str, Answer | Exception]) -> None:
        self.answers = answers
        self.sent: list[tuple[str, str, Any]] = []

    def __call__(self, url: str, *_: Any, headers: Mapping[str, str], **options: Any) -> Answer:
        method = "POST" if "body" in options else "GET"
        self.sent.append((method, url, headers.get("Authorization")))
        answer = self.answers[url]
        if isinstance(answer, Exception):
            raise answer
        return answer


def answer(document: object = None, status: int = 200, **headers: str) -> Answer:
    return Answer(status, headers, orjson.dumps(document))


def client(servers: FakeServers) -> RegistryClient:
    return RegistryClient(URL, "me:secret", servers)


def test_a_redirect_is_followed_without_the_password() -> None:
    servers = FakeServers(
        {
            f"{URL}/schemas/ids/7": answer(status=301, Location="/other/7"),
            "http://registry.test/other/7": answer(status=308, Location="https://b.test/7"),
            "https://b.test/7": answer({"schema": '"int"'}),
        }
    )
    assert client(servers).registered(7).text == '"int"'
    assert servers.sent == [
        ("GET", f"{URL}/schemas/ids/7", basic("me:secret")),
        ("GET", "http://registry.test/other/7", None),
        ("GET", "https://b.test/7", None),
    ]


@pytest.mark.parametrize("location", [{}, {"Location": f"{URL}/schemas/ids/7"}])
def test_redirects_without_an_end(location: dict[str, str]) -> None:
    servers = FakeServers({f"{URL}/schemas/ids/7": answer(status=302, **location)})
    with pytest.raises(SchemaSourceUnavailable, match="answers 302"):
        client(servers).fetch(7)
    assert len(servers.sent) == (6 if location else 1)


@pytest.mark.parametrize(
    ("auth", "why"),
    [
        ("", "set user:password in QUERYABLE_SCHEMA_REGISTRY_AUTH"),
        ("me:x", "it refuses the user or the password in QUERYABLE_SCHEMA_REGISTRY_AUTH"),
    ],
)
def test_a_registry_that_refuses_says_where_the_password_is(auth: str, why: str) -> None:
    servers = FakeServers({f"{URL}/schemas/ids/7": answer(status=401)})
    with pytest.raises(SchemaSourceUnavailable) as raised:
        RegistryClient(URL, auth, servers).fetch(7)
    assert str(raised.value) == f"{URL}/schemas/ids/7 answers 401: {why}"


def test_schemas_of_other_types_name_the_format_of_their_records() -> None:
    for schema_type, name in (("JSON", "json"), ("XSD", None)):
        document = {"schema": "{}", "schemaType": schema_type}
        servers = FakeServers({f"{URL}/schemas/ids/7": answer(document)})
        with pytest.raises(SchemaNotParsed, match=f"type {schema_type} are not") as raised:
            client(servers).fetch(7)
        assert raised.value.format_name == name


def test_a_schema_is_registered_at_one_server_only() -> None:
    url = f"{URL}/subjects/a%2Fb/versions"
    assert client(FakeServers({url: answer({"id": 3})})).register("a/b", AVRO, '"int"') == 3
    servers = FakeServers({url: answer(status=307, Location="http://b.test")})
    with pytest.raises(SchemaSourceUnavailable, match="answers 307"):
        client(servers).register("a/b", AVRO, '"int"')
    assert servers.sent == [("POST", url, basic("me:secret"))]


def test_a_schema_that_is_too_long_stays_so_and_a_registry_that_is_away_does_not() -> None:
    url = f"{URL}/schemas/ids/7"
    with pytest.raises(ValueError, match="the schema has more than 8388608 bytes"):
        client(FakeServers({url: AnswerTooLong("long")})).fetch(7)
    with pytest.raises(SchemaSourceUnavailable, match=rf"{URL} does not answer: refused"):
        client(FakeServers({url: RequestFailed("refused")})).fetch(7)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_registry_that_drips_is_not_waited_for(
    head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: it held the thread for as long as it sent a byte now and then."""
    monkeypatch.setattr(schema_registry, "_TIMEOUT_S", 0.2)
    with dripping(head) as url, pytest.raises(SchemaSourceUnavailable, match="in time"):
        RegistryClient(url, "", send).fetch(7)


def test_a_redirect_to_a_file_is_not_followed() -> None:
    servers = FakeServers({f"{URL}/schemas/ids/7": answer(status=302, Location="file:///7.avsc")})

    def sent(url: str, *limits: Any, **options: Any) -> Answer:
        return (servers if url.startswith(URL) else send)(url, *limits, **options)

    with pytest.raises(SchemaSourceUnavailable, match="the URL or a header"):
        RegistryClient(URL, "", sent).fetch(7)


def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "")
    with proxy() as running:
        monkeypatch.setenv("http_proxy", running.url)
        with pytest.raises(SchemaSourceUnavailable, match="does not answer like a schema registry"):
            RegistryClient(URL, "", send).fetch(7)
    assert running.heads[0].startswith(f"GET {URL}/schemas/ids/7 ")


def test_the_newest_schema_of_a_subject() -> None:
    versions = f"{URL}/subjects/a%2Fb-value/versions"
    newest = {"subject": "a/b-value", "version": 3, "id": 7, "schema": '"int"'}
    origin, schema = client(FakeServers({f"{versions}/latest": answer(newest)})).newest("a/b-value")
    assert origin == Origin("a/b-value", 3, 7)
    assert (schema.format.name, schema.text) == ("avro", '"int"')
    # the form that is parsed, with a reference; that of this version, whichever is newest then
    proto = {**newest, "schemaType": "PROTOBUF", "schema": "message A {}"}
    form = "?format=serialized"
    servers = FakeServers({
        f"{versions}/latest": answer(proto),
        f"{versions}/3{form}": answer({**proto, "schema": "AA==", "references": [
            {"name": "c.proto", "subject": "c", "version": 1}]}),
        f"{URL}/subjects/c/versions/1{form}": answer({"schema": "AQ=="}),
    })  # fmt: skip
    _, schema = client(servers).newest("a/b-value")
    assert (schema.text, schema.references) == ("AA==", (("c.proto", "AQ=="),))
    # a schema of JSON has fields, though records are read without it
    of_json = {**newest, "schemaType": "JSON", "schema": "{}"}
    _, schema = client(FakeServers({f"{versions}/latest": answer(of_json)})).newest("a/b-value")
    assert schema.format.name == "json"
    with pytest.raises(SchemaNotParsed):
        schema.parsed()
    missing = answer({"error_code": 40401, "message": "Subject not found."}, 404)
    with pytest.raises(SchemaNotFound, match="the registry has no subject a/b-value"):
        client(FakeServers({f"{versions}/latest": missing})).newest("a/b-value")
    with pytest.raises(SchemaSourceUnavailable, match="does not answer like a schema registry"):
        client(FakeServers({f"{versions}/latest": answer({"schema": "{}"})})).newest("a/b-value")
