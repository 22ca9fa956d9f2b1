"""TCP ports on 127.0.0.1: finds free ones, and checks that a port is free."""

from __future__ import annotations

import random
import socket
from collections import deque
from pathlib import Path

from local.errors import LocalError

LOOPBACK = "127.0.0.1"
_LOWEST = 10_000
_MAX_TRIED = 1_000

# the last ports returned, which are perhaps not in use yet
_recent: deque[int] = deque(maxlen=500)
_part, _parts = 0, 1


def use_part(part: int, parts: int) -> None:
    """Let this process find only ports of one of ``parts`` equal ranges (0, 1, …), so that it never
    gets a port that a concurrent process is about to use."""
    global _part, _parts
    _part, _parts = part, parts


def free_ports(count: int) -> list[int]:
    """``count`` different ports that are not in use.

    They are below the range of outgoing connections, because such a connection could use the port
    before the server does. They are random, so that concurrent callers hardly get the same port.
    The last ports that this process got are not returned again.
    """
    ports: list[int] = []
    size = (_first_ephemeral() - _LOWEST) // _parts
    candidates = range(_LOWEST + _part * size, _LOWEST + (_part + 1) * size)
    for port in random.sample(candidates, min(_MAX_TRIED, len(candidates))):
        if len(ports) == count:
            break
        if port not in _recent and is_free(port):
            ports.append(port)
            _recent.append(port)
    if len(ports) < count:
        raise LocalError(f"cannot find {count} free ports on {LOOPBACK}.")
    return ports


def _first_ephemeral() -> int:
    """The lowest port of outgoing connections: ip_local_port_range in ip(7)."""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 0
    return first if first >= _LOWEST + _MAX_TRIED else 32768


def is_free(port: int) -> bool:
    """Whether a server could listen on the port of 127.0.0.1."""
    with socket.socket() as probe:
        # Servers set this option, too, so earlier connections in TIME_WAIT do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def require_free(port: int, what: str, setting: str) -> None:
    """Raises ``LocalError`` if the port is in use; it names the port, the server (``what``) and the
    setting."""
    if not is_free(port):
        raise LocalError(
            f"port {port} on {LOOPBACK} is used by another program, and {what} needs it. "
            f"Stop that program, or choose another port with {setting}."
        )
