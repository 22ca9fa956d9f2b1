"""The accounts in PostgreSQL, as a reference."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.accounts import Accounts
from bench.load import Measurement, Query
from bench.proc import children, cpu_seconds
from bench.records import key
from bench.references.postgres import Postgres, postgres
from local.waiting import wait_until

PAGE = 100  # entries
_CLOSED_S = 10.0
_COPIED = 100_000  # rows at a time


class AccountsDatabase:
    """The accounts in PostgreSQL, as `jsonb` with indexes of expressions. It starts at the first
    measurement, so that a run without PostgreSQL only lacks its rows."""

    def __init__(self, table: Accounts, folder: Path, seconds: int) -> None:
        self._table = table
        self._folder = folder
        self._seconds = seconds
        self._stack = ExitStack()
        self._server: Postgres | None = None
        self._processes: set[int] = set()  # without connections

    def measure(self, query: Query, where: str, _: int | None) -> Measurement:
        """Rows of a condition with a random number, which is `:n` in `where`. CPU is that of the
        server."""
        server = self.server()
        select = f"select key, value from a where {where} order by key limit {PAGE}"
        rows = server.run(select.replace(":n", "0") + ";").splitlines()
        wrong = [] if len(rows) == query.first.count(b'"key":') else [f"{where}: {len(rows)} rows"]
        used = cpu_seconds(server.pid)
        script = f"\\set n random(0, {query.numbers - 1})\n{select};\n"
        latencies = server.latencies(script, self._seconds, self._folder)
        self.wait_closed()
        cpu = cpu_seconds(server.pid) - used
        values = {
            "rps": 1e3 * len(latencies) / sum(latencies),
            "p50_ms": median(latencies),
            "cpu_us": cpu / len(latencies) * 1e6,
        }
        return Measurement(values, wrong)

    def server(self) -> Postgres:
        """The server with all accounts."""
        if self._server is None:
            self._server = self._start()
            self._processes = children(self._server.pid)
        return self._server

    def wait_closed(self) -> None:
        """Wait until connections have ended: then the CPU time of their processes counts."""
        pid, ended = self.server().pid, "PostgreSQL to close the connection"
        wait_until(lambda: children(pid) <= self._processes, _CLOSED_S, ended, 0.05)

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
