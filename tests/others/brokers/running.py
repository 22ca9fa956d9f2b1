"""Brokers of other versions than that of the local stack; the oldest one with ZooKeeper."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from local.kafka.broker import Broker
from local.kafka.java import find_java
from local.ports import LOOPBACK, free_ports
from local.processes import end, spawn
from tests.others.brokers.versions import jars_of

WITH_ZOOKEEPER = ("2.8.2",)
"""KRaft in these versions is a preview, without transactions."""
_ONLY_KRAFT = (
    "process.roles",
    "node.id",
    "controller.listener.names",
    "controller.quorum.voters",
    "broker.session.timeout.ms",
    "broker.heartbeat.interval.ms",
)


class VersionedBroker(Broker):
    """A broker of the version, with KRaft."""

    def __init__(self, data_dir: Path, version: str, **options: Any) -> None:
        super().__init__(data_dir, **options)
        self._version = version

    def _jars(self) -> Path:
        return jars_of(self._version)


class BrokerWithZooKeeper(VersionedBroker):
    """ZooKeeper starts and stops with the broker."""

    def __init__(self, data_dir: Path, version: str, **options: Any) -> None:
        super().__init__(data_dir, version, **options)
        [self._zookeeper_port] = free_ports(1)
        self._zookeeper: subprocess.Popen[bytes] | None = None

    def stop(self, grace: float = 15.0) -> None:
        super().stop(grace)
        if self._zookeeper is not None:
            end(self._zookeeper, grace)
            self._zookeeper = None

    def kill(self) -> None:
        super().kill()
        if self._zookeeper is not None:
            self._zookeeper.kill()
            self._zookeeper.wait()
            self._zookeeper = None

    def _all_properties(self) -> dict[str, str]:
        properties = super()._all_properties()
        kept = {name: value for name, value in properties.items() if name not in _ONLY_KRAFT}
        return {
            **kept,
            "broker.id": "1",
            "listeners": properties["advertised.listeners"],
            "zookeeper.connect": f"{LOOPBACK}:{self._zookeeper_port}",
            "zookeeper.session.timeout.ms": "3000",
        }

    def _format(self) -> None:
        """Starts ZooKeeper: there is nothing to format."""
        folder = self.data_dir / "zookeeper"
        folder.mkdir(exist_ok=True)
        config = self.data_dir / "zookeeper.properties"
        config.write_text(
            f"dataDir={folder}\nclientPort={self._zookeeper_port}\nclientPortAddress={LOOPBACK}\n"
            "tickTime=500\nadmin.enableServer=false\nmaxClientCnxns=0\n"
        )
        self._zookeeper = spawn(
            self._java("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)),
            self.data_dir / "zookeeper.log",
        )

    def _answers(self) -> bool:
        """The broker gets the id of its cluster from ZooKeeper."""
        try:
            lines = (self.data_dir / "logs" / "meta.properties").read_text().splitlines()
        except OSError:
            return False
        self._cluster_id = dict(line.split("=", 1) for line in lines if "=" in line)["cluster.id"]
        return super()._answers()


def broker_of(version: str, data_dir: Path) -> Broker:
    """A broker of a version, which is not started yet. Raises LocalError if Java is missing."""
    find_java()
    kind = BrokerWithZooKeeper if version in WITH_ZOOKEEPER else VersionedBroker
    return kind(data_dir, version)
