"""Groups of a whole view by SQL (`statements`)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from fractions import Fraction

import urllib3

from bench.accounts import CITIES, Accounts, city
from bench.load import Measurement
from bench.plan import Plan
from bench.proc import cpu_seconds
from bench.records import balance
from bench.report import Target
from bench.rows.accounts_database import AccountsDatabase
from bench.stack import Stack
from bench.subject import Baseline, Subject
from local.errors import LocalError

_VIEW = "accounts"
_STATEMENT = f"select city, count(*) as n, avg(balance) as mean from {_VIEW} group by city"
_IN_POSTGRES = (
    "select value->>'city', count(*), avg((value->>'balance')::bigint) from a group by 1;"
)
_JSON = {"Content-Type": "application/json"}


def statements(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """Rate and CPU are those of an entry that is read."""
    table = Accounts(_VIEW, plan.records, declared=True)
    stack.fill([table])
    backend = stack.restarted_backend(tables=[table])
    database = AccountsDatabase(table, stack.folder_of(stack.new_name("postgres")), plan.seconds)
    of_first = [balance(n) for n in range(table.count) if city(n) == b"c00"]
    mean = float(Fraction(sum(of_first), len(of_first)))

    def measurement(rows: int, seconds: float, cpu: float) -> Measurement:
        values = {"rps": plan.records / seconds, "cpu_us": cpu / plan.records * 1e6}
        wrong = [] if rows == CITIES else [f"{rows} groups of {CITIES}"]
        return Measurement({**values, "seconds": seconds}, wrong)

    def ask(_: int | None) -> Measurement:
        used, began = cpu_seconds(backend.pid), time.monotonic()
        body = json.dumps({"query": _STATEMENT})
        answer = urllib3.request("POST", f"{backend.url}/sql", body=body, headers=_JSON, timeout=60)
        seconds, cpu = time.monotonic() - began, cpu_seconds(backend.pid) - used
        items = json.loads(answer.data).get("items", [])
        if not items or items[0] != {"city": "c00", "n": len(of_first), "mean": mean}:
            raise LocalError(f"/sql: {answer.status} {answer.data[:200]!r}")
        return measurement(len(items), seconds, cpu)

    def ask_database(_: int | None) -> Measurement:
        server = database.server()
        used, began = cpu_seconds(server.pid), time.monotonic()
        rows = server.run(_IN_POSTGRES).splitlines()
        seconds = time.monotonic() - began
        database.wait_closed()
        return measurement(len(rows), seconds, cpu_seconds(server.pid) - used)

    half = Target(0.5, at_least=True, is_ratio=True)
    baselines = [
        Baseline("rps", "postgresql-groups", half), Baseline("cpu_us", "postgresql-groups"),
    ]  # fmt: skip
    try:
        yield [
            Subject("sql-groups", ask, baselines=baselines),
            Subject("postgresql-groups", ask_database, reference=True),
        ]
    finally:
        database.close()
