from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator
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
    monkeypatch.setattr(ports, "_recent", deque())  # they may be returned again
    with socket.create_server((LOOPBACK, used)):
        assert not is_free(used)
        monkeypatch.setattr(ports.random, "sample", lambda *_: [used, free])
        assert free_ports(1) == [free]
        with pytest.raises(LocalError, match="cannot find 2 free ports"):
            free_ports(2)


@pytest.fixture
def parts() -> Iterator[None]:
    """Restores the part of this process."""
    part = ports._part, ports._parts
    yield
    ports.use_part(*part)


def test_a_port_that_may_not_be_in_use_yet_is_not_found_again() -> None:
    found = [port for _ in range(100) for port in free_ports(5)]
    assert len(set(found)) == len(found)


def test_processes_with_different_parts_find_different_ports(parts: None) -> None:
    found: set[int] = set()
    for part in range(3):
        ports.use_part(part, 3)
        own = free_ports(150)
        assert max(own) - min(own) < 8_000, "a third of the range, so that others may follow one"
        found |= set(own)
    assert len(found) == 450
