"""A cluster whose instances run the last release or the current code, one by one replaced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local.kafka.broker import Broker
from local.settings import REPOSITORY
from tests.faults.cluster import START, VIEW, Cluster, Setup
from tests.support.backends import Backend
from tests.support.nginx import Nginx
from tests.system.data_folders import positions
from tests.system.stores import VIEWS, Stores
from tests.system.upgrades.last_release import Release

_IN_MEMORY = {view for view, fields in VIEWS.items() if fields.get("persistence") == "memory"}
_SCRIPT = Path(__file__).with_name("client_reader.py")


class MixedCluster(Cluster):
    """Three instances of the last release, each partition with a standby. Behind two proxies:
    `nginx` has the current files, `old_nginx` those of the release."""

    old_nginx: Nginx

    def __init__(self, broker: Broker, folder: Path, release: Release, stores: Stores) -> None:
        super().__init__(broker, folder, Setup(views=stores.views))
        self.release = release
        self.stores = stores
        self.first_number = 1  # of the next writer: the values of a key grow over all writers

    def _start(self) -> None:
        super()._start()
        self.old_nginx = self.backends.proxy(source=self.release.proxy_files)

    def _new(self, number: int) -> Backend:
        backend = super()._new(number)
        self._set_code(backend, is_old=True)
        return backend

    def replace_all(self, is_old: bool) -> None:
        """Restart the instances one by one with the other code, as docs say. Each must continue
        with its data."""
        for backend in self.all:
            if runs_old_code(backend, self.release) == is_old:
                continue
            before = positions(backend)
            assert backend.stop() == 0
            self._set_code(backend, is_old)
            backend.launch()
            self.wait_whole(START, self.all)
            backend.wait_ready(len(self.all))
            assert runs_old_code(backend, self.release) == is_old
            started = positions(backend, "started")
            kept = before.keys() & started.keys()
            assert {view for view, _ in kept} >= {VIEW, *VIEWS} - _IN_MEMORY, kept
            lost = {id_: (before[id_], started[id_]) for id_ in kept if started[id_] < before[id_]}
            assert not lost, f"{backend.id} has lost its data: {lost}"
            assert backend.instance()["rebuilds"] == 0
            assert "is rebuilt" not in backend.log()

    def _set_code(self, backend: Backend, is_old: bool) -> None:
        if is_old:
            backend.settings["PYTHONPATH"] = str(self.release.code)
            backend.cwd = self.release.code
        else:
            backend.settings.pop("PYTHONPATH", None)
            backend.cwd = REPOSITORY


def runs_old_code(backend: Backend, release: Release) -> bool:
    """Whether the running process imports the release: from its environment and folder."""
    process = Path(f"/proc/{backend.pid}")
    environment = dict(
        entry.split("=", 1)
        for entry in (process / "environ").read_bytes().decode().split("\0")
        if "=" in entry
    )
    shown = subprocess.run(
        [sys.executable, "-c", "import backend; print(backend.__file__)"],
        cwd=(process / "cwd").readlink(), env=environment, capture_output=True, text=True,
        check=True, timeout=60,
    ).stdout  # fmt: skip
    is_old = Path(shown.strip()).is_relative_to(release.code)
    assert is_old or Path(shown.strip()).is_relative_to(REPOSITORY), shown
    return is_old


@contextmanager
def client_of(code: Path, log: Path, nginx: Nginx, keys: list[str]) -> Iterator[dict[str, Any]]:
    """Reads with the Python client of this code in a process of its own, directly from instances.
    What it has found is in the dictionary after the block."""
    found: dict[str, Any] = {}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("QUERYABLE_")}
    command = [sys.executable, str(_SCRIPT), f"http://127.0.0.1:{nginx.port}", VIEW, *keys]
    with log.open("wb") as errors, subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        env={**environment, "PYTHONPATH": str(code)},
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            first = process.stdout.readline()
            assert first, log.read_text()
            yield found
            process.stdin.close()
            found |= json.loads(process.stdout.readline() or "{}")
            assert process.wait(20) == 0, log.read_text()
        finally:
            process.kill()
    assert Path(found["module"]).is_relative_to(code), found
