"""Brokers with another listener, and broker faults that only tests need."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.kafka.broker import Broker
from local.ports import LOOPBACK, free_ports
from local.waiting import wait_until


class PasswordBroker(Broker):
    """A broker with a second listener, for SASL/PLAIN over plain text."""

    def __init__(self, data_dir: Path, users: Mapping[str, str], **options: Any) -> None:
        """`users`: name ► password."""
        super().__init__(data_dir, **options)
        self._users = users
        [self._sasl_port] = free_ports(1)

    @property
    def sasl_bootstrap_servers(self) -> str:
        return f"{LOOPBACK}:{self._sasl_port}"

    def _all_properties(self) -> dict[str, str]:
        users = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        properties = super()._all_properties()
        _add_listener(properties, "CLIENT", "SASL_PLAINTEXT", self._sasl_port, self._sasl_port)
        return {
            **properties,
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": f"{module} required {users};",
        }


class DetouredBroker(Broker):
    """A broker with a second listener, on `detour_port`, which advertises the port `detour`. The
    caller forwards connections from there to `detour_port`."""

    def __init__(self, data_dir: Path, detour: int, **options: Any) -> None:
        super().__init__(data_dir, **options)
        self._detour = detour
        [self.detour_port] = free_ports(1)

    def _all_properties(self) -> dict[str, str]:
        properties = super()._all_properties()
        _add_listener(properties, "DETOUR", "PLAINTEXT", self.detour_port, self._detour)
        return properties


def _add_listener(
    properties: dict[str, str], name: str, protocol: str, port: int, advertised: int
) -> None:
    properties["listeners"] += f",{name}://{LOOPBACK}:{port}"
    properties["advertised.listeners"] += f",{name}://{LOOPBACK}:{advertised}"
    properties["listener.security.protocol.map"] += f",{name}:{protocol}"


def pause(broker: Broker) -> None:
    """Sends SIGSTOP: connections stay open without answers, like in a network fault.

    Returns when all threads have stopped, because some continue on a loaded machine.
    """
    broker.process.send_signal(signal.SIGSTOP)
    threads = Path(f"/proc/{broker.process.pid}/task")

    def have_stopped() -> bool:
        # The state is the first field after the name, which is in parentheses.
        stats = [(thread / "stat").read_text() for thread in threads.iterdir()]
        return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

    wait_until(have_stopped, 10, "the broker to stop")


def resume(broker: Broker) -> None:
    """Ends a pause."""
    broker.process.send_signal(signal.SIGCONT)
