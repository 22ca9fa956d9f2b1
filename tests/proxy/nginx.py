"""A real nginx for tests: the repository's nginx.conf in a prefix of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.ports import free_ports
from local.processes import end, spawn
from local.waiting import wait_until
from tests.client import Client

ROOT = Path(__file__).parents[2]
MODULES = Path("/usr/lib/nginx/modules")


def executable() -> str:
    # /usr/sbin is not on every user's PATH
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/openresty/bin"
    found = shutil.which("nginx", path=path) or shutil.which("openresty", path=path)
    assert found is not None, "nginx is not installed"
    return found


def lay_out(
    prefix: Path, port: int, workers: int | None = None, changes: Mapping[str, str] | None = None
) -> None:
    """What proxy/README.md asks of a prefix; `changes` of lines of nginx.conf."""
    (prefix / "logs").mkdir(parents=True)
    changes = dict(changes or {})
    if workers is not None:
        changes["worker_processes auto;"] = f"worker_processes {workers};"
    if changes:
        text = (ROOT / "nginx.conf").read_text()
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        (prefix / "nginx.conf").write_text(text)
    else:
        (prefix / "nginx.conf").symlink_to(ROOT / "nginx.conf")
    (prefix / "proxy").symlink_to(ROOT / "proxy")
    if MODULES.is_dir():
        (prefix / "modules").symlink_to(MODULES)
    (prefix / "listen.conf").write_text(f"listen 127.0.0.1:{port};\n")


def command(prefix: Path, *more: str) -> list[str]:
    error_log = str(prefix / "logs" / "error.log")
    return [
        executable(),
        "-e",
        error_log,
        "-p",
        str(prefix),
        "-c",
        str(prefix / "nginx.conf"),
        *more,
    ]


class Nginx:
    """Started on construction; ended by `stop`, or with the block that it is used for."""

    def __init__(
        self,
        prefix: Path,
        backends: str,
        environment: Mapping[str, str],
        workers: int | None = None,
        changes: Mapping[str, str] | None = None,
    ) -> None:
        """`workers`: how many, where that is not to be a matter of the machine; `changes` of
        nginx.conf."""
        (self.port,) = free_ports(1)
        self.prefix = prefix
        lay_out(prefix, self.port, workers, changes)
        self._environment = {**os.environ, "QUERYABLE_BACKENDS": backends, **environment}
        self._log = prefix / "logs" / "output.log"
        self.start()

    def start(self) -> None:
        """For a restart too: the port stays the same."""
        self.process = spawn(self._command("-g", "daemon off;"), self._log, env=self._environment)
        wait_until(self._listens, 10, "nginx to listen")

    def __enter__(self) -> Nginx:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self, *more: str) -> list[str]:
        return command(self.prefix, *more)

    def _listens(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        try:
            with self.client() as client:
                client.get("/proxy/health")
        except ConnectionRefusedError:
            return False
        return True

    def client(self) -> Client:
        return Client(self.port)

    def health(self) -> dict[str, Any]:
        """The report of whichever worker accepts the connection."""
        with self.client() as client:
            return json.loads(client.get("/proxy/health").body)

    def wait_for_map(self, epoch: str) -> None:
        """Until twenty connections in a row find the epoch: by then on all workers."""

        def all_know() -> bool:
            return all(self.health()["epoch"] == epoch for _ in range(20))

        wait_until(all_know, 10, f"the map {epoch}")

    def workers(self) -> set[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return set(map(int, children.read_text().split()))

    def reload(self) -> None:
        """Returns when only new workers are left."""
        old = self.workers()
        done = subprocess.run(
            self._command("-s", "reload"), env=self._environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        wait_until(lambda: self.workers() and not old & self.workers(), 20, "new workers")

    def access_log(self, count: int, path: str = "") -> list[dict[str, Any]]:
        """The entries whose URI holds ``path``, once there are ``count``; not those of `health`.

        Each worker writes its own some time later: they are in no order.
        """

        def entries() -> list[dict[str, Any]]:
            lines = (self.prefix / "logs" / "access.log").read_text(errors="replace").splitlines()
            found = [json.loads(line) for line in lines]
            return [e for e in found if path in e["uri"] and e["uri"] != "/proxy/health"]

        wait_until(lambda: len(entries()) >= count, 10, f"{count} lines in the access log")
        return entries()

    def error_log(self) -> str:
        return (self.prefix / "logs" / "error.log").read_text()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        end(self.process, 10)
