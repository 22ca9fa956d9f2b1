"""Keys as Connect and Debezium write them, named by their fields; Avro's with two schema ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from local.ports import free_ports
from queryable import Client
from tests.support.backends import Backend
from tests.support.client import Client as HttpClient
from tests.support.deployment import views_toml
from tests.support.in_process.avro_examples import framed, registry
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

NUMBERS = range(40)
FIRST = 1_400_000_000_000  # ms
# The key of shop.public.customers in Debezium 3, with schemas.enable of JsonConverter
SCHEMA = {
    "type": "struct",
    "fields": [{"type": "int32", "optional": False, "field": "id"}],
    "optional": False,
    "name": "shop.public.customers.Key",
}
KEY = {
    "type": "record",
    "name": "Key",
    "namespace": "shop.public.lines",
    "fields": [{"name": "order", "type": "long"}, {"name": "sku", "type": "string"}],
}
NEWER_KEY = {**KEY, "fields": [*KEY["fields"], {"name": "note", "type": ["null", "string"]}]}  # type: ignore[misc]


@dataclass(frozen=True)
class Running:
    backends: list[Backend]
    proxy: Nginx

    @property
    def ports(self) -> list[int]:
        return [self.proxy.port, *(backend.port for backend in self.backends)]


def plain(number: int) -> bytes:
    return b'{"id":%d}' % number


def with_schema(number: int) -> bytes:
    return json.dumps({"schema": SCHEMA, "payload": {"id": number}}, separators=(",", ":")).encode()


@pytest.fixture(scope="module")
def running(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> Iterator[Running]:
    customers, lines = make_topic(4), make_topic(4)
    [port] = free_ports(1)
    writer.send(customers, [(plain(n), b'{"n":%d}' % n) for n in NUMBERS])
    # a connector with another converter goes on: most keys get another partition
    writer.send(customers, [(with_schema(n), b'{"n":%d}' % -n) for n in NUMBERS if n % 2])
    writer.send(customers, [(with_schema(n), None) for n in NUMBERS if n % 4 == 0])
    for number in NUMBERS:
        key = {"order": number // 4, "sku": f"a,{number}"}
        writer.send(lines, [(framed(1, KEY, key), b"1")], timestamp=FIRST)
        if number % 2:
            newer = framed(2, NEWER_KEY, {**key, "note": None})
            # nothing says which of two records in the same millisecond is the newer one
            writer.send(lines, [(newer, b"2")], timestamp=FIRST + 1)
    views = views_toml(
        customers={"topic": customers, "path": "/customers", "key": "json", "key_fields": ["id"]},
        lines={
            "topic": lines, "key": "avro", "key_schema": "confluent",
            "key_fields": ["order", "sku"],
        },
    )  # fmt: skip
    with registry(port) as schemas:
        schemas.add(1, KEY)
        schemas.add(2, NEWER_KEY)
        deployment = module_deploy(f'{views}[schemas]\nregistry = "http://127.0.0.1:{port}"\n')
        backends = deployment.start(2)
        yield Running(backends, deployment.proxy())
    for backend in backends:
        assert "Traceback" not in backend.log()


def ask(of: Running, path: str) -> tuple[int, Any]:
    """The answer, which must be the same by the proxy and by all instances."""
    answers = []
    for port in of.ports:
        with HttpClient(port) as client:
            answers.append(client.get(path))
    [answer, *others] = answers
    assert {(each.status, each.body) for each in others} == {(answer.status, answer.body)}, path
    return answer.status, answer.json()


def test_rows_are_found_by_their_id(running: Running) -> None:
    for number in NUMBERS:
        for path in (f"/customers/{number}", f"/views/customers/keys/{number}"):
            status, found = ask(running, path)
            if number % 4 == 0:
                assert (status, found["code"]) == (404, "key-not-found")
            else:
                value = {"n": -number if number % 2 else number}
                assert (status, found) == (200, {"key": str(number), "value": value})
    assert ask(running, "/customers/abc")[0] == 404


def test_every_listed_key_is_found_by_its_text(running: Running) -> None:
    for view, count in (("customers", 30), ("lines", 40)):
        _, page = ask(running, f"/views/{view}/keys?limit=1000")
        assert len(page["items"]) == ask(running, f"/views/{view}/count")[1]["count"] == count
        for item in page["items"]:
            assert ask(running, f"/views/{view}/keys/{quote(item['key'], safe='')}") == (200, item)
    items = ask(running, "/views/lines/keys?prefix=3")[1]["items"]
    assert [(item["key"], item["value"]) for item in items] == [
        ('3,"a,12"', 1), ('3,"a,13"', 2), ('3,"a,14"', 1), ('3,"a,15"', 2)
    ]  # fmt: skip
    first = [
        item["key"] for item in ask(running, "/views/customers/keys?from=9&limit=3")[1]["items"]
    ]
    assert first == ["9", "10", "11"]


def test_the_client_names_keys_by_their_fields(running: Running) -> None:
    for port in running.ports:
        with Client(f"http://127.0.0.1:{port}") as client:
            for key in (7, "7"):
                found = client.get("customers", key)
                assert found is not None
                assert found.value == {"n": -7}
            rows = list(client.scan("lines", prefix="3"))
            assert [row.value for row in rows] == [1, 2, 1, 2]
            found = client.get_many("lines", [row.key for row in rows])
            assert [(each.key, each.value) for each in found] == [tuple(row) for row in rows]
