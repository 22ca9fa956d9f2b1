"""The TCP fault proxy injects exactly the faults that are set."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from local.ports import free_ports
from local.waiting import wait_until
from tests.support.tcp_faults import SILENT, Link, TcpFaults


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    """The port of a server that echoes what it receives, until the client closes."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while chunk := connection.recv(65536):
                    connection.sendall(chunk)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield int(server.getsockname()[1])
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(5)


@pytest.fixture
def faults(echo: int) -> Iterator[TcpFaults]:
    with TcpFaults(echo) as running:
        yield running


def connected(faults: TcpFaults) -> socket.socket:
    return socket.create_connection(("127.0.0.1", faults.port), timeout=5)


def exchange(connection: socket.socket, what: bytes) -> bytes:
    connection.sendall(what)
    got = b""
    while len(got) < len(what):
        chunk = connection.recv(65536)
        if not chunk:
            break
        got += chunk
    return got


def test_bytes_and_the_end_are_forwarded_in_both_directions(faults: TcpFaults) -> None:
    big = bytes(range(256)) * 4_000
    with connected(faults) as one, connected(faults) as two:
        sender = threading.Thread(target=lambda: one.sendall(big))
        sender.start()
        got = b""
        while len(got) < len(big):
            got += one.recv(65536)
        sender.join()
        assert got == big
        assert exchange(two, b"x") == b"x"
        assert faults.connections == 2
        one.shutdown(socket.SHUT_WR)
        assert one.recv(1) == b""
    wait_until(lambda: faults.connections == 0, 5, "no connections")


def test_cut_resets_open_connections_and_accepts_new_ones(faults: TcpFaults) -> None:
    with connected(faults) as connection:
        exchange(connection, b"x")
        faults.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with connected(faults) as connection:
        assert exchange(connection, b"y") == b"y"


def test_refuse_affects_only_new_connections_until_accept(faults: TcpFaults) -> None:
    with connected(faults) as before:
        exchange(before, b"x")
        faults.refuse()
        with pytest.raises(ConnectionRefusedError):
            connected(faults)
        assert exchange(before, b"y") == b"y"
        faults.accept()
        with connected(faults) as after:
            assert exchange(after, b"z") == b"z"


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_silent_link_delivers_its_bytes_when_it_heals(faults: TcpFaults, direction: str) -> None:
    with connected(faults) as before:
        exchange(before, b"x")
        faults.shape(**{direction: SILENT})
        with connected(faults) as after:
            for connection in (before, after):
                connection.settimeout(0.2)
                connection.sendall(b"y")
                with pytest.raises(TimeoutError):
                    connection.recv(1)
                connection.settimeout(5)
            faults.heal()
            assert before.recv(1) == after.recv(1) == b"y"


@pytest.mark.slow
def test_each_direction_has_its_own_delay(faults: TcpFaults) -> None:
    with connected(faults) as connection:
        for shape, least in (
            ({"up": Link(delay=0.2)}, 0.2),
            ({"up": Link(delay=0.1), "down": Link(delay=0.2)}, 0.3),
            ({}, 0.0),
        ):
            faults.shape(**shape)
            began = time.monotonic()
            assert exchange(connection, b"x") == b"x"
            assert least <= time.monotonic() - began < least + 2


@pytest.mark.slow
def test_a_slow_link_limits_the_rate(faults: TcpFaults) -> None:
    with connected(faults) as connection:
        exchange(connection, b"x")
        faults.shape(down=Link(rate=10_000))
        began = time.monotonic()
        assert exchange(connection, b"x" * 5_000) == b"x" * 5_000
        assert 0.3 < time.monotonic() - began < 3


def test_an_unreachable_target_is_a_reset() -> None:
    [nobody] = free_ports(1)
    with TcpFaults(nobody) as faults:
        # the reset may arrive before the client's call to connect has returned
        with pytest.raises(ConnectionResetError), connected(faults) as connection:
            connection.recv(1)
        assert faults.connections == 0
