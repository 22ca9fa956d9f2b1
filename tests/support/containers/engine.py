"""Debian's Docker engine, started in the network namespace of the test's process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from local.errors import tail
from local.processes import end, spawn
from local.waiting import wait_until

_START_S = 60.0
_COMMAND_S = 300.0


class Engine:
    """`folder` keeps the engine's images; its socket, state and log are there, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.log_path = folder / "dockerd.log"
        self.environment = {**os.environ, "DOCKER_HOST": f"unix://{folder}/docker.sock"}

    def start(self) -> None:
        """Returns when it answers. AssertionError with its log if it ends before."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (configuration := self._folder / "daemon.json").write_text("{}")
        command = [
            "dockerd",
            f"--config-file={configuration}",  # not the machine's
            f"--host=unix://{self._folder}/docker.sock",
            f"--data-root={self._folder}/data",
            f"--exec-root={self._folder}/state",
            f"--pidfile={self._folder}/docker.pid",
        ]
        (self._folder / "docker.pid").unlink(missing_ok=True)
        self._process = process = spawn(command, self.log_path, env=self.environment)

        def answers() -> bool:
            assert process.poll() is None, f"dockerd has ended:\n{tail(self.log_path.read_text())}"
            return self._run("version").returncode == 0

        wait_until(answers, _START_S, "the Docker engine to answer", 0.2)

    def stop(self) -> None:
        """As at a shutdown of the machine: containers are stopped, and those that restart by
        themselves do so when the engine starts again."""
        if self._process is not None:
            end(self._process, 60.0)
            self._process = None

    def docker(self, *arguments: str, timeout_s: float = _COMMAND_S) -> str:
        """The output of a command of `docker`. AssertionError with its errors if it fails."""
        done = self._run(*arguments, timeout_s=timeout_s)
        assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout

    def inspect(self, container: str) -> dict[str, Any]:
        [description] = json.loads(self.docker("inspect", container))
        return dict(description)

    def remove_containers(self) -> None:
        """All containers of this engine, and their volumes and networks."""
        if ids := self.docker("ps", "--all", "--quiet").split():
            self.docker("rm", "--force", "--volumes", *ids)
        self.docker("volume", "prune", "--force")
        self.docker("network", "prune", "--force")

    def _run(
        self, *arguments: str, timeout_s: float = _COMMAND_S
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", *arguments],
            env=self.environment, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
