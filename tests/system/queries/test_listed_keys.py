"""Every key that a listing shows is found by its own text, through the proxy and directly, in all
formats; the count is that of the listing; what is counted can be read or is named unreadable."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from local.ports import free_ports
from local.waiting import wait_until
from model.formats.registry import KEY_CODECS
from tests.support.backends import Backend
from tests.support.client import Client, Response
from tests.support.deployment import views_toml
from tests.support.examples import examples
from tests.support.in_process.avro_examples import framed, registry
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer
from tests.unit.model.test_codecs import RAW
from tests.unit.model.test_listed_keys import in_url

PARTITIONS = 3
RECORD = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": ["null", "string"]}],
}
TEXTS = st.text(max_size=6) | st.sampled_from(["null", "a,b", "..", "a/../b", "\0", '"a"', "7"])
RECORDS = st.fixed_dictionaries(
    {"id": st.integers(-(2**63), 2**63 - 1), "region": st.none() | TEXTS}
)
NAMED = ["id", "region"]
SEVEN, SHORT = b"\0\0\0\7", b"\0\7"  # as int32, the second cannot be read
_END = re.compile(rb',"(?:value":7|unreadable":{[^{}]*})}$')
NEEDS_BYTES = "avro"
"""The text of a key does not say which schema id its bytes have. `key_fields` needs none."""

# a view for each ► its fields, and its record keys
KEYS = {
    **{name: ({"key": name}, raw) for name, raw in RAW.items()},
    "avro": (
        {"key": "avro", "key_schema": "confluent"},
        RECORDS.map(lambda record: framed(1, RECORD, record)),
    ),
    "json-fields": (
        {"key": "json", "key_fields": NAMED},
        st.builds(
            lambda record, spaces: json.dumps(record, indent=spaces).encode(),
            RECORDS,
            st.sampled_from([None, 1]),
        ),
    ),
    "avro-fields": (
        {"key": "avro", "key_schema": "confluent", "key_fields": NAMED},
        RECORDS.map(lambda record: framed(1, RECORD, record)),
    ),
}


@dataclass
class Running:
    topics: dict[str, str]
    backends: list[Backend]
    ports: list[int]
    sent: Counter[str] = field(default_factory=Counter)

    def send(self, writer: Writer, view: str, keys: list[bytes]) -> None:
        """Written and applied."""
        values = [SHORT if sum(key) % 4 == 0 else SEVEN for key in keys]
        writer.send(self.topics[view], zip(keys, values, strict=True))
        self.sent[view] += len(keys)
        wait_until(lambda: self._applied(view) == self.sent[view], 60, f"the records of {view}")

    def _applied(self, view: str) -> int:
        return sum(each["position"] for b in self.backends for each in b.partitions(view))


@pytest.fixture(scope="module")
def running(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> Iterator[Running]:
    topics = {name: make_topic(PARTITIONS) for name in KEYS}
    views = views_toml(
        **{name: {"topic": topics[name], "value": "int32", **KEYS[name][0]} for name in KEYS}
    )
    [port] = free_ports(1)
    with registry(port) as schemas:
        schemas.add(1, RECORD)
        deployment = module_deploy(f'{views}[schemas]\nregistry = "http://127.0.0.1:{port}"\n')
        backends = deployment.start(2)
        ports = [deployment.proxy().port, *(each.port for each in backends)]
        yield Running(topics, backends, ports)


def test_every_format_of_keys_has_a_view() -> None:
    assert KEYS.keys() > KEY_CODECS.keys()


@pytest.mark.parametrize("name", KEYS)
@settings(
    deadline=None,
    max_examples=examples(6),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_listed_key_is_found_by_its_own_text(
    running: Running, writer: Writer, name: str, data: st.DataObject
) -> None:
    keys = data.draw(st.lists(KEYS[name][1], min_size=1, max_size=20, unique=True))
    running.send(writer, name, keys)
    for port in running.ports:
        with Client(port) as client:
            items = _lines(client, name)
            unreadable = sum(b'"unreadable":' in line for _, line in items)
            count = client.get(f"/views/{name}/count").json()
            assert (count["count"], count.get("unreadable", 0)) == (len(items), unreadable)
            assert len({document for document, _ in items}) == len(items)
            for document, line in items:
                for answer in _found(client, name, document):
                    if name == NEEDS_BYTES:
                        assert answer.code == "key-undecodable"
                        assert "base64url" in answer.json()["detail"]
                    elif b'"unreadable":' in line:
                        assert (answer.status, answer.code) == (406, "value-unreadable"), document
                    else:
                        assert (answer.status, answer.body) == (200, line), document


def _lines(client: Client, name: str) -> list[tuple[bytes, bytes]]:
    """The document of each listed key, and its item."""
    answer = client.get(f"/views/{name}/keys", accept="application/x-ndjson")
    items = [line for line in answer.body.splitlines() if line.startswith(b'{"key":')]
    return [(_END.split(line.removeprefix(b'{"key":'))[0], line) for line in items]


def _found(client: Client, name: str, document: bytes) -> Iterator[Response]:
    body = b'{"query":%b}' % document
    yield client.request("POST", f"/views/{name}/search", body, content_type="application/json")
    text = json.loads(document).encode() if name.endswith("-fields") else in_url(name, document)
    if b"\0" not in text and not {b"", b".", b".."} & {*text.split(b"/")}:
        encoding = "?encoding=base64url" if name == "bytes" else ""
        yield client.get(f"/views/{name}/keys/{quote(text, safe='')}{encoding}")
