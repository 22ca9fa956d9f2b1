"""`python -m local demo` as a child process, on ports and in folders of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from local import http
from local.ports import LOOPBACK, free_ports, is_free
from local.processes import spawn
from local.waiting import wait_until

ROOT = Path(__file__).parents[3]
INSTANCES = 3
START = 300.0  # s; some 40 on a quiet machine


# E2E_ALL_VIEWS=1: all of them, which takes some minutes; each has tests of its own
ALL_VIEWS = bool(os.environ.get("E2E_ALL_VIEWS"))
SOME_VIEWS = ("latest-departure", "word-count", "requests-per-host")


class Demo:
    """The demo's stack: an embedded broker, Spark, three backends, nginx."""

    def __init__(self, folder: Path) -> None:
        self.run_dir = folder / "run"
        self.log_path = folder / "demo.log"
        self.broker_port, self.proxy_port = free_ports(2)
        self.backend_ports = ports_in_a_row(INSTANCES)
        self.settings = {
            "QUERYABLE_BROKER_PORT": str(self.broker_port),
            "QUERYABLE_PROXY_PORT": str(self.proxy_port),
            "QUERYABLE_BACKEND_PORT": str(self.backend_ports[0]),
            "QUERYABLE_INSTANCES": str(INSTANCES),
            "QUERYABLE_RUN_DIR": str(self.run_dir),
            "QUERYABLE_SPARK_VIEWS": "" if ALL_VIEWS else ",".join(SOME_VIEWS),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.proxy_port}"

    @property
    def servers(self) -> str:
        return f"{LOOPBACK}:{self.broker_port}"

    def start(self) -> None:
        """Returns once it says that it stays; AssertionError with its log if it ends before."""
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("QUERYABLE_", "DEMO_"))}
        cache = {k: v for k, v in os.environ.items() if k == "QUERYABLE_CACHE"}
        command = [sys.executable, "-m", "local", "demo"]
        self._process = spawn(
            command, self.log_path, env={**plain, **cache, **self.settings}, cwd=ROOT
        )

        def stays() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"the demo has ended:\n{self.log()}"
            return "Ctrl-C stops everything" in self.log()

        wait_until(stays, START, "the demo to be ready", 0.2)

    def interrupt(self) -> int:
        """Ctrl-C; the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(60)

    def end(self) -> None:
        """Whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            try:
                self.interrupt()
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def pids(self) -> dict[str, int]:
        """The children by name, as their pid files say."""
        return {
            path.stem: json.loads(path.read_text())["pid"] for path in self.run_dir.glob("*.pid")
        }

    def topology(self) -> dict[str, Any]:
        """The map as the proxy gives it."""
        answer = http.get(f"{self.url}/processors")
        assert answer.status == 200, answer
        document: dict[str, Any] = json.loads(answer.body)
        return document


class AccessLog:
    """What nginx writes of its requests, from now on."""

    def __init__(self, demo: Demo) -> None:
        self._path = demo.run_dir / "nginx" / "logs" / "access.log"
        self._offset = self._path.stat().st_size

    def lines(self, count: int, path: str) -> list[dict[str, Any]]:
        """The lines of requests below `path`, once there are `count`: nginx flushes each second."""

        def found() -> list[dict[str, Any]]:
            lines = [line for line in self._all() if line["uri"].startswith(path)]
            return lines if len(lines) >= count else []

        return wait_until(found, 15, f"{count} lines of {path} in the access log")

    def _all(self) -> Iterator[dict[str, Any]]:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file.read().splitlines(keepends=True):
                if line.endswith(b"\n"):
                    yield json.loads(line)


def ports_in_a_row(count: int) -> list[int]:
    """Free ports that follow one another, as the stack counts its backends' up."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        [first] = free_ports(1)
        ports = list(range(first, first + count))
        if ports[-1] < 65536 and all(map(is_free, ports)):
            return ports
    raise AssertionError("no free ports in a row")
