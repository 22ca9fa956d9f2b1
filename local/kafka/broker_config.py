"""Settings of the single-node broker: ``server.properties`` and JVM options."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

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


class Listeners(NamedTuple):
    """Ports of the listeners. The detour listener, if any, advertises the port ``detour``."""

    broker: int
    controller: int
    sasl: int
    detour_listener: int
    detour: int | None


def server_properties(ports: Listeners, sasl_users: Mapping[str, str]) -> dict[str, str]:
    """All properties except the data folder; ``sasl_users``: name ► password, or empty."""
    listeners = {"BROKER": ports.broker, "CONTROLLER": ports.controller}
    protocols = {"BROKER": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    sasl = {}
    if sasl_users:
        listeners["CLIENT"] = ports.sasl
        protocols["CLIENT"] = "SASL_PLAINTEXT"
        sasl = {
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": _jaas(sasl_users),
        }
    if ports.detour is not None:
        listeners["DETOUR"] = ports.detour_listener
        protocols["DETOUR"] = "PLAINTEXT"
    advertised: dict[str, int | None] = {**listeners, "DETOUR": ports.detour}
    urls = {name: f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items()}
    return {
        **DEFAULTS,
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": ",".join(urls.values()),
        "advertised.listeners": ",".join(
            f"{n}://{LOOPBACK}:{advertised[n]}" for n in urls if n != "CONTROLLER"
        ),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{LOOPBACK}:{ports.controller}",
        **sasl,
    }


def escaped(value: str) -> str:
    """A value for a Java properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _jaas(users: Mapping[str, str]) -> str:
    for name, password in users.items():
        if any(c in '"\\\n' for c in name + password):
            raise ValueError("SASL users cannot have quotes, backslashes or line breaks")
    accounts = " ".join(f'"user_{name}"="{password}"' for name, password in users.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {accounts};"
