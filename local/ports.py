"""TCP ports on 127.0.0.1: finding free ones, and saying clearly that one is taken."""

from __future__ import annotations

import contextlib
import socket

from local.errors import LocalError

LOOPBACK = "127.0.0.1"


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """``count`` different ports that nothing listens on at this moment."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((host, 0))
        return [int(each.getsockname()[1]) for each in sockets]


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
