"""Kafka Connect with Debezium's connector for PostgreSQL, and Apicurio's converter for Avro."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from local import http
from local.errors import tail
from local.kafka.broker_config import escaped
from local.kafka.jars import JarSet, pin, resolve
from local.kafka.java import find_java
from local.ports import LOOPBACK, free_ports
from local.processes import end, spawn
from local.waiting import wait_until
from model.machine.cache import cache_folder

_HERE = Path(__file__).parent
CONNECT = JarSet(
    "connect",
    ("org.apache.kafka:connect-runtime:4.1.0", "org.slf4j:slf4j-simple:1.7.36"),
    transitive=True,
    sums=_HERE / "connect-jars.sha256",
)
DEBEZIUM = JarSet(
    "debezium",
    ("io.debezium:debezium-connector-postgres:3.4.3.Final",),
    transitive=True,
    sums=_HERE / "debezium-jars.sha256",
)
# 3.0.9, the version of the registry, cannot be resolved: the repository does not have its parent.
CONVERTER = JarSet(
    "apicurio-converter",
    ("io.apicurio:apicurio-registry-utils-converter:2.6.13.Final",),
    transitive=True,
    sums=_HERE / "converter-jars.sha256",
)
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)
_TIMEOUT = 120.0  # s until the tasks of all connectors run
_STOP = 20.0  # s


class Connect:
    """A worker in standalone mode. What it has read survives `kill` and a new `start`."""

    def __init__(
        self, folder: Path, bootstrap_servers: str, connectors: Mapping[str, Mapping[str, str]]
    ) -> None:
        """`connectors`: by name, the properties of each."""
        folder.mkdir(parents=True)
        self._folder = folder
        self._log = folder / "connect.log"
        self._names = tuple(connectors)
        [port] = free_ports(1)
        self._url = f"http://{LOOPBACK}:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        plugins = folder / "plugins"
        plugins.mkdir()
        for jar_set in (DEBEZIUM, CONVERTER):
            (plugins / jar_set.name).symlink_to(resolve(jar_set, cache_folder()))
        worker = {
            "bootstrap.servers": bootstrap_servers,
            "listeners": self._url,
            "plugin.path": str(plugins),
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "500",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        }
        self._files = [self._write("worker", worker)]
        for name, properties in connectors.items():
            self._files.append(self._write(name, {"name": name, **properties}))

    def _write(self, name: str, properties: Mapping[str, str]) -> str:
        path = self._folder / f"{name}.properties"
        path.write_text("".join(f"{key}={escaped(each)}\n" for key, each in properties.items()))
        return str(path)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            end(self._process, _STOP)

    def start(self) -> None:
        """Starts the worker. Returns when all tasks run."""
        classes = f"{resolve(CONNECT, cache_folder())}/*"
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = [find_java(), *_JVM, *_LOGGING, "-cp", classes, main, *self._files]
        self._process = spawn(command, self._log, cwd=self._folder)
        wait_until(self.all_run, _TIMEOUT, "Kafka Connect's tasks to run", 0.3)

    def all_run(self) -> bool:
        """Whether all tasks run. AssertionError if one has failed."""
        assert self._process is not None
        assert self._process.poll() is None, tail(self._log.read_text(), 40)
        return all(self._runs(name) for name in self._names)

    def _runs(self, name: str) -> bool:
        answer = http.get(f"{self._url}/connectors/{name}/status")
        if answer.status != 200:
            return False
        status = json.loads(answer.body)
        for part in (status["connector"], *status["tasks"]):
            assert part["state"] != "FAILED", (name, part["trace"])
        return [task["state"] for task in status["tasks"]] == ["RUNNING"]

    def kill(self) -> None:
        """Sends SIGKILL: what was read since the last flush is read and sent again."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


if __name__ == "__main__":  # after a change of a version: write the files of checksums
    for each in (CONNECT, DEBEZIUM, CONVERTER):
        pin(each)
        print(each.sums.name, file=sys.stderr)
