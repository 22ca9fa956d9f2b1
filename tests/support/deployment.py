"""The backends of one application, with nginx in front."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Self

from backend.instance.constants import Constants
from local.errors import tail
from tests.support.backends import Backend
from tests.support.nginx import Nginx
from tests.support.security.cluster_secret import write_secrets

_running: list[Deployment] = []


class Deployment:
    """One application id, one views file, one folder. All processes are killed when it closes."""

    def __init__(self, folder: Path, bootstrap_servers: str, views: str, **given: str) -> None:
        """`views`: the text of views.toml. `given`: settings (without prefix) of all its backends,
        and constants (`backend/instance/constants.py`) that differ from those of the product."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.views_path = folder / "views.toml"
        self.views_path.write_text(views)
        settings, self._constants = _divided(given)
        self._settings = {
            "QUERYABLE_BOOTSTRAP_SERVERS": bootstrap_servers,
            "QUERYABLE_APPLICATION_ID": f"system-{time.time_ns()}",
            "QUERYABLE_VIEWS": str(self.views_path),
            **settings,
        }
        self.token = ""  # that tests send to the backends that are made from then on
        self.all: list[Backend] = []
        self.proxies: list[Nginx] = []

    def __enter__(self) -> Self:
        _running.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _running.remove(self)
        try:
            for nginx in self.proxies:
                nginx.stop()
        finally:
            for backend in self.all:
                backend.end()

    def new(self, id_: str = "", **given: str) -> Backend:
        """An instance that is not started yet. `given`: more settings and constants."""
        settings, constants = _divided(given)
        backend = Backend(
            id_ or f"b{len(self.all) + 1}",
            self.folder,
            {**self._settings, **settings},
            {**self._constants, **constants},
        )
        backend.token = self.token
        self.all.append(backend)
        return backend

    def use_secrets(self, *secrets: str) -> None:
        """Sets the cluster secrets of all backends and proxies. Backends read them again within a
        second; nginx does when it reloads."""
        path = write_secrets(self.folder / "cluster-secret", *secrets)
        self._settings["QUERYABLE_CLUSTER_SECRET_FILE"] = str(path)

    def start(self, count: int = 1) -> list[Backend]:
        """Start `count` new instances; return when they are ready and have the same topology."""
        started = [self.new().launch() for _ in range(count)]
        settle(started)
        return started

    def proxy(
        self,
        *backends: Backend,
        environment: Mapping[str, str] | None = None,
        workers: int | None = None,
        wait_for_topology: bool = True,
        files: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        source: Path | None = None,
    ) -> Nginx:
        """Start nginx in front of `backends` (default: all). It stops with the deployment.

        `files`, `context`, `source`: see Nginx. With `wait_for_topology`, returns when all workers
        of nginx have the topology of the first backend.
        """
        behind = backends or tuple(self.all)
        nginx = Nginx(
            self.folder / f"nginx-{len(self.proxies) + 1}",
            ",".join(backend.address for backend in behind),
            {**self._secret, **(environment or {})},
            workers,
            files=files,
            context=context,
            source=source,
        )
        nginx.token = self.token
        self.proxies.append(nginx)
        if wait_for_topology:
            nginx.wait_for_map(behind[0].epoch)
        return nginx

    @property
    def _secret(self) -> dict[str, str]:
        name = "QUERYABLE_CLUSTER_SECRET_FILE"
        return {name: self._settings[name]} if name in self._settings else {}

    def logs(self) -> Iterator[tuple[str, str]]:
        """The name and the log of each backend and each nginx."""
        for backend in self.all:
            yield f"backend {backend.id}", backend.log(whole=True)
        for number, nginx in enumerate(self.proxies, 1):
            yield f"nginx {number}", nginx.error_log()


def _divided(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The variables of the settings, and the constants."""
    names = {field.name for field in fields(Constants)}
    constants = {name: value for name, value in given.items() if name in names}
    settings = {
        f"QUERYABLE_{name.upper()}": value for name, value in given.items() if name not in names
    }
    return settings, constants


def running_deployments() -> Sequence[Deployment]:
    """The deployments of this process that have started and not stopped."""
    return tuple(_running)


def settle(backends: list[Backend], count: int = 0) -> None:
    """Wait until these are ready, with one topology of `count` instances (default: all of them).

    If they do not get there, the error has the logs of all: the instance that waits may not be the
    instance that is stuck.
    """
    count = count or len(backends)

    def one_epoch() -> bool:
        return len({backend.epoch() for backend in backends}) == 1

    try:
        for backend in backends:
            backend.wait_ready(count)
        backends[0].wait(one_epoch, "all instances to have one topology")
        for backend in backends:
            backend.wait_ready(count)
            backend.wait(backend.has_its_assigned_partitions, "partitions of others to be closed")
    except AssertionError as error:
        logs = "".join(f"\nLog of {each.id}:\n{tail(each.log(), 40)}" for each in backends)
        raise AssertionError(f"{error}{logs}") from None


def views_toml(
    kafka: Mapping[str, str] | None = None, **views: Mapping[str, str | list[str]]
) -> str:
    """The text of a views.toml; write `_` for `-` in the names of views."""
    lines = []
    for name, of_view in views.items():
        lines.append(f"[views.{name.replace('_', '-')}]")
        declared = {"key": "string", "value": "json", **of_view}
        lines += [f"{field} = {json.dumps(value)}" for field, value in declared.items()]
    if kafka:
        lines.append("[kafka]")
        lines += [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in kafka.items()]
    return "\n".join(lines) + "\n"
