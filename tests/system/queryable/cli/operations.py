"""Runs the tool, and has records for every kind of store."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Mapping
from typing import Any

from typer.testing import CliRunner, Result

from queryable.cli.app import app

PARTITIONS = 3
VIEWS: Mapping[str, Mapping[str, str]] = {
    "orders": {},
    "documents": {"key": "json"},
    "prices": {"key": "int64", "value": "float64"},
    "bookings": {"store": "window", "window_size": "1h"},
    "visits": {"store": "session"},
}
HOUR = 3_600_000
NOW = int(time.time() * 1000) // HOUR * HOUR - 3 * HOUR


ANOTHER = {
    "orders": b"order-x",
    "documents": b'{"id":"new"}',
    "prices": struct.pack(">q", 1 << 40),
    "bookings": b"guest-x" + struct.pack(">qi", NOW, 0),
    "visits": b"guest-x" + struct.pack(">qq", NOW + 5, NOW),
}
"""The key of a record that exists only in the second deployment."""


def run(*arguments: str, **environment: str) -> Result:
    env = dict.fromkeys(("QUERYABLE_URL",), "") | environment
    return CliRunner().invoke(app, list(arguments), env=env)


def rows(done: Result) -> list[dict[str, Any]]:
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return [json.loads(line) for line in done.stdout.splitlines()]


def tables() -> dict[str, dict[bytes, bytes]]:
    """The records of each view, by their keys."""
    times = [NOW + n * HOUR for n in range(3)]
    return {
        "orders": {b"order-%03d" % n: b'{"n":%d}' % n for n in range(300)},
        "documents": {b'{"id":%d}' % n: b"%d" % n for n in range(50)},
        "prices": {struct.pack(">q", n): struct.pack(">d", n / 7) for n in range(-20, 20)},
        "bookings": {
            b"guest-%d" % n + struct.pack(">qi", t, 0): b"%d" % n for n in range(20) for t in times
        },
        "visits": {
            b"guest-%d" % n + struct.pack(">qq", t + 9, t): b"%d" % n
            for n in range(20)
            for t in times
        },
    }
