"""Derived views that join tables that change, on a real broker: after restarts and in any order of
reading, they have the join of the final tables."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from spark.errors import JobError
from spark.options import parse
from spark.settings import Settings
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer, history

# A table with a foreign key, and the entries of a stream whose table has tombstones, too.
VIEWS_TOML = """\
[views.{orders}-names.derive]
from = "{orders}"
kind = "table"
fields = {{ customer = "string?", amount = "int", at = "time" }}
where = "amount > 2 and (buyer.age is null or buyer.age > 20)"
key = "record_key"
select = {{ amount = "amount", at = "at", name = "buyer.name", country = "land.name" }}
[views.{orders}-names.derive.join.buyer]
from = "{customers}"
on = "customer"
fields = {{ name = "string", age = "int?" }}
[views.{orders}-names.derive.join.land]
from = "{countries}"
on = "lower(customer)"
fields = {{ name = "string" }}

[views.{events}-names.derive]
from = "{events}"
fields = {{ id = "long", customer = "string" }}
where = "buyer.name is not null"
key = "id"
select = "buyer.name"
join.buyer = {{ from = "{customers}", on = "customer", fields = {{ name = "string" }} }}
"""
Line = tuple[bytes, bytes | None]
_ATTEMPTS = 5


def run_once(session: SparkSession, given: Settings) -> None:
    """Runs the job until it has read everything. Spark waits for a new Python process for 10 s,
    which is no setting, and too short on a busy machine: a restart continues."""
    for attempt in range(_ATTEMPTS):
        try:
            supervise(session, given, StopSignal())
            return
        except JobError as error:
            if "Python worker to connect back" not in str(error) or attempt == _ATTEMPTS - 1:
                raise


def lines(seed: int) -> dict[str, list[Line]]:
    chance = random.Random(seed)
    time = "2026-01-01T10:00:00.123456Z"
    orders: list[Line] = []
    for number in range(80):
        row = {"customer": chance.choice(["A", "b", "C", "x", None]), "amount": number % 7}
        value = None if chance.random() < 0.2 else json.dumps({**row, "at": time}).encode()
        orders.append((f"o{chance.randrange(15)}".encode(), value))
    events = [
        (b"", json.dumps({"id": number, "customer": chance.choice("AbCx")}).encode())
        for number in range(20)
    ]
    customers: list[Line] = []
    for number in range(30):
        row = {"name": f"name {number}", "age": chance.choice([None, 10, 30])}
        value = None if chance.random() < 0.3 else json.dumps(row).encode()
        customers.append((chance.choice([b"A", b"b", b"C"]), value))
    countries = [(key, json.dumps({"name": key.decode() * 2}).encode()) for key in (b"a", b"b")]
    return {"orders": orders, "events": events, "customers": customers,
            "countries": [*countries, (b"b", None)]}  # fmt: skip


def rows(topic: list[Line]) -> dict[str, Any]:
    """The final table of a topic."""
    return {key.decode(): json.loads(value) for key, value in dict(topic).items() if value}


def wanted_orders(topics: dict[str, list[Line]]) -> dict[str, Any]:
    customers, countries = rows(topics["customers"]), rows(topics["countries"])
    found = {}
    for key, order in rows(topics["orders"]).items():
        buyer = customers.get(order["customer"], {})
        age = buyer.get("age")
        if order["amount"] > 2 and (age is None or age > 20):
            country = countries.get((order["customer"] or "").lower(), {})
            value = {"amount": order["amount"], "at": "2026-01-01T10:00:00.123456Z"}
            value |= {"name": buyer.get("name"), "country": country.get("name")}
            found[key] = {name: field for name, field in value.items() if field is not None}
    return found


def wanted_events(topics: dict[str, list[Line]]) -> dict[int, str]:
    customers = rows(topics["customers"])
    events = [json.loads(value or b"") for _, value in topics["events"]]
    return {
        event["id"]: customers[event["customer"]]["name"]
        for event in events
        if event["customer"] in customers
    }


def test_views_follow_all_changes(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topics = lines(3)
    names = {name: make_topic(partitions=2) for name in topics}
    views_toml = tmp_path / "views.toml"
    views_toml.write_text(VIEWS_TOML.format(**names))
    servers = ["--bootstrap-servers", broker.bootstrap_servers]
    checkpoints = ["--checkpoint-dir", str(tmp_path / "checkpoints")]
    given = parse(["--once", "--views-toml", str(views_toml), *servers, *checkpoints])
    orders, events = wanted_orders(topics), wanted_events(topics)
    assert any("name" in value for value in orders.values())
    assert any("name" not in value for value in orders.values())
    assert 0 < len(events) < len(topics["events"])

    writer = Writer(broker.bootstrap_servers)
    chance = random.Random(1)
    for run in range(3):
        for name, topic in topics.items():
            cut = len(topic) if run == 2 else chance.randrange(len(topic) + 1)
            writer.send(names[name], topic[:cut])
            topics[name] = topic[cut:]
        run_once(session, given)

    def table(view: str) -> dict[bytes, bytes]:
        logs = history(broker.bootstrap_servers, view, 3)
        found = {key: value for log in logs for _, _, key, value in log.records}
        return {key: value for key, value in found.items() if value is not None}

    found = table(f"{names['orders']}-names")
    assert {key.decode(): json.loads(value) for key, value in found.items()} == orders
    found = table(f"{names['events']}-names")
    assert {int.from_bytes(key, "big"): value.decode() for key, value in found.items()} == events
