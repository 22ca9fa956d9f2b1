"""What is measured, running: a broker with the filled topic, backends, nginx, the references."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench import asking, feeder, records
from bench.proc import cpu_seconds
from local.broker import Broker, quiet_admin
from local.errors import LocalError, tail
from local.nginx import find_nginx, lay_out
from local.ports import free_ports
from local.progress import bar
from local.settings import REPOSITORY
from local.supervisor import Child, Supervisor
from local.topics import Topic, create_topics

_START = 60.0  # s until whatever was started must answer
_SLOWEST = 15_000  # records/s of a backend that reads them in, on a machine that has other work
_IDLE = 0.1  # CPU seconds a second of a backend that has only its own housekeeping to do
_GUNICORN = str(Path(sys.executable).with_name("gunicorn"))


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its supervisor's name, the pid of its first process and its port."""

    name: str
    pid: int
    port: int


class Stack:
    """Starts and ends all processes of a run. Data and logs lie in `folder`; logs stay."""

    def __init__(self, folder: Path, count: int) -> None:
        """A topic of `count` records."""
        self.count = count
        self._data = folder / "data"
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(parents=True)
        self._broker = Broker(self._data / "broker", fresh=True)
        self._supervisor = Supervisor(folder)
        self._started = 0
        self._filled: Server | None = None

    def __enter__(self) -> Self:
        try:
            self._broker.start()
            servers = self._broker.bootstrap_servers
            create_topics(quiet_admin(servers), [Topic(records.TOPIC, records.PARTITIONS)])
            with bar(f"writing {self.count:,} records", self.count) as update:
                feeder.fill(servers, self.count, update)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._supervisor.stop(list(self._supervisor.children))
        self._broker.stop()
        shutil.rmtree(self._data, ignore_errors=True)

    @property
    def servers(self) -> str:
        return self._broker.bootstrap_servers

    def new_name(self, kind: str) -> str:
        """A name that no process, folder or consumer group of this run has yet."""
        self._started += 1
        return f"{kind}-{self._started}"

    def folder_of(self, name: str) -> Path:
        """The data folder of a backend, or what else is kept under a name."""
        return self._data / name

    def launch_backend(self, name: str, group: str) -> Server:
        """A backend of the deployment `group`, on the folder of its name; does not wait."""
        views = self._data / "views.toml"
        views.write_text(records.VIEWS_TOML)
        [port] = free_ports(1)
        env = {
            "QUERYABLE_BOOTSTRAP_SERVERS": self.servers,
            "QUERYABLE_APPLICATION_ID": group,
            "QUERYABLE_INSTANCE_ID": name,
            "QUERYABLE_PORT": str(port),
            "QUERYABLE_DATA_DIR": str(self.folder_of(name)),
            "QUERYABLE_VIEWS": str(views),
        }
        command = [_GUNICORN, "-c", "python:backend.gunicorn_conf"]
        return self._server(self._supervisor.start(name, command, env=env, cwd=REPOSITORY), port)

    def wait_ready(self, *backends: Server) -> None:
        """Until all are ready, on one map with all of them."""

        def ready() -> bool:
            for backend in backends:
                answer = asking.get(backend.port, "/health/ready")
                if answer is None or answer.status != 200:
                    return False
                known = asking.get(backend.port, "/processors")
                if known is None or len(known.json()["processors"]) != len(backends):
                    return False
            return True

        timeout = max(_START, self.count / _SLOWEST)
        self._supervisor.wait_until(ready, timeout, "the backends to be ready", 0.05)

    def filled_backend(self) -> Server:
        """The backend that holds all records and has nothing left to do for them: one a run."""
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
        """A copy of a filled backend's data, for others to open."""
        return self.folder_of(f"{backend.name}-copy")

    def launch_constant(self, answer: asking.Answer) -> Server:
        """gunicorn, as a backend has it, with an application that always gives this answer."""
        recorded = self._data / "answer.json"
        of_server = ("date", "server", "connection")
        headers = [(name, text) for name, text in answer.headers if name not in of_server]
        body = answer.body.decode()
        recorded.write_text(json.dumps({"status": answer.status, "headers": headers, "body": body}))
        [port] = free_ports(1)
        env = {
            "QUERYABLE_PORT": str(port),
            "QUERYABLE_VIEWS": str(self._data / "views.toml"),
            "BENCH_ANSWER": str(recorded),
        }
        command = [_GUNICORN, "-c", "python:bench.references.constant_conf"]
        name = self.new_name("constant")
        child = self._supervisor.start(name, command, env=env, cwd=REPOSITORY)
        return self._answering(self._server(child, port), "/")

    def launch_proxy(self, backend: Server) -> Server:
        """nginx with the project's own configuration, in front of a backend."""
        name = self.new_name("proxy")
        [port] = free_ports(1)
        command = lay_out(self.folder_of(name), port)
        env = {"QUERYABLE_BACKENDS": f"127.0.0.1:{backend.port}"}
        child = self._supervisor.start(name, command, env=env)
        return self._answering(self._server(child, port), "/proxy/health")

    def launch_nginx(self, location: str, upstream: str = "", workers: str = "auto") -> Server:
        """A plain nginx whose one location holds the directives `location`; no log, no Lua."""
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
        return self._answering(self._server(self._supervisor.start(name, command), port), "/")

    def launch_feeder(self, rate: int) -> Server:
        """Updates of the topic's keys, `rate` records a second, until it is stopped."""
        command = [sys.executable, "-m", "bench.feeder", self.servers, str(self.count), str(rate)]
        name = self.new_name("feeder")
        return self._server(self._supervisor.start(name, command, cwd=REPOSITORY), 0)

    def wait_idle(self, server: Server) -> None:
        """Until it uses less than a tenth of a core for half a second: no compaction any more."""
        last = (time.monotonic(), cpu_seconds(server.pid))

        def idle() -> bool:
            nonlocal last
            before, last = last, (time.monotonic(), cpu_seconds(server.pid))
            return last[1] - before[1] < _IDLE * (last[0] - before[0]) - 0.01  # a tick

        self._supervisor.wait_until(idle, _START, f"{server.name} to be idle", 0.5)

    def wait(self, condition: Any, what: str, timeout: float = _START) -> None:
        """Until `condition()`; LocalError when a process has died, or time is up."""
        self._supervisor.wait_until(condition, timeout, what, 0.02)

    def stop(self, *servers: Server) -> None:
        self._supervisor.stop([server.name for server in servers])

    def _answering(self, server: Server, path: str) -> Server:
        def answers() -> bool:
            answer = asking.get(server.port, path)
            return answer is not None and answer.status == 200

        self._supervisor.wait_until(answers, _START, f"{server.name} to answer", 0.05)
        return server

    def _server(self, child: Child, port: int) -> Server:
        return Server(child.name, child.process.pid, port)


def run_reference(module: str, *arguments: str) -> dict[str, float]:
    """Runs a module of `bench.references` to its end; the JSON that it printed."""
    [said] = run_references([(module, *arguments)])
    return said


def run_references(commands: Sequence[tuple[str, ...]]) -> list[dict[str, float]]:
    """The same, all at once."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", f"bench.references.{module}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=REPOSITORY,
        )
        for module, *arguments in commands
    ]
    try:
        said = [process.communicate(timeout=150)[0] for process in running]
    except BaseException:
        for process in running:
            process.kill()
            process.wait()
        raise
    for process, output in zip(running, said, strict=True):
        if process.returncode:
            raise LocalError(f"a reference failed:\n{tail(output)}")
    return [json.loads(output.splitlines()[-1]) for output in said]
