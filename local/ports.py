"""TCP ports on 127.0.0.1: finding free ones, and saying clearly that one is taken."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from local.errors import LocalError

LOOPBACK = "127.0.0.1"
_LOWEST = 10_000
_MOST_TRIED = 1_000


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """``count`` different ports that nothing listens on at this moment.

    They are below the range from which the system gives ports to outgoing connections: one of those
    could have the port before the server does. At random, so that others who look choose others.
    """
    found: list[int] = []
    for port in random.sample(range(_LOWEST, _first_ephemeral()), _MOST_TRIED):
        if len(found) == count:
            break
        if is_free(port, host):
            found.append(port)
    if len(found) < count:
        raise LocalError(f"{count} free ports were not found on {host}.")
    return found


def _first_ephemeral() -> int:
    """ip_local_port_range of ip(7)."""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 0
    return first if first >= _LOWEST + _MOST_TRIED else 32768


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on the port."""
    with socket.socket() as probe:
        # as servers do: connections of a past server in TIME_WAIT do not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def require_free(port: int, what: str, setting: str, host: str = LOOPBACK) -> None:
    """``LocalError`` naming the port, what needs it and the setting that moves it."""
    if not is_free(port, host):
        raise LocalError(
            f"port {port} on {host} is taken by another program, and {what} needs it. "
            f"End that program, or choose another port with {setting}."
        )
