"""The servers of a run: a broker with the filled topic, backends, nginx and references."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from bench.proc import cpu_seconds
from bench.records import VIEW, Table, customers, views_toml
from local import http
from local.demo.datasets import Dataset
from local.demo.load import load
from local.errors import LocalError
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.ports import free_ports
from local.settings import REPOSITORY
from local.stack.nginx import lay_out, workers_beside_backends
from local.stack.services import BACKEND, HUGE_PAGES
from local.stack.supervisor import Supervisor
from model.http.answers import Answer

_START_TIMEOUT_S = 60.0
_ASK_EVERY_S = 0.05  # a request takes CPU time: with one every 0.02 s, launches took 7 % longer
_MIN_INGEST_RATE = 15_000  # records/s of a backend that recovers on a busy machine
_IDLE_CPU = 0.1  # CPU seconds per second of a backend without requests and compactions
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its name at the supervisor, the pid of its first process, and its port."""

    name: str
    pid: int
    port: int
    reference: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, token: str = "") -> Answer:
        """GET on a new connection; status 0 if the server does not answer within 5 s."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return http.get(f"{self.url}{path}", headers=headers)


class Stack:
    """Starts and stops all processes of a run. `folder` has their data and logs. Logs are kept; if
    the run failed, the data are kept until the next run.

    References have a supervisor of their own, so that waiting for ours does not fail because a
    reference has ended.
    """

    def __init__(self, folder: Path, count: int) -> None:
        """`count`: the number of records of the topic. Deletes the data of the last run."""
        self.table = customers(count)
        self._data = folder / "data"
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(parents=True)
        self._broker = Broker(self._data / "broker", fresh=True)
        self._supervisors = {reference: Supervisor(folder) for reference in (False, True)}
        self._started = 0
        self._topics: set[str] = set()
        self._written = 0
        self._filled: Server | None = None
        self._has_failed = False

    def __enter__(self) -> Self:
        try:
            self._broker.start()
            self.fill([self.table])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self._stop_all_but("")
        self._broker.stop()
        # the folder also has the logs of nginx
        if not self._has_failed and (kind is None or not issubclass(kind, LocalError)):
            shutil.rmtree(self._data, ignore_errors=True)

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        """At the end of the block, stops the servers that were started in it, except the filled
        backend. Stops that backend, too, if the block or one of our servers has failed: the next
        group gets a new one. Raises LocalError if one of our servers has ended by itself."""
        try:
            yield
            self._supervisors[False].check()
        except BaseException:
            self._filled, self._has_failed = None, True
            raise
        finally:
            self._stop_all_but(self._filled.name if self._filled else "")

    def _stop_all_but(self, kept: str) -> None:
        for supervisor in self._supervisors.values():
            supervisor.stop([name for name in supervisor.children if name != kept])

    def check_broker(self) -> None:
        """Raises LocalError if the broker has ended: nothing can be measured without it."""
        self._broker.check()

    def cpu_seconds(self) -> float:
        """CPU time of the servers that are running."""
        pids = [
            child.process.pid
            for supervisor in self._supervisors.values()
            for child in supervisor.children.values()
        ]
        return cpu_seconds(*pids, *([self._broker.process.pid] if self._broker.is_running else []))

    @property
    def servers(self) -> str:
        return self._broker.bootstrap_servers

    def fill(self, tables: Sequence[Table]) -> None:
        """Creates the topics of these tables that are not there, and writes all their records."""
        for table in tables:
            if table.topic in self._topics:
                continue
            self._topics.add(table.topic)
            topic = Topic(table.topic, table.partitions)
            create_topics(quiet_admin(self.servers), [topic])
            load(self.servers, Dataset(topic, table.size, table.records))
            self._written += table.count

    def new_name(self, kind: str) -> str:
        """A new name for a process, a folder or a consumer group of this run."""
        self._started += 1
        return f"{kind}-{self._started}"

    def folder_of(self, name: str) -> Path:
        """The data folder of the server with this name."""
        return self._data / name

    def launch(
        self,
        name: str,
        command: Callable[[int], Sequence[str]],
        *,
        reference: bool = False,
        env: Mapping[str, str] = _NONE,
        port: int = 0,
    ) -> Server:
        """Starts a server; does not wait until it is ready. `command` gets its port, which is a
        free one by default."""
        [port] = [port] if port else free_ports(1)
        child = self._supervisors[reference].start(name, command(port), env=env, cwd=REPOSITORY)
        return Server(name, child.process.pid, port, reference)

    def launch_gunicorn(
        self,
        name: str,
        configuration: str,
        views: str = "",
        *,
        env: Mapping[str, str] = _NONE,
        reference: bool = False,
    ) -> Server:
        """Starts gunicorn; does not wait until it is ready. `views`: the text of its views.toml; by
        default it has the view of this stack's table."""
        file = self._data / f"{env.get('QUERYABLE_APPLICATION_ID', name)}.toml"
        text = views or views_toml([self.table])
        if not file.exists() or file.read_text() != text:  # another backend may be reading it
            file.write_text(text)
        [port] = free_ports(1)
        common = {**HUGE_PAGES, "QUERYABLE_PORT": str(port), "QUERYABLE_VIEWS": str(file)}
        command = [*BACKEND[:-1], configuration]
        env = {**common, **env}
        return self.launch(name, lambda _: command, reference=reference, env=env, port=port)

    def launch_backend(
        self,
        name: str,
        group: str,
        settings: Mapping[str, str] = _NONE,
        views: str = "",
        configuration: str = BACKEND[-1],
    ) -> Server:
        """Starts a backend of the deployment `group`; does not wait until it is ready. `settings`:
        more variables of its environment. `views`, `configuration`: see `launch_gunicorn`."""
        env = {
            "QUERYABLE_BOOTSTRAP_SERVERS": self.servers,
            "QUERYABLE_APPLICATION_ID": group,
            "QUERYABLE_INSTANCE_ID": name,
            "QUERYABLE_DATA_DIR": str(self.folder_of(name)),
            **settings,
        }
        return self.launch_gunicorn(name, configuration, views, env=env)

    def launch_backends(
        self, count: int, table: Table, settings: Mapping[str, str] = _NONE
    ) -> list[Server]:
        """Starts backends of this table; waits until each has its partitions, and is idle."""
        group = self.new_name("group")
        backends = [
            self.launch_backend(self.new_name("backend"), group, settings, views_toml([table]))
            for _ in range(count)
        ]
        self.wait_ready(*backends)
        self.wait(lambda: _is_balanced(backends[0]), f"{count} backends to have their partitions")
        for backend in backends:
            self.wait_idle(backend)
        return backends

    def wait_ready(self, *backends: Server, token: str = "") -> None:
        """Waits until all are ready, and have the topology with all of them. `token`: a token that
        they accept, if they need one."""

        def ready() -> bool:
            for backend in backends:
                if backend.get("/health/ready").status != 200:
                    return False
                answer = backend.get("/processors", token)
                if not answer.status:
                    return False
                if len(json.loads(answer.body)["processors"]) != len(backends):
                    return False
            return True

        timeout = max(_START_TIMEOUT_S, self._written / _MIN_INGEST_RATE)
        self.wait(ready, "the backends to be ready", timeout)

    def restarted_backend(
        self,
        settings: Mapping[str, str] = _NONE,
        token: str = "",
        copy: bool = False,
        tables: Sequence[Table] = (),
    ) -> Server:
        """A backend with all records that was restarted, and is idle. `copy`: copies its data
        meanwhile. `tables`: its views; by default, it has the view of this stack's table."""
        name = self.new_name("backend")
        views = views_toml(tables or [self.table])
        backend = self.launch_backend(name, name, settings=settings, views=views)
        self.wait_ready(backend, token=token)
        self.stop(backend)
        if copy:
            shutil.copytree(self.folder_of(name), self.folder_of(f"{name}-copy"))
        backend = self.launch_backend(name, name, settings=settings, views=views)
        self.wait_ready(backend, token=token)
        self.wait_idle(backend)
        return backend

    def filled_backend(self) -> Server:
        """The backend that has all records, and is idle. A run has one."""
        if self._filled is None:
            self._filled = self.restarted_backend(copy=True)
        self.wait_idle(self._filled)
        return self._filled

    def copy_of(self, backend: Server, view: str = VIEW) -> str:
        """The folder with a copy of the data of a backend's view, which references open."""
        return str(self.folder_of(f"{backend.name}-copy") / view)

    def launch_proxy(
        self, backend: Server, batches: bool = True, settings: Mapping[str, str] = _NONE
    ) -> Server:
        """nginx with the project's configuration, in front of the backends of a topology.

        `backend`: one of them. Without `batches`, nginx coalesces no reads. `settings`: more
        variables of its environment.
        """
        name = self.new_name("proxy")
        env = {
            "QUERYABLE_BACKENDS": f"127.0.0.1:{backend.port}",
            "QUERYABLE_PROXY_BATCHES": str(int(batches)),
            **settings,
        }

        def command(port: int) -> list[str]:
            return lay_out(self.folder_of(name), port, workers=workers_beside_backends())

        return self.answering(self.launch(name, command, env=env), "/health/proxy")

    def wait_idle(self, server: Server) -> None:
        """Waits until the server uses less than a tenth of a core for half a second (no
        compaction)."""
        last = (time.monotonic(), cpu_seconds(server.pid))

        def idle() -> bool:
            nonlocal last
            before, last = last, (time.monotonic(), cpu_seconds(server.pid))
            return last[1] - before[1] < _IDLE_CPU * (last[0] - before[0]) - 0.01  # a tick

        what = f"{server.name} to be idle"
        self.wait(idle, what, every=0.5, reference=server.reference)

    def wait(
        self,
        condition: Callable[[], Any],
        what: str,
        timeout: float = _START_TIMEOUT_S,
        every: float = _ASK_EVERY_S,
        *,
        reference: bool = False,
    ) -> None:
        """Waits until `condition()` is true, checking it every `every` s. Raises LocalError after
        `timeout` s, or if one of our servers has died; with `reference`, one of the references."""
        self._supervisors[reference].wait_until(condition, timeout, what, every)

    def answering(self, server: Server, path: str) -> Server:
        """Waits until the server answers a request for `path` with 200; returns it."""
        what = f"{server.name} to answer"
        self.wait(lambda: server.get(path).status == 200, what, reference=server.reference)
        return server

    def check(self, *servers: Server) -> None:
        """Raises LocalError if one of these servers has ended by itself."""
        for server in servers:
            if ended := self._supervisors[server.reference].exits().get(server.name):
                raise LocalError(ended)

    def stop(self, *servers: Server) -> None:
        for reference, supervisor in self._supervisors.items():
            supervisor.stop([server.name for server in servers if server.reference is reference])


def _is_balanced(backend: Server) -> bool:
    answer = backend.get("/processors")
    return answer.status == 200 and is_balanced(json.loads(answer.body))


def is_balanced(processors: dict[str, Any]) -> bool:
    """Whether the numbers of active partitions of the backends differ by at most one, per view."""
    counts_by_view = [
        [len(processor["topicPartitions"].get(view, ())) for processor in processors["processors"]]
        for view in processors["views"]
    ]
    return all(max(counts) - min(counts) <= 1 for counts in counts_by_view)
