from __future__ import annotations

import socket
from pathlib import Path

import pytest

from local import ports
from local.errors import LocalError
from local.ports import LOOPBACK, free_ports, is_free


def test_free_ports_are_below_those_of_outgoing_connections() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = free_ports(300)
    assert len(set(found)) == 300
    assert max(found) < first


def test_a_port_in_use_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    [used, free] = free_ports(2)
    with socket.create_server((LOOPBACK, used)):
        assert not is_free(used)
        monkeypatch.setattr(ports.random, "sample", lambda *_: [used, free])
        assert free_ports(1) == [free]
        with pytest.raises(LocalError, match="cannot find 2 free ports"):
            free_ports(2)
