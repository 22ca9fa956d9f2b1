"""A real nginx for tests: the repository's nginx.conf in a prefix of the test."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from local.ports import free_ports
from local.processes import end, spawn
from local.settings import REPOSITORY
from local.stack.nginx import lay_out as nginx_in
from local.waiting import wait_until
from tests.support.client import Client


def lay_out(
    prefix: Path,
    port: int,
    workers: int | None = None,
    changes: Mapping[str, str] | None = None,
    source: Path | None = None,
) -> list[str]:
    """Like `local.stack.nginx.lay_out`, with `changes` of text in nginx.conf. Returns the command
    that starts nginx. `source`: the folder with nginx.conf and proxy/ (default: the repository)."""
    command = nginx_in(prefix, port, files=source, workers=workers)
    command[1] = str(REPOSITORY / "proxy" / "start")  # an earlier release has none
    if changes:
        path = prefix / "nginx.conf"
        text = path.read_text()
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new)
        path.unlink()  # it may be a link to the repository's
        path.write_text(text)
    return command


_HEALTH = ("/health/proxy", "/proxy/health")


class Nginx:
    """nginx runs from construction until `stop` or the end of the `with` block."""

    def __init__(
        self,
        prefix: Path,
        backends: str,
        environment: Mapping[str, str] | None = None,
        workers: int | None = None,
        changes: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        source: Path | None = None,
        starter: Sequence[str] = (),
    ) -> None:
        """`backends`: addresses, separated by commas. `workers`: their number (default: that of the
        processors). `changes` replace lines of nginx.conf. `files`: the deployment's files, by
        path; `{port}` is replaced. `context`: of clients, if nginx listens with TLS. `source`: see
        `lay_out`. `starter`: a command that runs the one of `lay_out`."""
        (self.port,) = free_ports(1)
        self.prefix = prefix
        self.context = context
        self.token = ""  # for its own pages
        self._command = [*starter, *lay_out(prefix, self.port, workers, changes, source)]
        for path, text in (files or {}).items():
            (prefix / path).parent.mkdir(exist_ok=True)
            (prefix / path).write_text(text.replace("{port}", str(self.port)))
        self._environment = {**os.environ, "QUERYABLE_BACKENDS": backends, **(environment or {})}
        self._log = prefix / "logs" / "output.log"
        self.start()

    def start(self) -> None:
        """Starts or restarts nginx; the port stays the same."""
        self.process = spawn(self._command, self._log, env=self._environment)
        wait_until(self._listens, 10, "nginx to listen")

    def __enter__(self) -> Nginx:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _listens(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        try:
            with self.client() as client:
                client.get("/health/proxy")
        except ConnectionRefusedError:
            return False
        return True

    def client(self) -> Client:
        return Client(self.port, context=self.context)

    def health(self) -> dict[str, Any]:
        """The report of the worker that accepts the connection."""
        with self.client() as client:
            return json.loads(client.get("/proxy/health", **self.headers).body)

    @property
    def headers(self) -> dict[str, str]:
        """With the token, if there is one."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def wait_for_map(self, epoch: str | Callable[[], str]) -> None:
        """Waits until every worker has the topology of this epoch; a function says which is the
        latest."""

        def is_latest() -> bool:
            latest = epoch if isinstance(epoch, str) else epoch()
            return self.epochs() == [latest] * len(self.workers())

        wait_until(is_latest, 10, f"epoch {epoch}" if isinstance(epoch, str) else "the last epoch")

    def epochs(self) -> list[str | None]:
        """The epoch of each worker's topology; None: it has none."""
        running = self.workers()
        return [each["epoch"] for each in self.health()["workers"] if each["pid"] in running]

    def workers(self) -> set[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return set(map(int, children.read_text().split()))

    def reload(self) -> None:
        """Returns when only new workers are running."""
        old = self.workers()
        done = subprocess.run(
            [*self._command, "-s", "reload"],
            env=self._environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        wait_until(lambda: self.workers() and not old & self.workers(), 20, "new workers")

    def access_log(self, count: int, path: str = "") -> list[dict[str, Any]]:
        """Waits for `count` entries whose URI contains `path`, except those of `health`.

        Each worker writes its entries with a delay, so they are not ordered.
        """

        def entries() -> list[dict[str, Any]]:
            text = (self.prefix / "logs" / "access.log").read_text(errors="replace")
            # nginx may be writing the last line
            found = [json.loads(line) for line in text.split("\n")[:-1]]
            return [e for e in found if path in e["uri"] and e["uri"] not in _HEALTH]

        wait_until(lambda: len(entries()) >= count, 10, f"{count} lines in the access log")
        return entries()

    def error_log(self) -> str:
        return (self.prefix / "logs" / "error.log").read_text()

    def replace_files(self, source: Path | None) -> None:
        """Runs with the nginx.conf and the Lua modules in `source` from now on (see `lay_out`), as
        after an upgrade and a reload."""
        lay_out(self.prefix, self.port, source=source)
        self.reload()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        end(self.process, 10)
