"""Backends as users run them: gunicorn processes, started, stopped, killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from local.errors import LocalError, tail
from local.ports import free_ports, is_free
from local.processes import end, how_it_ended, spawn
from local.waiting import wait_until
from tests.client import Client, Response

ROOT = Path(__file__).parents[2]
COMMAND = [str(Path(sys.executable).with_name("gunicorn")), "-c", "python:backend.gunicorn_conf"]

# Everything that waits, waits shortly: a test sees a dead instance after 2 s, not after 6.
QUICK = {
    "QUERYABLE_SESSION_TIMEOUT_MS": "2000",
    "QUERYABLE_METADATA_MAX_AGE_MS": "500",
    "QUERYABLE_END_OFFSET_INTERVAL": "0.2",
    "QUERYABLE_BROKER_TIMEOUT": "2",
    "QUERYABLE_FORWARD_TIMEOUT": "5",
    # most tests are about who holds what, and forwards; those of standbys ask for some
    "QUERYABLE_STANDBY_REPLICAS": "0",
}
START = 40.0  # s, on a loaded machine


class Backend:
    """One instance with its port and its data folder, over any number of processes."""

    def __init__(self, id_: str, folder: Path, settings: Mapping[str, str]) -> None:
        self.id = id_
        [self.port] = free_ports(1)
        self.data_dir = folder / id_
        self.log_path = folder / f"{id_}.log"
        self.cwd = ROOT
        self.settings = {
            **QUICK,
            "QUERYABLE_INSTANCE_ID": id_,
            "QUERYABLE_PORT": str(self.port),
            "QUERYABLE_DATA_DIR": str(self.data_dir),
            **settings,
        }
        self._process: Any = None
        self._log_start = 0
        self._arbiter_killed = False

    def launch(self, **settings: str) -> Backend:
        """Starts the process and returns at once; `settings` (without prefix) for this time."""
        changed = {f"QUERYABLE_{name.upper()}": value for name, value in settings.items()}
        plain = {k: v for k, v in os.environ.items() if not k.startswith("QUERYABLE_")}
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        env = {**plain, **self.settings, **changed}
        self._process = spawn(COMMAND, self.log_path, env=env, cwd=self.cwd)
        return self

    def start(self, **settings: str) -> Backend:
        """Starts the process, and returns when all its partitions are answerable."""
        self.launch(**settings)
        self.wait_ready()
        return self

    @property
    def pid(self) -> int:
        """The arbiter's."""
        return int(self._process.pid)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def check(self) -> None:
        """LocalError with its log when it has ended."""
        if not self.is_running:
            status = how_it_ended(self._process.poll())
            raise LocalError(f"backend {self.id} ended with {status}:\n{tail(self.log(), 40)}")

    def wait(self, condition: Any, what: str, timeout: float = START) -> Any:
        """The first true result of `condition()`, while this backend runs."""

        def still() -> Any:
            self.check()
            return condition()

        try:
            return wait_until(still, timeout, f"{what} ({self.id})", 0.03)
        except LocalError as error:
            raise AssertionError(f"{error}\nits log:\n{tail(self.log(), 40)}") from None

    def wait_listening(self) -> None:
        self.wait(lambda: self.try_get("/health/live"), "an answer")

    def wait_ready(self, instances: int = 0, timeout: float = START) -> None:
        """Until all its partitions are answerable, on a map of `instances` if that is not 0, which
        is not about to change."""

        def ready() -> bool:
            answer = self.try_get("/health/ready")
            if answer is None or answer.status != 200:
                return False
            processors = self.processors()["processors"]
            warming = [p for each in processors for p in each["warmingPartitions"].values() if p]
            return not instances or (len(processors) == instances and not warming)

        self.wait(ready, "it to be ready", timeout)

    def wait_log(self, text: str, timeout: float = START) -> str:
        """Until this process has logged `text`; the line."""
        return str(
            self.wait(
                lambda: next((line for line in self.log().splitlines() if text in line), ""),
                f"{text!r} in the log",
                timeout,
            )
        )

    def wait_end(self, timeout: float = 30.0) -> int:
        """Until the process has ended by itself; its status."""
        return int(self._process.wait(timeout))

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        self._process.terminate()

    def stop(self, grace: float = 20.0) -> int:
        """SIGTERM, and wait; the exit status (-9 if it had to be killed)."""
        return end(self._process, grace)

    def kill(self) -> None:
        """SIGKILL to arbiter and worker at once, as when the machine fails."""
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """SIGSTOP to all of it, as when the machine is suspended, until the block is left."""
        os.killpg(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.pid, signal.SIGCONT)

    def workers(self) -> list[int]:
        """The pids of the arbiter's children (Linux)."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def kill_worker(self, pid: int) -> None:
        """SIGKILL to one of `workers()`."""
        os.kill(pid, signal.SIGKILL)

    def kill_arbiter(self) -> None:
        """SIGKILL to the arbiter alone, whose worker is left behind."""
        self._process.kill()
        self._process.wait()
        self._arbiter_killed = True

    def wait_gone(self, timeout: float = 20.0) -> None:
        """Until nobody of this session lives, and the port is free."""

        def gone() -> bool:
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                return is_free(self.port)
            return False

        wait_until(gone, timeout, f"the end of all processes of {self.id}")
        self._arbiter_killed = False

    def end(self) -> None:
        """Whatever is left of it is killed."""
        if self._process is None:
            return
        # once it was waited for, its pid may be a stranger's, unless its group still has a member
        if self._process.returncode is None or self._arbiter_killed:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def log(self, whole: bool = False) -> str:
        """What this process (or all of this instance) wrote on stderr and stdout."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as file:
            file.seek(0 if whole else self._log_start)
            return file.read().decode(errors="replace")

    def get(self, path: str, **headers: str) -> Response:
        """A request on a connection of its own."""
        with Client(self.port) as client:
            return client.get(path, **headers)

    def try_get(self, path: str) -> Response | None:
        """None where nobody answers."""
        try:
            return self.get(path)
        except OSError:
            return None

    def processors(self) -> dict[str, Any]:
        answer = self.get("/processors")
        assert answer.status == 200, answer
        document: dict[str, Any] = answer.json()
        return document

    def instance(self) -> dict[str, Any]:
        document: dict[str, Any] = self.get("/instance").json()
        return document

    def holds_what_the_map_says(self) -> bool:
        """Whether exactly what its map gives it is open, in the roles that it gives."""
        [mine] = [p for p in self.processors()["processors"] if p["id"] == self.id] or [{}]
        fields = {"active": "topicPartitions", "standby": "standbyPartitions"}
        wanted = {
            (view, partition, role)
            for role, field in fields.items()
            for view, partitions in mine.get(field, {}).items()
            for partition in partitions
        }
        held = self.instance()["partitions"]
        return wanted == {(p["view"], p["partition"], p["role"]) for p in held}

    def partitions(self, view: str) -> list[dict[str, Any]]:
        """What /instance says of the view's partitions that are held here."""
        return [p for p in self.instance()["partitions"] if p["view"] == view]

    def wait_positions(self, view: str, ends: Mapping[int, int]) -> None:
        """Until all partitions of `view` are held here and stand at `ends`."""

        def there() -> bool:
            answer = self.try_get("/instance")
            if answer is None:
                return False
            held = [p for p in answer.json()["partitions"] if p["view"] == view]
            return {p["partition"]: p.get("position") for p in held} == dict(ends)

        self.wait(there, f"view {view} to be at {dict(ends)}")


