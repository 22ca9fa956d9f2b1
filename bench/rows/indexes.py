"""Conditions on the values of entries: scans (`filters`), and look-ups and pages with an index
(`indexes`); and what an index costs an instance that catches up (`ingest-indexed`)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from urllib.parse import quote

import urllib3

from bench import accounts
from bench.accounts import BY_CITY, BY_OWNER, CITIES, Accounts, city
from bench.load import Measurement, Query, Workload
from bench.plan import Plan
from bench.proc import cpu_seconds
from bench.report import Target
from bench.rows.accounts_database import PAGE, AccountsDatabase
from bench.rows.catching_up import replay
from bench.stack import Stack
from bench.subject import Baseline, LoadTest, Subject, run_reference
from local.errors import LocalError

_LOOKED_UP = b"c07"  # the city of the scans
_VIEW = "accounts"


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
        arguments = [index, texts, numbers, PAGE, plan.gets // PAGE]
        return run_reference("indexed", stack.copy_of(backend, _VIEW), *arguments)

    database = AccountsDatabase(table, stack.folder_of(stack.new_name("postgres")), plan.seconds)

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
    rows = list(islice((n for n in range(table.count) if field(n) == first), PAGE))
    before, _, number = where.removesuffix("'").partition("%")
    escaped = f"{quote(before).replace('%', '%%')}%{number}%%27"
    path = f"/views/{table.view}/keys?where={escaped}&limit={PAGE}"
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
