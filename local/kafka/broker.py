"""A single-node Kafka broker (KRaft, broker and controller in one JVM) on 127.0.0.1.

    with Broker(Path("data/kafka")) as broker:
        Producer({"bootstrap.servers": broker.bootstrap_servers})

The data folder has ``server.properties``, ``broker.log`` and Kafka's own ``logs/``. Data survive
``stop``, ``kill`` and a new ``Broker`` on the same folder, unless that has ``fresh=True``.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from local import ports
from local.errors import LocalError, TimedOut, tail
from local.kafka.broker_config import ARCHIVE, JVM, LOGGING, escaped, server_properties
from local.kafka.connection import admin_of, quiet
from local.kafka.jars import kafka_jars
from local.kafka.java import find_java
from local.processes import end, how_it_ended, spawn
from local.waiting import wait_until


class Broker:
    """A broker process. It starts in about 3 s, the first time in 4 s (formatting).

    ``port=None`` chooses a free port and keeps it after restarts. ``properties`` override the
    defaults in ``server.properties``.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        fresh: bool = False,
        properties: Mapping[str, str] | None = None,
        heap: str = "256m",
        port_setting: str = "--port",
        die_with_parent: bool = True,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.log_path = self.data_dir / "broker.log"
        self._fresh = fresh
        self._properties = dict(properties or {})
        self._heap = heap
        self._port_setting = port_setting
        self._die_with_parent = die_with_parent
        self._process: subprocess.Popen[bytes] | None = None
        self._cluster_id = ""
        self.log_start = 0
        free_port, self._controller_port = ports.free_ports(2)
        self.port = port if port is not None else free_port

    @property
    def bootstrap_servers(self) -> str:
        return f"{ports.LOOPBACK}:{self.port}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ValueError("the broker was not started")
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, timeout: float = 60.0) -> None:
        """Starts the broker; returns when it answers a metadata request."""
        self.launch()
        self.wait_ready(timeout)

    def launch(self) -> None:
        """Starts the process without waiting; ``wait_ready`` must follow.

        Raises ``LocalError``: no suitable Java, no jars, port in use, data folder not writable.
        """
        if self.is_running:
            raise ValueError("the broker is running")
        find_java()
        ports.require_free(self.port, "the Kafka broker", self._port_setting)
        if not ports.is_free(self._controller_port):
            [self._controller_port] = ports.free_ports(1)
        try:
            self._lay_out()
        except OSError as error:
            raise LocalError(
                f"cannot write the broker's data folder {self.data_dir}: "
                f"{error.strerror or error}. Make it writable or choose another folder."
            ) from error
        self._format()
        self.log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._process = spawn(
            self._java("kafka.Kafka", str(self._config)),
            self.log_path,
            die_with_parent=self._die_with_parent,
        )

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Returns when this broker answers; otherwise kills it and raises ``LocalError``."""

        def answers() -> bool:
            self.check()
            return self._answers()

        try:
            wait_until(answers, timeout, f"the broker on {self.bootstrap_servers}")
        except BaseException as error:
            self.kill()
            if not isinstance(error, TimedOut):
                raise
            lines = tail(self._log())
            raise LocalError(f"{error} Last lines of {self.log_path}:\n{lines}") from None

    def check(self) -> None:
        """Raises ``LocalError`` with the last log lines if the broker has ended."""
        status = self.process.poll()
        if status is not None:
            raise LocalError(
                f"the Kafka broker on {self.bootstrap_servers} ended with "
                f"{how_it_ended(status)}; last lines of {self.log_path}:\n{tail(self._log())}"
            )

    def stop(self, grace: float = 15.0) -> None:
        """Ends the broker with SIGTERM, then SIGKILL; data are kept."""
        if self._process is not None:
            end(self._process, grace)

    def kill(self) -> None:
        """Sends SIGKILL, like a failure of the machine; data on disk are kept."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """A new process with the same port and data; ends the old one first if it runs."""
        self.stop()
        self.start()

    @property
    def _config(self) -> Path:
        return self.data_dir / "server.properties"

    def _lay_out(self) -> None:
        if self.data_dir.exists() and any(self.data_dir.iterdir()) and not self._is_ours():
            raise LocalError(
                f"{self.data_dir} is not empty and is not a data folder of this broker; nothing "
                "in it was changed. Name an empty or a new folder."
            )
        if self._fresh and self.data_dir.exists():
            shutil.rmtree(self.data_dir)
        self._fresh = False  # a restart keeps the data
        self.data_dir.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={escaped(value)}" for name, value in self._all_properties().items()]
        self._config.write_text("\n".join(lines) + "\n")
        self._config.chmod(0o600)  # properties may have passwords

    def _is_ours(self) -> bool:
        """Whether this class created the data folder: no other has a listener with this name. The
        folder may have been moved."""
        try:
            return "inter.broker.listener.name=BROKER" in self._config.read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return False

    def _all_properties(self) -> dict[str, str]:
        return {
            **server_properties(self.port, self._controller_port),
            "log.dirs": str(self.data_dir / "logs"),
            **self._properties,
        }

    def _format(self) -> None:
        """Runs Kafka's storage tool, once for each data folder."""
        meta = self.data_dir / "logs" / "meta.properties"
        if not meta.exists():
            cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            if cluster_id.startswith("-"):  # would be parsed as an option
                cluster_id = "A" + cluster_id[1:]
            done = subprocess.run(
                self._java(
                    "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._config)
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise LocalError(
                    f"Kafka could not format {meta.parent} (status {done.returncode}):\n"
                    f"{tail(done.stdout)}"
                )
        lines = meta.read_text().splitlines()
        self._cluster_id = dict(line.split("=", 1) for line in lines if "=" in line)["cluster.id"]

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        memory = ("-Xms64m", f"-Xmx{self._heap}", "-XX:MaxDirectMemorySize=128m")
        classes = f"{self._jars()}/*"
        # -Xlog: no message if the archive does not match
        shared = (f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:disable") if ARCHIVE.exists() else ()
        options = (*memory, *JVM, *shared, *LOGGING)
        return [find_java(), *options, "-cp", classes, main_class, *arguments]

    def _jars(self) -> Path:
        """The folder with the broker's jars."""
        return kafka_jars()

    def _answers(self) -> bool:
        with admin_of({"bootstrap.servers": self.bootstrap_servers}) as client:
            try:
                # Another broker that uses the port has another cluster id.
                return bool(client.list_topics(timeout=0.5).cluster_id == self._cluster_id)
            except KafkaException:
                return False

    def _log(self) -> str:
        """The log of this run."""
        try:
            with self.log_path.open("rb") as file:
                file.seek(self.log_start)
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def quiet_admin(bootstrap_servers: str) -> AdminClient:
    """An admin client for tests and benchmarks, which does not belong to `model.kafka.clients`."""
    return AdminClient(quiet({"bootstrap.servers": bootstrap_servers}))
