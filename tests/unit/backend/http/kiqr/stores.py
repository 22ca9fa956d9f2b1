"""Views of every kind, queried in KIQR's dialect."""

from __future__ import annotations

import base64
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient

from backend.http.kiqr.routes import KAFKA
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import World, world
from tests.unit.backend.http.kiqr.client import asking

GREATEST, LEAST = 2**63 - 1, -(2**63)


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def long(number: int) -> bytes:
    return struct.pack(">q", number)


def serdes(key: str = "String", value: str = "String") -> dict[str, str]:
    return {
        "keySerde": f"{KAFKA}Serdes${key}Serde" if "." not in key else key,
        "valueSerde": f"{KAFKA}Serdes${value}Serde" if "." not in value else value,
    }


class Stores:
    """A client for each view, by its name in the cases."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.worlds: dict[str, World] = {}
        self.clients: dict[str, FlaskClient] = {}
        numbers = view(key="int64", value="int64")
        windows = view(store="window", value="int64", window_size=60_000)  # type: ignore[arg-type]
        sessions = view(store="session", value="int64")
        of = {"text": ORDERS, "numbers": numbers, "windows": windows, "sessions": sessions}
        for name, each in of.items():
            made = stack.enter_context(world(folder / name, each))
            self.worlds[name] = made
            # not the client itself: it keeps the request context, and those of several would mix
            self.clients[name] = stack.enter_context(asking(made)).application.test_client()
        self.worlds["text"].put_all({b"%c" % n: b'"%c"' % n for n in range(97, 107)})
        self.worlds["numbers"].put_all({long(n): long(n) for n in (-5, -1, 0, 7, GREATEST)})
        of_key = {b"a" + struct.pack(">qi", n * 60_000, 0): long(n) for n in range(3)}
        self.worlds["windows"].put_all(of_key)
        self.worlds["sessions"].put_all({b"a" + struct.pack(">qq", 20, 10): long(1)})

    def ask(self, path: str, parameters: dict[str, str], method: str = "GET") -> Any:
        """`path`: `kv/text/…`; the name of the store chooses the client."""
        kind, store, *rest = path.split("/", 2)
        client = self.clients.get(store, self.clients["text"])
        named = "orders" if store in self.clients else store
        target = "/".join(["/api/v1", kind, named, *rest])
        return client.open(target, method=method, query_string=parameters)
