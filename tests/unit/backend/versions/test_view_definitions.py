"""Each answer names the definition of the view that it was made with, so that a client does not
decode it with the formats of another one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.wire.answer import Answer
from backend.wire.point_batch import Reads, encode_reads
from model.partitioner import partition_of
from model.records import ENTRY
from model.rows.declared_fields import parse_declared_fields
from model.rows.own_fields import all_fields
from model.views import View
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import context
from tests.support.in_process.pages import flask_pages
from tests.support.in_process.versioned import (
    FIRST,
    KEYS,
    ONLY_IN_FIRST,
    SECOND,
    Deployment,
)
from tests.support.in_process.world import world
from tests.unit.backend.http.point_reads.forwards import SEPARATELY, forwarded
from tests.unit.backend.versions.test_view_versions import QUERIES

NAME = "view-definition"


@pytest.mark.parametrize("of", [FIRST, SECOND], ids=["first", "second"])
def test_answers_name_the_definition(made: Deployment, of: View) -> None:
    made.switch(of.version)
    missing = f"/o/{ONLY_IN_FIRST}2"
    wrong = "/views/orders/keys?limit=x"
    for instance in ("b1", "b2"):
        for method, target, body in [*QUERIES, ("GET", missing, None), ("GET", wrong, None)]:
            answer = made.ask(target, instance, method, body)
            assert answer.named[NAME] == of.hash, (target, answer.headers)
        lines = made.ask("/views/orders/keys", instance, headers={"accept": "application/x-ndjson"})
        assert lines.named[NAME] == of.hash


def test_coalesced_reads_and_the_fast_path_name_the_definition(made: Deployment) -> None:
    line = b"view-definition: %b\n" % FIRST.hash.encode()
    place = partition_of("murmur2")
    of_keys = [
        Reads(b"orders string murmur2 2 %d" % place(key, 2), [ENTRY + key])
        for key in map(str.encode, KEYS)
    ]
    for instance in ("b1", "b2"):
        body = encode_reads([], of_keys)
        answer = asyncio.run(made.request(instance, "POST", "/internal/reads", body))
        assert answer.status == 200
        assert line in answer.body
        for key in KEYS:
            now = made.routers[instance].fast_path.answer_now(b"/o/" + key.encode())
            assert now is None or dict(now.headers)[b"view-definition"] == FIRST.hash.encode()


def test_the_description_of_a_view_names_its_definition(made: Deployment) -> None:
    for name, of in (("orders", FIRST), ("orders@1", FIRST), ("orders@2", SECOND)):
        with flask_pages(made.contexts["b1"]).test_client() as client:
            assert client.get(f"/views/{name}").headers["View-Definition"] == of.hash
    with flask_pages(context([ORDERS])).test_client() as client:
        assert client.get("/views/orders").headers["View-Definition"] == ORDERS.hash


def test_the_description_of_a_view_has_its_declared_fields_and_its_scans() -> None:
    fields = parse_declared_fields({"delay": "int? 0..59", "crew": {"captain": "string?"}})
    orders = replace(ORDERS, fields=fields, scans="bounded")
    with flask_pages(context([orders])).test_client() as client:
        described = client.get("/views/orders").json
        assert described["fields"] == {"delay": "int? 0..59", "crew.captain": "string?"}
        assert described["scans"] == "bounded"
        [listed] = client.get("/views").json["views"]
        assert listed["scans"] == "bounded"
    with flask_pages(context([ORDERS])).test_client() as client:
        assert not {"fields", "scans"} & client.get("/views/orders").json.keys()


def test_the_description_of_a_view_says_what_declares_its_fields() -> None:
    schema = {"type": "record", "name": "O", "fields": [
        {"name": "dest", "type": "string"}, {"name": "delay", "type": "int"}]}  # fmt: skip
    avro = replace(ORDERS, value="avro", value_schema=json.dumps(schema))
    fields = all_fields(avro, parse_declared_fields({"delay": "int 0..59"}))
    with flask_pages(context([replace(avro, fields=fields)])).test_client() as client:
        described = client.get("/views/orders").json
        assert described["fields"] == {"dest": "string", "delay": "int 0..59"}
        assert described["declared_by"] == {"dest": "schema"}


@pytest.mark.parametrize("definition", [ORDERS.hash, "0" * 16])
def test_the_answer_of_another_instance_is_not_given_a_wrong_definition(
    tmp_path: Path, definition: str
) -> None:
    """Instances of the release before name none, and theirs may be the one that is placed."""
    with world(tmp_path, ORDERS) as made:
        key = next(key for n in range(40) if forwarded(made, [key := f"key-{n}"]))
        made.put_all({key.encode(): b"1"})
        context = made.instances["b1"].context
        placed = replace(context.group.topology.views["orders"], hash=definition)
        context.group.apply_topology(replace(context.group.topology, views={"orders": placed}))
        forward = made.peers.forward

        async def forward_as_before(*args: Any, **more: Any) -> Answer:
            answer = await forward(*args, **more)
            named = [header for header in answer.headers if header[0] != NAME.encode()]
            return Answer(answer.status, named, answer.body)

        made.peers.forward = forward_as_before  # type: ignore[method-assign]
        answer = made.ask(f"keys/{key}", headers=[SEPARATELY])
        assert (answer.status, answer.json["value"]) == (200, 1)
        expected = definition.encode() if definition == ORDERS.hash else None
        assert answer.named.get(NAME.encode()) == expected
