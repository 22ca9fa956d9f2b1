"""Conditions on the values of entries: scans (`filters`), and look-ups and pages with an index
(`indexes`); and what an index costs an instance that catches up (`ingest-indexed`)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from urllib.parse import quote

import urllib3

from bench import accounts
from bench.accounts import BY_CITY, BY_OWNER, CITIES, Accounts, city
from bench.load import Measurement, Query, Workload
from bench.plan import Plan
from bench.proc import children, cpu_seconds
from bench.records import key
from bench.references.postgres import Postgres, postgres
from bench.report import Target
from bench.rows.catching_up import replay
from bench.stack import Stack
from bench.subject import Baseline, LoadTest, Subject, run_reference
from local.errors import LocalError
from local.waiting import wait_until

_PAGE = 100  # entries
_LOOKED_UP = b"c07"  # the city of the scans
_VIEW = "accounts"
_CLOSED_S = 10.0
_COPIED = 100_000  # rows at a time


def filters(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """The entries that meet a condition on two fields are counted. Rate and CPU are those of an
    entry that is read."""
    tables = [
        Accounts("accounts-declared", plan.records, declared=True),
        Accounts("accounts-undeclared", plan.records),
    ]
    stack.fill(tables)
    backend = stack.restarted_backend(copy=True, tables=tables)
    expected = accounts.expected_count(tables[0], _LOOKED_UP)
    where = accounts.SCANNED.format(_LOOKED_UP.decode())

    def count(view: str, _: int | None) -> Measurement:
        url = f"{backend.url}/views/{view}/count?where={quote(where)}"
        used, began = cpu_seconds(backend.pid), time.monotonic()
        answer = urllib3.request("GET", url, timeout=60)
        seconds = time.monotonic() - began
        cpu_us = (cpu_seconds(backend.pid) - used) / plan.records * 1e6
        if answer.status != 200 or json.loads(answer.data)["count"] != expected:
            raise LocalError(f"{url}: {answer.status} {answer.data[:200]!r}, not {expected}")
        values = {"rps": plan.records / seconds, "cpu_us": cpu_us, "seconds": seconds}
        return Measurement(values)

    def read_rocksdb(what: str, _: int | None) -> Measurement:
        return run_reference("rocksdb", stack.copy_of(backend, tables[0].view), what)

    def ours(name: str, table: Accounts, reference: str, least: float) -> Subject:
        target = Target(least, at_least=True, is_ratio=True)
        baselines = [Baseline("rps", reference, target), Baseline("cpu_us", reference)]
        return Subject(name, partial(count, table.view), baselines=baselines)

    yield [
        ours("filter-declared", tables[0], "rocksdict-iterate", 0.45),
        Subject("rocksdict-iterate", partial(read_rocksdb, "iterate"), reference=True),
        ours("filter-undeclared", tables[1], "rocksdict-parse", 0.8),
        Subject("rocksdict-parse", partial(read_rocksdb, "parse"), reference=True),
    ]


def look_ups(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """The ten entries of an owner, and the first hundred of a city."""
    table = Accounts(_VIEW, plan.records, declared=True, indexes=("owner", "city"))
    stack.fill([table])
    backend = stack.restarted_backend(copy=True, tables=[table])
    queries = {
        "look-up": query(BY_OWNER, table.owners, "index owner", table),
        "page": query(BY_CITY, CITIES, "index city", table),
    }

    def read_rocksdb(index: str, texts: str, numbers: int, _: int | None) -> Measurement:
        arguments = [index, texts, numbers, _PAGE, plan.gets // _PAGE]
        return run_reference("indexed", stack.copy_of(backend, _VIEW), *arguments)

    database = _Database(table, stack.folder_of(stack.new_name("postgres")), plan.seconds)

    def ours(name: str, baselines: list[Baseline]) -> Subject:
        workload = Workload(table, query=queries[name])
        return LoadTest(
            name, lambda: [backend], workload, plan, baselines=baselines, connections=[1]
        )

    read_owner = partial(read_rocksdb, "owner", "owner-%07d", table.owners)
    read_city = partial(read_rocksdb, "city", "c%02x", CITIES)
    owner_is, city_is = (
        "value->>'owner' = 'owner-' || lpad(:n::text, 7, '0')",
        "value->>'city' = 'c' || lpad(to_hex(:n::int), 2, '0')",
    )
    read_database = {
        "look-up": partial(database.measure, queries["look-up"], owner_is),
        "page": partial(database.measure, queries["page"], city_is),
    }
    twice = Target(2.0, is_ratio=True)
    try:
        yield [
            ours(
                "look-up",
                [
                    Baseline("p50_ms", "rocksdict-look-up"),
                    Baseline("p50_ms", "postgresql-look-up", Target(3.0, is_ratio=True)),
                    Baseline("cpu_us", "rocksdict-look-up"),
                    Baseline("cpu_us", "postgresql-look-up"),
                ],
            ),
            Subject("rocksdict-look-up", read_owner, reference=True),
            Subject("postgresql-look-up", read_database["look-up"], reference=True),
            ours(
                "page",
                [
                    Baseline("p50_ms", "rocksdict-page"),
                    Baseline("cpu_us", "rocksdict-page", twice),
                    Baseline("cpu_us", "postgresql-page"),
                ],
            ),
            Subject("rocksdict-page", read_city, reference=True),
            Subject("postgresql-page", read_database["page"], reference=True),
        ]
    finally:
        database.close()


def query(where: str, numbers: int, plan: str, table: Accounts) -> Query:
    """A query with a condition such as `BY_OWNER`; `numbers`: of its owners or cities."""
    # the fields with the number 0
    field, first = (table.owner, b"owner-0000000") if where == BY_OWNER else (city, b"c00")
    rows = list(islice((n for n in range(table.count) if field(n) == first), _PAGE))
    before, _, number = where.removesuffix("'").partition("%")
    escaped = f"{quote(before).replace('%', '%%')}%{number}%%27"
    path = f"/views/{table.view}/keys?where={escaped}&limit={_PAGE}"
    return Query(path, numbers, plan, accounts.expected_items(table, rows))


def ingest(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """An empty instance reads the topic into a view with an index of a short field, and without.
    The disk is that of the keys of the index."""
    plain = Accounts(_VIEW, plan.records, declared=True)
    indexed = Accounts(_VIEW, plan.records, declared=True, indexes=("city",))
    stack.fill([plain])
    entries_mb: list[float] = []

    def read_plain(_: int | None) -> Measurement:
        measurement = replay(stack, plain)
        entries_mb.append(measurement.values["disk_mb"])
        return measurement

    def read_indexed(_: int | None) -> Measurement:
        values = replay(stack, indexed).values
        return Measurement({**values, "disk_mb": values["disk_mb"] - entries_mb[-1]})

    name = "ingest-without-index"
    yield [
        Subject(name, read_plain),
        Subject(
            "ingest-with-index",
            read_indexed,
            baselines=[
                Baseline("rps", name, Target(0.65, at_least=True, is_ratio=True)),
                Baseline("cpu_us", name),
                Baseline("rss_mb", name),
                Baseline("disk_mb", name, Target(0.3, is_ratio=True)),
            ],
        ),
    ]


class _Database:
    """The accounts in PostgreSQL, as `jsonb` with indexes of expressions. It starts at the first
    measurement, so that a run without PostgreSQL only lacks its rows."""

    def __init__(self, table: Accounts, folder: Path, seconds: int) -> None:
        self._table = table
        self._folder = folder
        self._seconds = seconds
        self._stack = ExitStack()
        self._server: Postgres | None = None

    def measure(self, query: Query, where: str, _: int | None) -> Measurement:
        """Rows of a condition with a random number, which is `:n` in `where`. CPU is that of the
        server."""
        server = self._server = self._server or self._start()
        select = f"select key, value from a where {where} order by key limit {_PAGE}"
        rows = server.run(select.replace(":n", "0") + ";").splitlines()
        wrong = [] if len(rows) == query.first.count(b'"key":') else [f"{where}: {len(rows)} rows"]
        used, others = cpu_seconds(server.pid), children(server.pid)
        script = f"\\set n random(0, {query.numbers - 1})\n{select};\n"
        latencies = server.latencies(script, self._seconds, self._folder)
        # the CPU time of the connection's process counts when it has ended
        ended = "PostgreSQL to close the connection"
        wait_until(lambda: children(server.pid) <= others, _CLOSED_S, ended, 0.05)
        cpu = cpu_seconds(server.pid) - used
        values = {
            "rps": 1e3 * len(latencies) / sum(latencies),
            "p50_ms": median(latencies),
            "cpu_us": cpu / len(latencies) * 1e6,
        }
        return Measurement(values, wrong)

    def close(self) -> None:
        self._stack.close()

    def _start(self) -> Postgres:
        self._folder.mkdir(parents=True)
        settings = {"shared_buffers": "512MB"}
        server = self._stack.enter_context(postgres(self._folder / "log", settings))
        server.run("create table a (key text primary key, value jsonb);")
        for start in range(0, self._table.count, _COPIED):
            lines = [
                f"{key(n).decode()}\t{self._table.value(n).decode()}\n"
                for n in range(start, min(start + _COPIED, self._table.count))
            ]
            server.run("copy a from stdin;\n" + "".join(lines) + "\\.\n")
        for field in ("owner", "city"):
            # with the key, because rows come in its order
            server.run(f"create index on a ((value->>'{field}'), key);")
        server.run("analyze a;")
        server.run("checkpoint;")
        return server
