"""A deployment of docker-compose.yml in an engine of the tests."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from local.errors import TimedOut
from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.client import Client, Response
from tests.support.containers.engine import Engine

IMAGES = {
    "KAFKA_IMAGE": "queryable-topics-broker",
    "PROMETHEUS_IMAGE": "queryable-topics-prometheus",
}
PROXY = 8080
_UP_S = 600.0


class Compose:
    """One project. `variables`: what a user sets for docker-compose.yml."""

    def __init__(
        self,
        engine: Engine,
        project: str,
        profiles: Sequence[str] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.engine = engine
        self._project = project
        self._profiles = list(profiles)
        self._variables = {**IMAGES, **variables}

    def up(self, *services: str) -> None:
        """`up --detach`: returns when all containers have started."""
        self.run("up", "--detach", "--no-build", *services)

    def down(self) -> None:
        self.run("down", "--volumes", "--remove-orphans", "--timeout", "5")

    def container(self, service: str) -> str:
        """The name of a service's container."""
        names = self.engine.docker("ps", "--all", "--format", "{{.Names}}").split()
        # Debian's program joins the parts with _, Docker's plugin with -
        wanted = {f"{self._project}{mark}{service}{mark}1" for mark in "_-"}
        [name] = wanted & set(names)
        return name

    def health(self, service: str) -> str:
        """`healthy`, `unhealthy`, `starting`; without a health check the state, as `exited`."""
        state = self.engine.inspect(self.container(service))["State"]
        return str(state.get("Health", {}).get("Status", state["Status"]))

    def wait_until_healthy(
        self, service: str, timeout_s: float = 120, health: str = "healthy"
    ) -> None:
        try:
            wait_until(
                lambda: self.health(service) == health, timeout_s, f"{service} to be {health}", 0.5
            )
        except TimedOut as error:
            raise AssertionError(f"{error} Its log ends with:\n{self.log(service)}") from None

    def log(self, service: str, lines: str = "50") -> str:
        """The last lines; "all": all of them."""
        done = subprocess.run(
            ["docker", "logs", "--tail", lines, self.container(service)],
            env=self.engine.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    def processes(self, service: str) -> list[Path]:
        """/proc/PID of each process in a container; its first process is the first."""
        first = self.engine.inspect(self.container(service))["State"]["Pid"]
        lines = self.engine.docker("top", self.container(service), "-eo", "pid").split()[1:]
        # numbers of processes start again at the low ones
        return [Path("/proc") / pid for pid in sorted(lines, key=lambda pid: int(pid) != first)]

    def execute(self, service: str, *command: str) -> str:
        """The output of a command in a container. AssertionError if it fails."""
        return self.engine.docker("exec", self.container(service), *command)

    def run(self, *arguments: str) -> str:
        """The output of a command of the program. AssertionError with its errors if it fails."""
        profiles = [part for profile in self._profiles for part in ("--profile", profile)]
        done = subprocess.run(
            [*compose_command(), "--project-name", self._project, *profiles, *arguments],
            cwd=REPOSITORY, env={**self.engine.environment, **self._variables},
            capture_output=True, text=True, timeout=_UP_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout


def compose_command() -> list[str]:
    """Docker's plugin if it is installed, otherwise Debian's program."""
    plugin = ["docker", "compose"]
    try:
        subprocess.run([*plugin, "version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return ["docker-compose"]
    return plugin


def get(path: str, port: int = PROXY) -> Response | None:
    """The answer of a published port; None if there is none."""
    try:
        with Client(port, timeout=10) as client:
            return client.get(path)
    except OSError:
        return None


def wait_for_status(path: str, status: int = 200, timeout_s: float = 180) -> Response:
    """The first answer of nginx with this status."""

    def answer() -> Response | None:
        response = get(path)
        return response if response is not None and response.status == status else None

    response = wait_until(answer, timeout_s, f"{path} to be answered with {status}", 0.3)
    assert response is not None
    return response
