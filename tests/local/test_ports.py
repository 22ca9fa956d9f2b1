from __future__ import annotations

import socket
from pathlib import Path

import pytest

from local import ports
from local.errors import LocalError
from local.ports import LOOPBACK, free_ports, is_free


def test_free_ports_are_never_those_of_outgoing_connections() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = free_ports(300)
    assert len(set(found)) == 300
    assert max(found) < first


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    [taken, free] = free_ports(2)
    with socket.create_server((LOOPBACK, taken)):
        assert not is_free(taken)
        monkeypatch.setattr(ports.random, "sample", lambda *_: [taken, free])
        assert free_ports(1) == [free]
        with pytest.raises(LocalError, match="cannot find 2 free ports"):
            free_ports(2)
