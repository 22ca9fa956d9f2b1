"""A single-node Kafka broker (KRaft, broker and controller in one JVM) on 127.0.0.1.

    with Broker(Path("data/kafka")) as broker:
        Producer({"bootstrap.servers": broker.bootstrap_servers})

The data folder holds ``server.properties``, ``broker.log`` and Kafka's own ``logs/``; data survive
``stop``, ``kill`` and a new ``Broker`` on the same folder, unless it is made with ``fresh=True``.
"""

from __future__ import annotations

import base64
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from local import ports
from local.connection import admin_of
from local.errors import LocalError, friendly, tail
from local.jars import kafka_jars
from local.java import find_java
from local.processes import end, how_it_ended, spawn
from local.waiting import wait_until

# A small machine, one user, tests that must not wait: everything else is Kafka's own default.
DEFAULTS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "1000",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    # after a kill, the controller lets the same node in again when its old session is over
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}

# Serial collector and first-tier compiler: a broker this small starts faster and stays smaller so.
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")
LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
)


class Broker:
    """A broker process. Starting it takes about 3 s, the first time 1 s more (formatting).

    ``port=None`` takes a free one and keeps it over restarts. ``properties`` are added to
    ``server.properties`` and win over the defaults. With ``sasl_users`` (name: password) a second
    listener asks for SASL/PLAIN over plain text. With ``detour`` another one, on ``detour_port``,
    tells clients to come to the port ``detour``: what leads from there to here is the caller's.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        fresh: bool = False,
        properties: Mapping[str, str] | None = None,
        sasl_users: Mapping[str, str] | None = None,
        detour: int | None = None,
        heap: str = "256m",
        port_setting: str = "--port",
        die_with_parent: bool = True,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.log_path = self.data_dir / "broker.log"
        self._fresh = fresh
        self._properties = dict(properties or {})
        self._sasl_users = dict(sasl_users or {})
        self._detour = detour
        self._heap = heap
        self._port_setting = port_setting
        self._die_with_parent = die_with_parent
        self._process: subprocess.Popen[bytes] | None = None
        self._cluster_id = ""
        self.log_start = 0
        spare = ports.free_ports(4)
        self.port = port if port is not None else spare[0]
        self._controller_port, self._sasl_port, self.detour_port = spare[1:]

    @property
    def bootstrap_servers(self) -> str:
        return f"{ports.LOOPBACK}:{self.port}"

    @property
    def sasl_bootstrap_servers(self) -> str:
        if not self._sasl_users:
            raise ValueError("this broker was made without sasl_users")
        return f"{ports.LOOPBACK}:{self._sasl_port}"

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
        """Starts the broker and returns when it answers a metadata request."""
        self.launch()
        self.wait_ready(timeout)

    def launch(self) -> None:
        """Starts the process only; ``wait_ready`` must follow.

        Raises ``LocalError``: no suitable Java, no jars, port taken, data folder not writable.
        """
        if self.is_running:
            raise ValueError("the broker is running")
        find_java()
        ports.require_free(self.port, "the Kafka broker", self._port_setting)
        taken = [p for p in (self._controller_port, self._sasl_port) if not ports.is_free(p)]
        if taken:  # nobody outside was told these
            self._controller_port, self._sasl_port = ports.free_ports(2)
        try:
            self._lay_out()
        except OSError as error:
            raise LocalError(
                f"cannot write the broker's data folder {self.data_dir}: "
                f"{error.strerror or error}. Make it writable or choose another."
            ) from error
        self._format()
        self.log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._process = spawn(
            self._java("kafka.Kafka", str(self._config)),
            self.log_path,
            die_with_parent=self._die_with_parent,
        )

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Returns when this very broker answers; ends it and raises ``LocalError`` when not."""
        deadline = time.monotonic() + timeout
        try:
            while not self._answers():
                self.check()
                if time.monotonic() > deadline:
                    raise LocalError(
                        f"the broker on {self.bootstrap_servers} did not answer within "
                        f"{timeout:g} s; last lines of {self.log_path}:\n{tail(self._log())}"
                    )
        except BaseException:
            self.kill()
            raise

    def check(self) -> None:
        """``LocalError`` with the last log lines when the broker has died."""
        status = self.process.poll()
        if status is not None:
            raise LocalError(
                f"the Kafka broker on {self.bootstrap_servers} ended with "
                f"{how_it_ended(status)}; last lines of {self.log_path}:\n{tail(self._log())}"
            )

    def stop(self, grace: float = 15.0) -> None:
        """Ends the broker as an operator would; data stay."""
        if self._process is not None:
            end(self._process, grace)

    def kill(self) -> None:
        """SIGKILL, as when the machine fails; data on disk stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, as in a network fault.

        Returns once every thread has stopped: on a busy machine some go on for a while.
        """
        self.process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")

        def have_stopped() -> bool:
            # the state is the first field behind the name, which is in parentheses
            stats = [(thread / "stat").read_text() for thread in threads.iterdir()]
            return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

        wait_until(have_stopped, 10, "the broker to stop")

    def resume(self) -> None:
        """Ends a ``pause``."""
        self.process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """A new process on the same port and data, whether or not the old one still runs."""
        self.stop()
        self.start()

    @property
    def _config(self) -> Path:
        return self.data_dir / "server.properties"

    def _lay_out(self) -> None:
        if self.data_dir.exists() and any(self.data_dir.iterdir()) and not self._is_ours():
            raise LocalError(
                f"{self.data_dir} is not empty, and is no data folder of this broker: nothing in "
                "it was changed. Name an empty or a new folder."
            )
        if self._fresh and self.data_dir.exists():
            shutil.rmtree(self.data_dir)
        self._fresh = False  # once: a restart keeps its data
        self.data_dir.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={_escaped(value)}" for name, value in self._all_properties().items()]
        self._config.write_text("\n".join(lines) + "\n")
        self._config.chmod(0o600)  # passwords of SASL users

    def _is_ours(self) -> bool:
        """Whether the data folder was laid out here: nobody else calls a listener so. It may have
        been moved since."""
        try:
            return "inter.broker.listener.name=BROKER" in self._config.read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return False

    def _all_properties(self) -> dict[str, str]:
        listeners = {"BROKER": self.port, "CONTROLLER": self._controller_port}
        protocols = {"BROKER": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        sasl = {}
        if self._sasl_users:
            listeners["CLIENT"] = self._sasl_port
            protocols["CLIENT"] = "SASL_PLAINTEXT"
            sasl = {
                "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.client.plain.sasl.jaas.config": _jaas(self._sasl_users),
            }
        if self._detour is not None:
            listeners["DETOUR"] = self.detour_port
            protocols["DETOUR"] = "PLAINTEXT"
        advertised: dict[str, int | None] = {**listeners, "DETOUR": self._detour}
        urls = {name: f"{name}://{ports.LOOPBACK}:{port}" for name, port in listeners.items()}
        return {
            **DEFAULTS,
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": ",".join(urls.values()),
            "advertised.listeners": ",".join(
                f"{n}://{ports.LOOPBACK}:{advertised[n]}" for n in urls if n != "CONTROLLER"
            ),
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
            "inter.broker.listener.name": "BROKER",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{ports.LOOPBACK}:{self._controller_port}",
            "log.dirs": str(self.data_dir / "logs"),
            **sasl,
            **self._properties,
        }

    def _format(self) -> None:
        """Kafka's own storage tool, once a data folder."""
        meta = self.data_dir / "logs" / "meta.properties"
        if not meta.exists():
            cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            if cluster_id.startswith("-"):  # would be read as an option
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
        classes = f"{kafka_jars()}/*"
        return [find_java(), *memory, *JVM, *LOGGING, "-cp", classes, main_class, *arguments]

    def _answers(self) -> bool:
        client = quiet_admin(self.bootstrap_servers)
        try:
            # its own cluster id: not some other broker that was quicker to take the port
            return bool(client.list_topics(timeout=0.5).cluster_id == self._cluster_id)
        except KafkaException:
            return False

    def _log(self) -> str:
        """What this run of the broker logged."""
        try:
            with self.log_path.open("rb") as file:
                file.seek(self.log_start)
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def quiet_admin(bootstrap_servers: str) -> AdminClient:
    """An admin client that does not print while the broker is not there yet."""
    return admin_of({"bootstrap.servers": bootstrap_servers})


def _escaped(value: str) -> str:
    """A value for a Java properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _jaas(users: Mapping[str, str]) -> str:
    for name, password in users.items():
        if any(c in '"\\\n' for c in name + password):
            raise ValueError("quotes, backslashes and line breaks are not possible in SASL users")
    accounts = " ".join(f'"user_{name}"="{password}"' for name, password in users.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {accounts};"


@friendly
def main(
    data_dir: Annotated[Path, typer.Option(help="Where the data are kept.")],
    port: Annotated[int, typer.Option(help="The port on 127.0.0.1.")] = 9092,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the data first.")] = False,
) -> None:
    """Runs a broker until Ctrl-C or SIGTERM."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with Broker(data_dir, port=port, fresh=fresh) as broker:
        print(f"Kafka broker on {broker.bootstrap_servers}, data in {broker.data_dir}", flush=True)
        while not stopping.wait(0.5):
            broker.check()


if __name__ == "__main__":
    typer.run(main)
