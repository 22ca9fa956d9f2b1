"""Clients of both kinds, asked in one way; and what a plain HTTP client is answered."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import Any
from uuid import UUID

from queryable import Answer, AsyncClient, AsyncRows, Client, Rows
from tests.client import Client as Http
from tests.client import Response
from tests.reference import base64url


class Asker:
    """A Client or an AsyncClient: what it gives, rows as a list."""

    def __init__(self, client: Client | AsyncClient, runner: asyncio.Runner, name: str) -> None:
        self.client = client
        self._runner = runner
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Any:
        of = getattr(self.client, name)

        def ask(*args: Any, **kwargs: Any) -> Any:
            said = of(*args, **kwargs)
            if isinstance(said, Rows):
                return list(said)
            if isinstance(said, AsyncRows):
                return self._wait(said.to_list())
            if asyncio.iscoroutine(said):
                return self._wait(said)
            return said

        return ask

    def _wait(self, said: Any) -> Any:
        # a runner has a context of its own, which knows nothing of sessions
        return self._runner.run(said, context=copy_context())

    def first(self, rows: Any, count: int) -> list[Any]:
        """So many rows of what may have no end, which is left then."""
        if isinstance(rows, AsyncRows):
            return self._wait(_first(rows, count))
        found = []
        for row in rows:
            found.append(row)
            if len(found) == count:
                break
        return found

    def turn(self) -> None:
        """Lets tasks go on that nobody waits for, such as those that close what was left."""
        self._wait(asyncio.sleep(0))

    def session(self) -> AbstractContextManager[Any]:
        return self.client.session()

    def close(self) -> None:
        if isinstance(self.client, AsyncClient):
            self._runner.run(self.client.close())
        else:
            self.client.close()


async def _first(rows: AsyncRows[Any], count: int) -> list[Any]:
    found = []
    async for row in rows:
        found.append(row)
        if len(found) == count:
            break
    return found


@contextmanager
def askers(port: int) -> Iterator[list[Asker]]:
    """Both kinds, by the proxy and directly."""
    with asyncio.Runner() as runner:
        url = f"http://127.0.0.1:{port}"
        made = []
        for direct in (False, True):
            how = "directly" if direct else "by the proxy"
            made.append(Asker(Client(url, direct=direct), runner, f"threads, {how}"))
            made.append(Asker(AsyncClient(url, direct=direct), runner, f"asyncio, {how}"))
        try:
            yield made
        finally:
            for each in made:
                each.close()


def plain(port: int, path: str) -> Response:
    with Http(port) as client:
        return client.get(path)


def plain_key(port: int, view: str, key: bytes, more: str = "") -> Response:
    """The point read of record bytes."""
    path = f"/views/{view}/keys/{base64url(key)}?encoding=base64url"
    return plain(port, path + more)


def plain_items(port: int, path: str) -> list[dict[str, Any]]:
    """All pages, the next with the cursor of the one before."""
    found: list[dict[str, Any]] = []
    cursor = ""
    sign = "&" if "?" in path else "?"
    while True:
        answer = plain(port, f"{path}{sign}limit=1000{cursor}")
        assert answer.status == 200, answer
        found += answer.json()["items"]
        if answer.json()["next"] is None:
            return found
        cursor = f"&cursor={answer.json()['next']}"


def exact(value: Any) -> Any:
    """To be compared: NaN is itself, 1 is not 1.0, and -0.0 is not 0.0."""
    if isinstance(value, float):
        return ("float", struct.pack(">d", value)) if value == value else ("float", "NaN")
    if isinstance(value, Answer):
        parts = (value.key, value.found, value.value, value.valid_from, value.valid_to)
        return exact(parts)
    if isinstance(value, (bool, UUID)):
        return type(value).__name__, str(value)
    if isinstance(value, dict):
        return {name: exact(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [exact(each) for each in value]
    return value


def python_of(said: Any, form: str) -> Any:
    """What an answer's JSON is in Python: said independently of queryable/core/formats.py."""
    if form == "bytes":
        import base64

        return base64.b64decode(said + "=" * (-len(said) % 4), b"-_", validate=True)
    if form == "float64":
        return float(said)
    if form == "uuid":
        return UUID(said)
    return None if form == "none" else said
