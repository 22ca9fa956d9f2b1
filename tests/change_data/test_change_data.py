"""Tables of PostgreSQL, through Debezium in Kafka Connect, in views that `queryable init` has
written: each row is the one that PostgreSQL has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from bench.references.postgres import MissingPostgres, Postgres, postgres
from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.change_data.connect import Connect
from tests.change_data.tables import CHANGE, CREATE, KEYS, rows
from tests.change_data.variants import VARIANTS, Variant
from tests.others.programs import need, need_java
from tests.others.tool import run_queryable
from tests.support.client import Client, Response
from tests.support.plugins.fixtures import Deploy
from tests.support.topics import history
from tests.system.queryable.cli.start.apicurio import Apicurio, apicurio

_TIMEOUT = 60.0  # s until a change is in the views
PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class Pipeline:
    """From the tables to nginx, at `port`."""

    server: Postgres
    connect: Connect
    port: int

    def get(self, variant: Variant, table: str, key: str) -> Response:
        path = f"/views/{variant.topic(table)}/keys/{quote(key, safe='')}"
        with Client(self.port) as client:
            return client.get(path)

    def count(self, variant: Variant, table: str) -> int:
        with Client(self.port) as client:
            return int(client.get(f"/views/{variant.topic(table)}/count").json()["count"])

    def rows(self, variant: Variant, table: str) -> dict[str, Any]:
        """All rows of a view, by the text of their keys."""
        with Client(self.port) as client:
            listing = client.get(
                f"/views/{variant.topic(table)}/keys", accept="application/x-ndjson"
            )
        lines = map(json.loads, listing.body.splitlines())
        return {line["key"]: line["value"] for line in lines if "key" in line}

    def wait_for_all(self, variant: Variant, table: str, rows: Mapping[str, Any]) -> None:
        """Wait until the view has these rows and no others."""
        what = f"the rows of {table} of {variant.name}"
        wait_until(lambda: self.rows(variant, table) == rows, _TIMEOUT, what)

    def wait_for(self, variant: Variant, table: str, key: str, row: Any) -> None:
        """Wait until the row is in the view; None: until it is not."""

        def is_there() -> bool:
            answer = self.get(variant, table, key)
            if row is None:
                return answer.status == 404
            return answer.status == 200 and answer.json()["value"] == row

        wait_until(is_there, _TIMEOUT, f"{table} {key} of {variant.name}", 0.1)


_LOGICAL = {"wal_level": "logical", "max_wal_senders": "20", "max_replication_slots": "20"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    need_java()
    need("mvn")
    with ExitStack() as stack:
        try:
            log = tmp_path_factory.mktemp("postgres") / "postgres.log"
            running = stack.enter_context(postgres(log, _LOGICAL))
        except MissingPostgres as missing:
            pytest.skip(str(missing))
        running.run(CREATE)
        yield running


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with apicurio(tmp_path_factory.mktemp("apicurio")) as running:
        yield running


@pytest.fixture(scope="module")
def connect(
    server: Postgres, registry: Apicurio, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connect]:
    folder = tmp_path_factory.mktemp("connect") / "connect"
    connectors = {
        name: variant.properties(server, registry.home) for name, variant in VARIANTS.items()
    }
    with Connect(folder, broker.bootstrap_servers, connectors) as running:
        yield running


@pytest.fixture(scope="module")
def pipeline(
    server: Postgres,
    registry: Apicurio,
    connect: Connect,
    broker: Broker,
    module_deploy: Deploy,
    tmp_path_factory: pytest.TempPathFactory,
) -> Pipeline:
    """With views as `init` writes them when all topics have a deletion."""
    servers = broker.bootstrap_servers
    topics = {v.topic(table): table for v in VARIANTS.values() for table in KEYS}
    before = {table: len(server.rows(f"select * from {table}")) for table in KEYS}
    for topic, table in topics.items():
        _wait_for_records(servers, topic, before[table])
    server.run(CHANGE)
    for topic, table in topics.items():
        changes = 2 if table == "documents" else 1
        _wait_for_records(servers, topic, before[table] + changes)
    folder = tmp_path_factory.mktemp("init")
    options = ("--bootstrap-servers", servers, "--schema-registry", registry.url)
    run_queryable(folder, "init", *topics, *options)
    deployment = module_deploy((folder / "views.toml").read_text())
    deployment.start(1)
    return Pipeline(server, connect, deployment.proxy().port)


def _wait_for_records(servers: str, topic: str, count: int) -> None:
    def are_there() -> bool:
        return sum(len(log.records) for log in history(servers, topic, PARTITIONS)) >= count

    wait_until(are_there, _TIMEOUT, f"{count} records of {topic}", 0.3)


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Variant:
    return VARIANTS[request.param]


@pytest.mark.parametrize("table", ["types", "lines", "codes"])
def test_each_row_is_that_of_the_table(pipeline: Pipeline, variant: Variant, table: str) -> None:
    expected = rows(pipeline.server, table, variant)
    wait_until(
        lambda: pipeline.count(variant, table) == len(expected), _TIMEOUT, f"rows of {table}", 0.1
    )
    for key, row in expected.items():
        answer = pipeline.get(variant, table, key)
        assert (key, answer.status) == (key, 200), answer
        value = answer.json()["value"]
        assert value.keys() == row.keys()
        assert {k: v for k, v in value.items() if v != row[k]} == {
            k: v for k, v in row.items() if v != value[k]
        }


def test_a_deleted_row_is_not_found(pipeline: Pipeline, variant: Variant) -> None:
    key = f"delete {variant.name}"
    pipeline.server.run(f"insert into codes values ('{key}', 8);")
    pipeline.wait_for(variant, "codes", key, {"code": key, "n": 8})
    pipeline.server.run(f"delete from codes where code = '{key}';")
    pipeline.wait_for(variant, "codes", key, None)
    assert pipeline.get(variant, "codes", key).code == "key-not-found"
    # a row that changes its key is another row
    old, new = f"old {variant.name}", f"new {variant.name}"
    pipeline.server.run(f"insert into codes values ('{old}', 9);")
    pipeline.server.run(f"update codes set code = '{new}' where code = '{old}';")
    pipeline.wait_for(variant, "codes", new, {"code": new, "n": 9})
    pipeline.wait_for(variant, "codes", old, None)
    # rows that are there before `init` has looked
    assert pipeline.get(variant, "codes", "deleted").status == 404
    assert pipeline.get(variant, "types", "99").status == 404


def test_a_large_value_that_an_update_leaves_out(pipeline: Pipeline, variant: Variant) -> None:
    """PostgreSQL sends a column in TOAST only if it has changed, or with all of the row."""
    number = 1 + list(VARIANTS).index(variant.name)
    pipeline.server.run(f"update documents set n = n + {number} where id = 2;")
    pipeline.server.run(f"update archives set n = n + {number} where id = 2;")
    [archive] = pipeline.server.rows("select * from archives where id = 2")
    pipeline.wait_for(variant, "archives", "2", archive)
    wait_until(
        lambda: pipeline.get(variant, "documents", "2").status == 406, _TIMEOUT, "the refusal", 0.1
    )
    answer = pipeline.get(variant, "documents", "2")
    assert answer.code == "value-unreadable"
    detail = answer.json()["detail"]
    assert "body: the value is unavailable" in detail
    assert "REPLICA IDENTITY FULL" in detail
    # an update of the column sends it
    pipeline.server.run(f"update documents set body = repeat('{number}', 9000) where id = 2;")
    [document] = pipeline.server.rows("select * from documents where id = 2")
    pipeline.wait_for(variant, "documents", "2", document)


def test_a_column_that_is_added(pipeline: Pipeline, variant: Variant) -> None:
    column, key = f"added_{variant.name}", 100 + list(VARIANTS).index(variant.name)
    pipeline.server.run(f"insert into counters values ({key}, 1);")
    [before] = pipeline.server.rows(f"select * from counters where id = {key}")
    pipeline.wait_for(variant, "counters", str(key), before)
    pipeline.server.run(f"alter table counters add column {column} text default 'x';")
    pipeline.server.run(f"insert into counters (id, n) values ({key + 100}, 2);")
    [added] = pipeline.server.rows(f"select * from counters where id = {key + 100}")
    assert added[column] == "x"
    pipeline.wait_for(variant, "counters", str(key + 100), added)
    # PostgreSQL sends nothing for the rows that are there
    assert pipeline.get(variant, "counters", str(key)).json()["value"] == before
    pipeline.server.run(f"update counters set n = n + 1 where id = {key};")
    [after] = pipeline.server.rows(f"select * from counters where id = {key}")
    assert after == {**before, "n": 2, column: "x"}
    pipeline.wait_for(variant, "counters", str(key), after)


def test_connect_is_killed_and_restarted(pipeline: Pipeline) -> None:
    """No change is lost, those that are sent twice change nothing, and so do those of meanwhile."""
    server, connect = pipeline.server, pipeline.connect
    changes = "; ".join(
        f"insert into lines select n, gen_random_uuid(), n from generate_series({n}, {n + 9}) n; "
        f"commit; begin; update lines set amount = amount + 1 where order_id = {n}; "
        f"delete from lines where order_id = {n + 5}; commit; begin"
        for n in range(1000, 3000, 10)
    )
    server.run(changes + ";")
    connect.kill()
    server.run(changes.replace("amount + 1", "amount + 7") + ";")
    connect.start()
    server.run("insert into lines values (0, '6f9619ff-8b86-d011-b42d-00cf4fc964ff', 0);")
    for variant in VARIANTS.values():
        expected = rows(server, "lines", variant)
        last = "0,6f9619ff-8b86-d011-b42d-00cf4fc964ff"
        pipeline.wait_for(variant, "lines", last, expected[last])
        pipeline.wait_for_all(variant, "lines", expected)
        assert pipeline.count(variant, "lines") == len(expected)
