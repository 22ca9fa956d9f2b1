"""Changes of two tables, in `debezium_avro.jsonl`: as Debezium and Apicurio's AvroConverter write
them, with schema ids, and as JSON.

    python -m tests.vectors.debezium_avro > debezium_avro.jsonl
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from model.rows.json_members import members

_FOLDER = Path(__file__).parent
_FILE = _FOLDER / "debezium_avro.jsonl"


class Change(NamedTuple):
    """A record: its bytes, and the JSON documents that the JsonConverter writes."""

    key: bytes
    value: bytes | None
    json_key: bytes
    json_value: bytes | None


@cache
def schemas() -> dict[int, dict[str, Any]]:
    """The registered schemas, by id."""
    first, *_ = _FILE.read_bytes().splitlines()
    return {int(schema_id): schema for schema_id, schema in json.loads(first)["schemas"].items()}


def changes(topic: str) -> Iterator[Change]:
    """`topic`: `customers` or `orders`; with `_flat`, after `ExtractNewRecordState`."""
    for line in _FILE.read_bytes().splitlines()[1:]:
        record = json.loads(line)
        if record["topic"] == topic:
            value, written = record["value"], members(line)
            yield Change(
                bytes.fromhex(record["key"]),
                None if value is None else bytes.fromhex(value),
                written["json_key"],
                None if value is None else written["json_value"],
            )


def value_schema(topic: str) -> dict[str, Any]:
    """The schema of the topic's values."""
    values = (change.value for change in changes(topic))
    return schemas()[int.from_bytes(next(value for value in values if value)[1:5], "big")]


def _write() -> None:
    from local import http
    from local.kafka.jars import resolve
    from model.machine.cache import cache_folder
    from tests.change_data.connect import CONNECT, CONVERTER, DEBEZIUM
    from tests.system.queryable.cli.start.apicurio import apicurio

    jar_sets = (DEBEZIUM, CONVERTER, CONNECT)
    jars = ":".join(f"{resolve(jar_set, cache_folder())}/*" for jar_set in jar_sets)
    with tempfile.TemporaryDirectory() as folder, apicurio(Path(folder)) as registry:
        program = str(_FOLDER / "DebeziumAvroVectors.java")
        done = subprocess.run(
            ["java", "-cp", jars, program, registry.home],
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        ids = {
            int.from_bytes(bytes.fromhex(record[part])[1:5], "big")
            for record in map(json.loads, done.stdout.splitlines())
            for part in ("key", "value")
            if record[part] is not None
        }
        answers = {
            number: http.get(f"{registry.url}/schemas/ids/{number}").body for number in sorted(ids)
        }
    by_id = {number: json.loads(json.loads(body)["schema"]) for number, body in answers.items()}
    print(json.dumps({"schemas": by_id}))
    print(done.stdout, end="")


if __name__ == "__main__":
    _write()
