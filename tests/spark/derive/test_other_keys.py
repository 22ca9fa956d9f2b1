"""Rows of a table with other keys than those of its records: of the rows with one key, the newest
counts, also after it was changed, moved or deleted. The rows of a stream, of a batch and of the
evaluator are those of the final table."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from model.derive.evaluation.evaluate import evaluate
from model.derive.evaluation.records import Record
from model.views_file import parse_views
from spark.derive.views import derived_view
from spark.options import parse
from tests.spark.derive.support import START, Raw, as_bytes, frame, streamed, table, view_of
from tests.spark.derive.test_changing_joins import run_once
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer, history

VIEW = """\
[views.customers-newest.derive]
from = "orders"
kind = "table"
fields = { customer = "string?", amount = "long", at = "time" }
where = "customer is not null and amount <> 3"
key = "customer"
select = { amount = "amount", at = "at", order = "record_key" }
"""
COUNTED = """\
[views.x.derive]
from = "orders"
kind = "table"
fields = { customer = "string?", amount = "long", at = "time" }
where = "customer is not null"
key = "amount"
select = "if(amount > 5, 0.5, 1.25)"
"""
Final = dict[bytes | None, tuple[int, dict[str, Any]]]


def orders(seed: int, count: int = 150) -> list[Raw]:
    """With times that go back, and equal ones."""
    chance = random.Random(seed)
    records: list[Raw] = []
    for number in range(count):
        key, at = f"o{chance.randrange(12)}".encode(), START + chance.randrange(number // 2 + 1)
        if chance.random() < 0.3:
            records.append((key, None, at))
            continue
        row = {"customer": chance.choice(["a", "b", "É", None]), "amount": chance.randrange(10)}
        row["at"] = "2026-01-01T10:00:00.123456Z"
        records.append((key, json.dumps(row).encode(), at))
    return [*records, (b"o1", b"malformed", START), (None, records[0][1], START)]


def wanted(records: list[Raw]) -> dict[str, dict[str, Any]]:
    final: Final = {}
    for key, value, at in records:
        if value != b"malformed" and key is not None:
            final.pop(key, None)
            if value is not None:
                final[key] = at, json.loads(value)
    found: dict[str, dict[str, Any]] = {}
    for key, (_, row) in sorted(final.items(), key=lambda item: (item[1][0], item[0] or b"")):
        if row["customer"] is not None and row["amount"] != 3:
            order = (key or b"").decode()
            found[row["customer"]] = {"amount": row["amount"], "at": row["at"], "order": order}
    return found


def as_json(found: dict[bytes, bytes]) -> dict[str, Any]:
    return {key.decode(): json.loads(value) for key, value in found.items()}


def test_the_newest_of_the_rows_with_a_key_counts(session: SparkSession, tmp_path: Path) -> None:
    view, records = view_of(VIEW), orders(6)
    assert len(wanted(records)) > 1
    assert as_json(table(view.result(frame(session, records)).collect())) == wanted(records)
    gone: list[Raw] = [(f"o{number}".encode(), None, START) for number in range(11)]
    parts = [records[:50], records[50:60], records[60:], gone]
    assert as_json(streamed(session, view, parts, tmp_path)) == wanted([*records, *gone])


@pytest.mark.parametrize("text", [VIEW, COUNTED], ids=["json", "double"])
def test_the_evaluator_has_the_same_rows(session: SparkSession, text: str) -> None:
    [entry] = parse_views(text).views
    view = derived_view(entry)
    assert view is not None
    for seed in (0, 3):
        raw = orders(seed)
        evaluation = evaluate(entry, [Record(value, key, at * 1000) for key, value, at in raw])
        result = view.result(frame(session, raw)).collect()
        if text == VIEW:
            assert as_json(table(result)) == wanted(raw)
            values = {key: dict(value) for key, value in evaluation.values.items()}
            assert json.loads(json.dumps(values, default=float)) == wanted(raw)
        else:
            found = {int.from_bytes(as_bytes(row["key"]), "big"): row["value"] for row in result}
            assert found == {key: float_bytes(value) for key, value in evaluation.values.items()}
        assert [letter.number for letter in evaluation.dead_letters] == [151, 152]


def test_a_key_of_a_static_table(session: SparkSession) -> None:
    text = VIEW.replace('key = "customer"', 'key = "c.name"').replace(
        "amount <> 3", "c.name is not null"
    )
    join = (
        'join.c = { from = "names", on = "customer", static = true, fields = { name = "string" } }'
    )
    [entry] = parse_views(text + join).views
    view = derived_view(entry)
    assert view is not None
    names = [(b"a", b'{"name":"x"}'), ("É".encode(), b'{"name":"x"}'), (b"b", b'{"name":"y"}')]
    raw = orders(3)
    given = [Record(value, key, at * 1000) for key, value, at in raw]
    expected = evaluate(entry, given, {"c": [Record(value, key) for key, value in names]})
    tables = frame(session, [(key, value, START) for key, value in names])
    found = as_json(table(view.result(frame(session, raw), tables).collect()))
    assert found == json.loads(json.dumps(expected.values))
    assert found.keys() == {"x", "y"}


def test_in_a_job_that_is_started_again(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    views_toml = tmp_path / "views.toml"
    views_toml.write_text(VIEW.replace('from = "orders"', f'from = "{topic}"'))
    servers = ["--bootstrap-servers", broker.bootstrap_servers]
    checkpoints = ["--checkpoint-dir", str(tmp_path / "checkpoints")]
    given = parse(["--once", "--views-toml", str(views_toml), *servers, *checkpoints])
    view = "customers-newest"
    records = [(key, value) for key, value, _ in orders(6) if key is not None]
    writer = Writer(broker.bootstrap_servers)
    for start, end in ((0, 60), (60, 80), (80, len(records))):
        writer.send(topic, records[start:end])
        run_once(session, given)
        logs = history(broker.bootstrap_servers, topic, 2)
        written = [(key, value, at) for log in logs for _, at, key, value in log.records]
        results = history(broker.bootstrap_servers, view, 3)
        found = {key: value for log in results for _, _, key, value in log.records}
        final = {key.decode(): json.loads(value) for key, value in found.items() if value}
        assert final == wanted(written)
        assert len(final) > 1


def float_bytes(value: Any) -> bytes:
    return struct.pack(">d", float(value))
