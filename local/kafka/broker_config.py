"""Settings of the single-node broker: ``server.properties`` and JVM options."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from local.ports import LOOPBACK

# For a small machine, one user, and fast tests. All other settings have Kafka's defaults.
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
    # After a kill, the controller accepts the node again once its old session has expired.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}

# With the serial collector and the first-tier compiler, a small broker starts faster and needs less
# memory.
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")
ARCHIVE = Path(sys.prefix) / "kafka.jsa"
"""The archive of classes, for a faster start; see ``local.kafka.archive``."""
LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
)


def server_properties(port: int, controller_port: int) -> dict[str, str]:
    """All properties except the data folder."""
    listener = f"BROKER://{LOOPBACK}:{port}"
    return {
        **DEFAULTS,
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"{listener},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": listener,
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
    }


def escaped(value: str) -> str:
    """A value for a Java properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
