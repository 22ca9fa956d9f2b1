"""A PostgreSQL server of Debian's package, on a port of its own. Tests use it, too."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from local.errors import LocalError, tail
from local.ports import LOOPBACK, free_ports
from local.processes import end, spawn
from local.waiting import wait_until

USER = "postgres"
_TIMEOUT = 60.0  # s
_NONE: Mapping[str, str] = MappingProxyType({})
_STOP = 10.0  # s: then SIGTERM and SIGKILL
# without the variables that psql reads
_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
_OPTIONS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "fsync": "off",
}


class MissingPostgres(LocalError):
    """PostgreSQL is not installed, or no user can run it. The text says what to do."""


class Postgres:
    """A server that runs. `programs`: the folder of `psql`. `pid`: its first process."""

    def __init__(self, programs: Path, port: int, pid: int) -> None:
        self._programs = programs
        self.port = port
        self.pid = pid

    def run(self, sql: str, timeout: float = _TIMEOUT) -> str:
        """The output of psql, unaligned and without headings. Several statements are one
        transaction. LocalError with the message of the server."""
        options = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-1", "-f", "-")
        return self._client("psql", options, sql, timeout)

    def latencies(self, script: str, seconds: int, folder: Path) -> list[float]:
        """Runs a script of pgbench again and again, with one connection, and returns the latency
        (ms) of each run. `folder`: for its log. Raises LocalError."""
        log = folder / "pgbench"
        options = ["-n", "-c1", f"-T{seconds}", "-Mprepared", "-l", f"--log-prefix={log}", "-f-"]
        self._client("pgbench", options, script, seconds + _TIMEOUT)
        files = list(folder.glob("pgbench.*"))
        lines = [line for file in files for line in file.read_text().splitlines()]
        for file in files:
            file.unlink()
        return [int(line.split()[2]) / 1e3 for line in lines]

    def _client(self, program: str, options: Sequence[str], given: str, timeout: float) -> str:
        where = ("-h", LOOPBACK, "-p", str(self.port), "-U", USER, "postgres")
        done = subprocess.run(
            [str(self._programs / program), *options, *where],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env={**_ENVIRONMENT, "PGTZ": "UTC"},
        )
        if done.returncode:
            raise LocalError(f"{program} failed:\n{tail(done.stderr)}")
        return done.stdout

    def rows(self, select: str) -> list[dict[str, Any]]:
        """The rows of a query, as PostgreSQL writes them as JSON."""
        lines = self.run(f"select row_to_json(queried) from ({select}) queried;").splitlines()
        return [json.loads(line) for line in lines]

    def _answers(self) -> bool:
        with suppress(LocalError):
            return self.run("select 1;").strip() == "1"
        return False


@contextmanager
def postgres(log: Path, settings: Mapping[str, str] = _NONE) -> Iterator[Postgres]:
    """Runs a server with an empty database. Raises MissingPostgres, LocalError."""
    programs = _programs()
    user = _user()
    [port] = free_ports(1)
    # not in the folder of the test, which only its own user may enter
    folder = Path(tempfile.mkdtemp(prefix="queryable-postgres-"))
    try:
        os.chown(folder, user.pw_uid, user.pw_gid)
        data = folder / "data"
        _initialize(programs, data, user)
        options = [
            word
            for name, value in {**_OPTIONS, **settings}.items()
            for word in ("-c", f"{name}={value}")
        ]
        command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), *options]
        process = spawn([*_as(user), *command], log, cwd=folder)
        server = Postgres(programs, port, process.pid)
        try:

            def is_ready() -> bool:
                if process.poll() is not None:
                    raise LocalError(f"PostgreSQL has ended:\n{tail(log.read_text())}")
                return server._answers()

            wait_until(is_ready, _TIMEOUT, "PostgreSQL to answer", 0.2)
            yield server
        finally:
            process.send_signal(signal.SIGINT)  # ends without waiting for its clients
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP)
            end(process, _STOP)
    finally:
        shutil.rmtree(folder)


def _programs() -> Path:
    """The folder of the newest version that is installed. Debian does not have it on the PATH."""
    servers = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    found = sorted(servers, key=lambda path: int(re.sub(r"\D", "", path.parts[4]) or 0))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    if on_path is None or shutil.which("psql") is None:
        raise MissingPostgres("PostgreSQL is not installed: apt-get install postgresql")
    return Path(on_path).resolve().parent


def _user() -> pwd.struct_passwd:
    """The user that runs the server: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    if shutil.which("setpriv") is None:
        raise MissingPostgres("PostgreSQL does not run as root, and setpriv is not installed")
    for name in (USER, "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise MissingPostgres("PostgreSQL does not run as root, and there is no other user to run it")


def _as(user: pwd.struct_passwd) -> list[str]:
    """The start of a command that runs as the user, and ends with the process that started it."""
    if os.geteuid() == user.pw_uid:
        return []
    ids = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    return ["setpriv", *ids, "--pdeathsig=TERM"]


def _initialize(programs: Path, data: Path, user: pwd.struct_passwd) -> None:
    options = ("--username", USER, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
    done = subprocess.run(
        [*_as(user), str(programs / "initdb"), "-D", str(data), *options],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=_TIMEOUT,
        cwd=data.parent,
    )
    if done.returncode:
        raise LocalError(f"initdb failed:\n{tail(done.stdout + done.stderr)}")
