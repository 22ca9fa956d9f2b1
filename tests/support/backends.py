"""A backend as users run it: a gunicorn process that tests start, stop, kill and restart."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from local.errors import LocalError, tail
from local.ports import free_ports, is_free
from local.processes import end, how_it_ended, spawn
from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.client import Client, Response
from tests.support.fork_server import fork_server

_GUNICORN = str(Path(sys.executable).with_name("gunicorn"))
COMMAND = [_GUNICORN, "-c", "python:backend.gunicorn_conf"]


# Short time-outs: an instance is dead after 2 s instead of 6.
FAST_SETTINGS = {
    "QUERYABLE_SESSION_TIMEOUT_MS": "2000",
    "QUERYABLE_END_OFFSET_INTERVAL": "0.2",
    # most tests do without standbys; tests of standbys set this
    "QUERYABLE_STANDBY_REPLICAS": "0",
}
FAST_CONSTANTS = {"broker_timeout": "2", "forward_timeout": "5"}
START_TIMEOUT = 40.0  # s, on a loaded machine


class Backend:
    """One instance. Its port and its data folder stay the same when its process is restarted."""

    def __init__(
        self,
        id_: str,
        folder: Path,
        settings: Mapping[str, str],
        constants: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`settings`: more of its environment. `constants`: numbers that differ from those of the
        product, and of FAST_CONSTANTS."""
        self.id = id_
        self.constants = {**FAST_CONSTANTS, **constants}
        [self.port] = free_ports(1)
        self.data_dir = folder / id_
        self.log_path = folder / f"{id_}.log"
        self.cwd = REPOSITORY
        self.token = ""  # for its `get`
        self.uses_command = False  # True: run the command, not a fork, which starts faster
        self.settings = {
            **FAST_SETTINGS,
            "QUERYABLE_INSTANCE_ID": id_,
            "QUERYABLE_PORT": str(self.port),
            "QUERYABLE_DATA_DIR": str(self.data_dir),
            **settings,
        }
        self._process: Any = None
        self._log_start = 0
        self._arbiter_killed = False

    @property
    def advertised_port(self) -> int:
        """The port at which proxies and other instances reach it."""
        advertised = self.settings.get("QUERYABLE_ADVERTISED", "")
        return int(advertised.rpartition(":")[2] or self.port)

    @property
    def address(self) -> str:
        """The address as in QUERYABLE_BACKENDS."""
        scheme = "https://" if "QUERYABLE_TLS_CERT_FILE" in self.settings else ""
        return f"{scheme}127.0.0.1:{self.advertised_port}"

    def launch(self, **settings: str) -> Backend:
        """Start the process and return at once. `settings` (without prefix) are for this start."""
        changed = {f"QUERYABLE_{name.upper()}": value for name, value in settings.items()}
        plain = {k: v for k, v in os.environ.items() if not k.startswith("QUERYABLE_")}
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        env = {**plain, **self.settings, **changed}
        command = COMMAND
        if self.constants and self.cwd == REPOSITORY:  # elsewhere, it is another release
            command = [_GUNICORN, "-c", "python:bench.altered_conf"]
            numbers = {name: json.loads(text) for name, text in self.constants.items()}
            env["ALTERED_CONSTANTS"] = json.dumps(numbers)
        if self.uses_command or self.cwd != REPOSITORY or "PYTHONPATH" in self.settings:
            self._process = spawn(command, self.log_path, env=env, cwd=self.cwd)
        else:
            self._process = fork_server().start(command[1:], env, self.cwd, self.log_path)
        return self

    def start(self, **settings: str) -> Backend:
        """Start the process and return when all its partitions are answerable."""
        self.launch(**settings)
        self.wait_ready()
        return self

    @property
    def pid(self) -> int:
        """The pid of gunicorn's arbiter, which is also the process group."""
        return int(self._process.pid)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def check(self) -> None:
        """Raise LocalError with the end of the log if the process has ended."""
        if not self.is_running:
            status = how_it_ended(self._process.poll())
            raise LocalError(f"backend {self.id} ended with {status}:\n{tail(self.log(), 40)}")

    def wait(self, condition: Any, what: str, timeout: float = START_TIMEOUT) -> Any:
        """Wait for the first true result of `condition()`; fail at once if this backend exits."""

        def still() -> Any:
            self.check()
            return condition()

        try:
            return wait_until(still, timeout, f"{what} ({self.id})", 0.03)
        except LocalError as error:
            raise AssertionError(f"{error}\nLog:\n{tail(self.log(), 40)}") from None

    def wait_listening(self) -> None:
        self.wait(lambda: self.try_get("/health/live"), "an answer")

    def wait_ready(self, instances: int = 0, timeout: float = START_TIMEOUT) -> None:
        """Wait until all its partitions are answerable. With `instances`, also wait until its
        topology has that many instances and none of them is warming up."""

        def ready() -> bool:
            topology, answer = self.try_get("/processors"), self.try_get("/health/ready")
            if topology is None or topology.status != 200 or answer is None:
                return False
            # the topology first: if a newer one follows, readiness is that of its partitions
            processors = topology.json()["processors"]
            warming = [p for each in processors for p in each["warmingPartitions"].values() if p]
            is_settled = not instances or (len(processors) == instances and not warming)
            return is_settled and answer.status == 200

        self.wait(ready, "it to be ready", timeout)

    def wait_log(self, text: str, timeout: float = START_TIMEOUT) -> str:
        """Wait until this process has logged `text`; return the line."""
        return str(
            self.wait(
                lambda: next((line for line in self.log().splitlines() if text in line), ""),
                f"{text!r} in the log",
                timeout,
            )
        )

    def wait_end(self, timeout: float = 30.0) -> int:
        """Wait until the process has exited by itself; return its status."""
        wait_until(lambda: self._process.poll() is not None, timeout, f"the end of {self.id}", 0.02)
        return int(self._process.wait())

    def terminate(self) -> None:
        """Send SIGTERM and return at once."""
        self._process.terminate()

    def stop(self, grace: float = 20.0) -> int:
        """Send SIGTERM and wait; return the exit status (-9 if it had to be killed)."""
        return end(self._process, grace)

    def kill(self) -> None:
        """Kill arbiter and worker at once, like a machine failure. Returns when both have ended: a
        worker that has not ended yet still listens on the port."""
        try:
            workers = self.workers()
        except FileNotFoundError:  # the arbiter was killed before
            workers = []
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        wait_until(
            lambda: not any(map(_has_files, workers)) and is_free(self.port),
            20, f"{self.id} to end", 0.002,
        )  # fmt: skip

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop arbiter and worker (SIGSTOP) during the block, like a suspended machine."""
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
        """Kill one of `workers()`."""
        os.kill(pid, signal.SIGKILL)

    def kill_arbiter(self) -> None:
        """Kill only the arbiter; its worker keeps running."""
        self._process.kill()
        self._process.wait()
        self._arbiter_killed = True

    def wait_gone(self, timeout: float = 20.0) -> None:
        """Wait until no process of this instance is left and its port is free."""

        def gone() -> bool:
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                return is_free(self.port)
            return False

        wait_until(gone, timeout, f"the end of all processes of {self.id}")
        self._arbiter_killed = False

    def end(self) -> None:
        """Kill its remaining processes."""
        if self._process is None:
            return
        # after wait() the pid may belong to another process, unless the group has a member left
        if self._process.returncode is None or self._arbiter_killed:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def log(self, whole: bool = False) -> str:
        """The output of the current process; with `whole`, of all processes of this instance."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as file:
            file.seek(0 if whole else self._log_start)
            return file.read().decode(errors="replace")

    def client(self) -> Client:
        """A client of this instance: by HTTPS if it has a certificate."""
        if "QUERYABLE_TLS_CERT_FILE" not in self.settings:
            return Client(self.port)
        context = ssl.create_default_context(cafile=self.settings["QUERYABLE_TLS_CA_FILE"])
        return Client(self.port, context=context)

    def get(self, path: str, **headers: str) -> Response:
        """A GET on a new connection, with the token if there is one."""
        if self.token:
            headers = {"Authorization": f"Bearer {self.token}", **headers}
        with self.client() as client:
            return client.get(path, **headers)

    def try_get(self, path: str) -> Response | None:
        """Like `get`; None if the connection fails."""
        try:
            return self.get(path)
        except OSError:
            return None

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        """The samples of a metric by their label values, in the order of the label names. Fails if
        the text of /metrics is invalid."""
        families = list(text_string_to_metric_families(self.get("/metrics").body.decode()))
        return {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
            if sample.name == name
        }

    def processors(self) -> dict[str, Any]:
        answer = self.get("/processors")
        assert answer.status == 200, answer
        document: dict[str, Any] = answer.json()
        return document

    def epoch(self) -> str:
        """The epoch of its topology."""
        return str(self.processors()["epoch"])

    def states(self) -> dict[str, str]:
        """Instance -> state in its topology."""
        return {each["id"]: each["state"] for each in self.processors()["processors"]}

    def instance(self) -> dict[str, Any]:
        document: dict[str, Any] = self.get("/instance").json()
        return document

    def has_its_assigned_partitions(self) -> bool:
        """Whether its open partitions and their roles are exactly those of its topology."""
        [mine] = [p for p in self.processors()["processors"] if p["id"] == self.id] or [{}]
        fields = {"active": "topicPartitions", "standby": "standbyPartitions"}
        wanted = {
            # inside an instance, version 1 of a view has the view's name
            (view.removesuffix("@1"), partition, role)
            for role, field in fields.items()
            for view, partitions in mine.get(field, {}).items()
            # the name of a view with versions means one of them
            if not any(other.startswith(f"{view}@") for other in mine[field])
            for partition in partitions
        }
        held = self.instance()["partitions"]
        return wanted == {(p["view"], p["partition"], p["role"]) for p in held}

    def partitions(self, view: str) -> list[dict[str, Any]]:
        """The open partitions of the view, as /instance shows them."""
        return [p for p in self.instance()["partitions"] if p["view"] == view]

    def wait_positions(self, view: str, ends: Mapping[int, int]) -> None:
        """Wait until it has exactly the partitions of `ends` open, each at that position."""

        def there() -> bool:
            answer = self.try_get("/instance")
            if answer is None:
                return False
            held = [p for p in answer.json()["partitions"] if p["view"] == view]
            return {p["partition"]: p.get("position") for p in held} == dict(ends)

        self.wait(there, f"view {view} to be at {dict(ends)}")


def _has_files(pid: int) -> bool:
    """Whether the process can have open files: at least one of its threads exists and is not a
    zombie. The main thread may end before the others."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if stat.read_text().rpartition(")")[2].split()[0] not in "ZX":
                return True
    return False


def wake_ups(pid: int) -> int:
    """How often the main thread of a process has waited so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