class Backends:
    """The backends of one deployment: one application id, one views.toml, one folder."""

    def __init__(self, folder: Path, bootstrap_servers: str, views: str, **settings: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.views_path = folder / "views.toml"
        self.views_path.write_text(views)
        self._settings = {
            "QUERYABLE_BOOTSTRAP_SERVERS": bootstrap_servers,
            "QUERYABLE_APPLICATION_ID": f"system-{time.time_ns()}",
            "QUERYABLE_VIEWS": str(self.views_path),
            **{f"QUERYABLE_{name.upper()}": value for name, value in settings.items()},
        }
        self.all: list[Backend] = []

    def __enter__(self) -> Backends:
        return self

    def __exit__(self, *_: object) -> None:
        for backend in self.all:
            backend.end()

    def new(self, id_: str = "", **settings: str) -> Backend:
        """An instance that is not started yet; `settings` are its own."""
        own = {f"QUERYABLE_{name.upper()}": value for name, value in settings.items()}
        backend = Backend(id_ or f"b{len(self.all) + 1}", self.folder, {**self._settings, **own})
        self.all.append(backend)
        return backend

    def start(self, count: int = 1) -> list[Backend]:
        """So many new instances, ready and on one map."""
        started = [self.new().launch() for _ in range(count)]
        settle(started)
        return started


def settle(backends: list[Backend], count: int = 0) -> None:
    """Until these have one map of `count` instances (themselves, by default), and are ready."""
    count = count or len(backends)
    for backend in backends:
        backend.wait_ready(count)

    def one_epoch() -> bool:
        return len({backend.processors()["epoch"] for backend in backends}) == 1

    backends[0].wait(one_epoch, "all instances to have one map")
    for backend in backends:
        backend.wait_ready(count)
        backend.wait(backend.holds_what_the_map_says, "what it shall not hold to be closed")


def views_toml(kafka: Mapping[str, str] | None = None, **views: Mapping[str, str]) -> str:
    """A views.toml; `_` in a view's name stands for `-`."""
    lines = []
    for name, fields in views.items():
        lines.append(f"[views.{name.replace('_', '-')}]")
        declared = {"key": "string", "value": "json", **fields}
        lines += [f"{field} = {json.dumps(value)}" for field, value in declared.items()]
    if kafka:
        lines.append("[kafka]")
        lines += [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in kafka.items()]
    return "\n".join(lines) + "\n"
