"""Redis as a reference: Debian's server, in memory only, with a table's records."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from bench.records import Table, key
from local.errors import LocalError

_RECORDS_PER_SEND = 10_000
_OK = b"+OK\r\n"


def find_redis() -> str:
    """The path of redis-server; LocalError if it is not installed."""
    if found := shutil.which("redis-server"):
        return found
    raise LocalError(
        "redis-server is not installed: run `make bench`, or install Debian's package redis-server."
    )


def command(folder: Path, port: int) -> list[str]:
    """The command that starts Redis on 127.0.0.1, without persistence."""
    return [
        *(find_redis(), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)),
        *("--save", "", "--appendonly", "no", "--daemonize", "no"),
    ]


def answers(port: int) -> bool:
    """Whether Redis answers a PING."""
    try:
        with socket.create_connection(("127.0.0.1", port), 2.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def fill(port: int, table: Table) -> None:
    """Writes all records of a table; LocalError if Redis rejects one."""
    with socket.create_connection(("127.0.0.1", port), 30.0) as connection:
        for count, lines in _sets(table):
            connection.sendall(lines)
            _check_replies(connection, count)


def _sets(table: Table) -> Iterator[tuple[int, bytes]]:
    """Pairs of a number of records, and their SET commands."""
    for begin in range(0, table.count, _RECORDS_PER_SEND):
        numbers = range(begin, min(begin + _RECORDS_PER_SEND, table.count))
        yield len(numbers), b"".join(_set(key(n), table.value(n)) for n in numbers)


def _set(name: bytes, value: bytes) -> bytes:
    return b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(name), name, len(value), value)


def _check_replies(connection: socket.socket, count: int) -> None:
    expected = _OK * count
    replies = b""
    while len(replies) < len(expected):
        if not (more := connection.recv(1 << 16)):
            break
        replies += more
    if replies != expected:
        raise LocalError(f"Redis did not store the records: {replies[:200]!r}")
