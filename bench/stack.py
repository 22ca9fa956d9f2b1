"""The servers of a run: a broker with the filled topic, backends, nginx and references."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from bench import feeder, http_client
from bench.proc import cpu_seconds
from bench.records import Table, customers, views_toml
from bench.references import redis
from local.errors import LocalError, tail
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.ports import free_ports
from local.progress import bar
from local.settings import REPOSITORY
from local.stack.nginx import find_nginx, lay_out, workers_beside_backends
from local.stack.services import HUGE_PAGES
from local.stack.supervisor import Supervisor

_START_TIMEOUT = 60.0  # s
_ASK_EVERY = 0.05  # s. Each question takes CPU: with one every 0.02 s, launches took 7 % longer
_MIN_INGEST_RATE = 15_000  # records/s of a backend that recovers on a busy machine
_IDLE_CPU = 0.1  # CPU seconds per second of a backend without requests and compactions
_GUNICORN = str(Path(sys.executable).with_name("gunicorn"))


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its name at the supervisor, the pid of its first process, and its port."""

    name: str
    pid: int
    port: int
    reference: bool = False


class Stack:
    """Starts and stops all processes of a run. `folder` has their data and logs. Logs are kept; if
    the run failed, the data are kept until the next run.

    References have a supervisor of their own, so that waiting for ours does not fail because a
    reference has ended.
    """

    def __init__(self, folder: Path, count: int) -> None:
        """`count`: the number of records of the topic. Deletes the data of the last run."""
        self.table = customers(count)
        self.count = count
        self._logs = folder / "logs"
        self._data = folder / "data"
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(parents=True)
        self._broker = Broker(self._data / "broker", fresh=True)
        self._supervisors = {reference: Supervisor(folder) for reference in (False, True)}
        self._started = 0
        self._written = 0
        self._filled: Server | None = None
        self._has_failed = False

    def __enter__(self) -> Self:
        try:
            self._broker.start()
            with bar(f"writing {self.count:,} records", self.count) as update:
                self.fill([self.table], update)
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
        group gets a new one. LocalError if one of our servers has ended by itself."""
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
        running = [each for of in self._supervisors.values() for each in of.children.values()]
        pids = [each.process.pid for each in running]
        return cpu_seconds(*pids, *([self._broker.process.pid] if self._broker.is_running else []))

    @property
    def servers(self) -> str:
        return self._broker.bootstrap_servers

    def fill(self, tables: Sequence[Table], update: Callable[[int], None] = lambda _: None) -> None:
        """Creates the topics of these tables, and writes all their records."""
        topics = [Topic(table.topic, table.partitions) for table in tables]
        create_topics(quiet_admin(self.servers), topics)
        for table in tables:
            feeder.fill(self.servers, table, update)
            self._written += table.count

    def new_name(self, kind: str) -> str:
        """A new name for a process, a folder or a consumer group of this run."""
        self._started += 1
        return f"{kind}-{self._started}"

    def folder_of(self, name: str) -> Path:
        """The data folder of the server with this name."""
        return self._data / name

    def log_of(self, server: Server) -> str:
        """What a server has logged."""
        return (self._logs / f"{server.name}.log").read_text()

    def launch_backend(
        self,
        name: str,
        group: str,
        tables: Sequence[Table] = (),
        settings: Mapping[str, str] = MappingProxyType({}),
        views: str = "",
        constants: Mapping[str, float] = MappingProxyType({}),
    ) -> Server:
        """Starts a backend of the deployment `group`; does not wait until it is ready.

        `views` is the text of its views.toml. Without it, the backend has the views of `tables`; by
        default, the view of this stack's table. `settings`: more variables of its environment.
        `constants`: those that differ from the product's.
        """
        file = self._data / f"{group}.toml"
        text = views or views_toml(tables or [self.table])
        if not file.exists() or file.read_text() != text:  # another backend may be reading it
            file.write_text(text)
        [port] = free_ports(1)
        env = {
            **HUGE_PAGES,
            "QUERYABLE_BOOTSTRAP_SERVERS": self.servers,
            "QUERYABLE_APPLICATION_ID": group,
            "QUERYABLE_INSTANCE_ID": name,
            "QUERYABLE_PORT": str(port),
            "QUERYABLE_DATA_DIR": str(self.folder_of(name)),
            "QUERYABLE_VIEWS": str(file),
            **settings,
        }
        conf = "backend.gunicorn_conf"
        if constants:
            conf, env["ALTERED_CONSTANTS"] = "bench.altered_conf", json.dumps(dict(constants))
        command = [_GUNICORN, "-c", f"python:{conf}"]
        return self._start(name, command, port, env=env, cwd=REPOSITORY)

    def wait_ready(self, *backends: Server, token: str = "") -> None:
        """Waits until all are ready, and have the topology with all of them. `token`: a token that
        they accept, if they need one."""

        def ready() -> bool:
            for backend in backends:
                answer = http_client.get(backend.port, "/health/ready")
                if answer is None or answer.status != 200:
                    return False
                known = http_client.get(backend.port, "/processors", token)
                if known is None or len(known.json()["processors"]) != len(backends):
                    return False
            return True

        timeout = max(_START_TIMEOUT, self._written / _MIN_INGEST_RATE)
        self.wait(ready, "the backends to be ready", timeout)

    def filled_backend(self) -> Server:
        """The backend that has all records, and is idle. A run has one."""
        if self._filled is None:
            name = self.new_name("backend")
            backend = self.launch_backend(name, name)
            self.wait_ready(backend)
            self.stop(backend)
            shutil.copytree(self.folder_of(name), self.folder_of(f"{name}-copy"))
            backend = self.launch_backend(name, name)
            self.wait_ready(backend)
            self._filled = backend
        self.wait_idle(self._filled)
        return self._filled

    def copy_of(self, backend: Server) -> Path:
        """A copy of the filled backend's data, which references open."""
        return self.folder_of(f"{backend.name}-copy")

    def launch_constant(self, answer: http_client.Answer) -> Server:
        """gunicorn with a backend's settings, and an application that always sends this answer."""
        recorded = self._data / "answer.json"
        of_server = ("date", "server", "connection")
        headers = [(name, text) for name, text in answer.headers if name not in of_server]
        body = answer.body.decode()
        recorded.write_text(json.dumps({"status": answer.status, "headers": headers, "body": body}))
        return self._launch_application("constant", {"BENCH_ANSWER": str(recorded)}, "/")

    def launch_redis(self) -> Server:
        """Redis with all records."""
        name = self.new_name("redis")
        [port] = free_ports(1)
        self.folder_of(name).mkdir()
        command = redis.command(self.folder_of(name), port)
        server = self._start(name, command, port, reference=True)
        self.wait(lambda: redis.answers(port), "Redis to answer", reference=True)
        redis.fill(port, self.table)
        return server

    def launch_redis_asgi(self, behind: Server, path: str) -> Server:
        """gunicorn with a backend's settings, and an application that reads from Redis. Waits until
        it answers a read of `path`."""
        return self._launch_application("redis_asgi", {"BENCH_REDIS": str(behind.port)}, path)

    def _launch_application(self, module: str, env: dict[str, str], path: str) -> Server:
        views = self._data / "unused.toml"  # needed, because gunicorn reads a backend's settings
        views.write_text(views_toml([self.table]))
        [port] = free_ports(1)
        env = {
            **HUGE_PAGES,
            "QUERYABLE_PORT": str(port),
            "QUERYABLE_VIEWS": str(views),
            "BENCH_APP": f"bench.references.{module}:create()",
            **env,
        }
        command = [_GUNICORN, "-c", "python:bench.references.asgi_conf"]
        name = self.new_name(module)
        server = self._start(name, command, port, reference=True, env=env, cwd=REPOSITORY)
        return self._answering(server, path)

    def launch_proxy(
        self,
        backend: Server,
        batches: bool = True,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> Server:
        """nginx with the project's configuration, in front of the backends of a topology.

        `backend`: one of them. Without `batches`, nginx coalesces no reads. `settings`: more
        variables of its environment.
        """
        name = self.new_name("proxy")
        [port] = free_ports(1)
        command = lay_out(self.folder_of(name), port, workers=workers_beside_backends())
        env = {
            "QUERYABLE_BACKENDS": f"127.0.0.1:{backend.port}",
            "QUERYABLE_PROXY_BATCHES": str(int(batches)),
            **settings,
        }
        return self._answering(self._start(name, command, port, env=env), "/health/proxy")

    def launch_nginx(self, location: str, upstream: str = "") -> Server:
        """nginx with one location, which has the directives `location`; no access log, no Lua. It
        has as many workers as our nginx."""
        workers = workers_beside_backends()
        name = self.new_name("nginx")
        [port] = free_ports(1)
        prefix = self.folder_of(name)
        (prefix / "logs").mkdir(parents=True)
        temporary = "".join(
            f"{kind}_temp_path {kind}_temp; "
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (prefix / "nginx.conf").write_text(
            f"worker_processes {workers};\n"
            "pid logs/nginx.pid;\nerror_log logs/error.log;\n"
            "events { worker_connections 4096; multi_accept on; }\n"
            f"http {{\n  {temporary}\n  access_log off;\n  keepalive_requests 10000000;\n"
            f"  {upstream}\n"
            f"  server {{ listen 127.0.0.1:{port}; location / {{ {location} }} }}\n}}\n"
        )
        command = [find_nginx(), "-e", f"{prefix}/logs/error.log", "-p", f"{prefix}/"]
        command += ["-c", f"{prefix}/nginx.conf", "-g", "daemon off;"]
        return self._answering(self._start(name, command, port, reference=True), "/")

    def launch_command(
        self, name: str, command: list[str], port: int = 0, *, reference: bool = False
    ) -> Server:
        """Starts another server; does not wait until it is ready. `port`: its port, if it has
        one."""
        return self._start(name, command, port, reference=reference, cwd=REPOSITORY)

    def free_port(self) -> int:
        [port] = free_ports(1)
        return port

    def launch_feeder(self, rate: int) -> Server:
        """A producer that updates the topic's keys, `rate` records per second, until stopped."""
        command = [sys.executable, "-m", "bench.feeder", self.servers, str(self.count), str(rate)]
        return self._start(self.new_name("feeder"), command, 0, cwd=REPOSITORY)

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
        condition: Any,
        what: str,
        timeout: float = _START_TIMEOUT,
        every: float = _ASK_EVERY,
        *,
        reference: bool = False,
    ) -> None:
        """Waits until `condition()`, asking each `every` s. Raises LocalError after `timeout` s, or
        if one of our servers has died; with `reference`, one of the references."""
        self._supervisors[reference].wait_until(condition, timeout, what, every)

    def check(self, *servers: Server) -> None:
        """Raises LocalError if one of these servers has ended by itself."""
        for server in servers:
            if ended := self._supervisors[server.reference].exits().get(server.name):
                raise LocalError(ended)

    def stop(self, *servers: Server) -> None:
        for reference, supervisor in self._supervisors.items():
            supervisor.stop([each.name for each in servers if each.reference is reference])

    def _answering(self, server: Server, path: str) -> Server:
        def answers() -> bool:
            answer = http_client.get(server.port, path)
            return answer is not None and answer.status == 200

        what = f"{server.name} to answer"
        self.wait(answers, what, reference=server.reference)
        return server

    def _start(
        self, name: str, command: list[str], port: int, *, reference: bool = False, **how: Any
    ) -> Server:
        child = self._supervisors[reference].start(name, command, **how)
        return Server(name, child.process.pid, port, reference)


def run_reference(module: str, *arguments: str) -> dict[str, float]:
    """Runs a module of `bench.references`; returns the JSON that it printed. Raises LocalError."""
    [result] = run_references([(module, *arguments)])
    return result


def run_references(commands: Sequence[tuple[str, ...]]) -> list[dict[str, float]]:
    """Runs several at the same time; returns their JSON."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", f"bench.references.{module}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, **HUGE_PAGES},
        )
        for module, *arguments in commands
    ]
    try:
        outputs = [process.communicate(timeout=150)[0] for process in running]
    except BaseException:
        for process in running:
            process.kill()
            process.wait()
        raise
    for (module, *_), process, output in zip(commands, running, outputs, strict=True):
        if process.returncode:
            raise LocalError(f"bench.references.{module} failed:\n{tail(output)}")
    return [json.loads(output.splitlines()[-1]) for output in outputs]
