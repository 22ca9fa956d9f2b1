"""One interface to both clients, and plain HTTP requests to compare the answers with."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

from queryable import Answer, AsyncClient, AsyncRows, Client, Raw, Rows
from tests.support.client import Client as Http
from tests.support.client import Response
from tests.support.reference.tables import base64url


class AnyClient:
    """A Client or an AsyncClient with the same interface. It returns rows as a list."""

    def __init__(self, client: Any, runner: asyncio.Runner, name: str) -> None:
        self.client = client
        self._runner = runner
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            if isinstance(result, Rows):
                return list(result)
            if isinstance(result, AsyncRows):
                return self._wait(result.to_list())
            if asyncio.iscoroutine(result):
                return self._wait(result)
            return result

        return call

    def bound(self, name: str, **types: Any) -> AnyClient:
        """The same interface to `client.view(name, key=…, value=…)`."""
        return AnyClient(self.client.view(name, **types), self._runner, self._name)

    def _wait(self, awaitable: Any) -> Any:
        # the runner's own context has no open session
        return self._runner.run(awaitable, context=copy_context())

    def first(self, rows: Any, count: int) -> list[Any]:
        """The first rows. The iterator is dropped then."""
        if isinstance(rows, AsyncRows):
            return self._wait(_first(rows, count))
        found = []
        for row in rows:
            found.append(row)
            if len(found) == count:
                break
        return found

    def run_pending(self) -> None:
        """Runs pending tasks, such as those that close dropped iterators."""
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
def all_clients(port: int) -> Iterator[list[AnyClient]]:
    """Both kinds of clients, through the proxy and direct."""
    with asyncio.Runner() as runner:
        url = f"http://127.0.0.1:{port}"
        clients = []
        for direct in (False, True):
            path = "direct" if direct else "proxy"
            clients.append(AnyClient(Client(url, direct=direct), runner, f"threads, {path}"))
            clients.append(AnyClient(AsyncClient(url, direct=direct), runner, f"asyncio, {path}"))
        try:
            yield clients
        finally:
            for each in clients:
                each.close()


def plain(port: int, path: str) -> Response:
    with Http(port) as client:
        return client.get(path)


def plain_key(port: int, view: str, key: bytes, more: str = "") -> Response:
    """A point read by record bytes."""
    path = f"/views/{view}/keys/{base64url(key)}?encoding=base64url"
    return plain(port, path + more)


def plain_items(port: int, path: str) -> list[dict[str, Any]]:
    """The items of all pages."""
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
    """A value for comparisons: NaN equals NaN, 1 is not 1.0, and -0.0 is not 0.0."""
    if isinstance(value, float):
        return ("float", struct.pack(">d", value)) if value == value else ("float", "NaN")
    if isinstance(value, Answer):
        parts = (value.key, value.found, value.value, value.valid_from, value.valid_to)
        return exact(parts)
    if isinstance(value, (bool, UUID)):
        return type(value).__name__, str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [exact(getattr(value, part.name)) for part in fields(value)]
    if isinstance(value, dict):
        return {name: exact(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [exact(each) for each in value]
    return value


def python_key(value: Any, form: str) -> Any:
    """The Python value of a key in an answer's JSON, without the client's own code."""
    if form != "json" and isinstance(value, dict):  # a key that is listed by its bytes
        return Raw(python_value(value["@base64url"], "bytes"))
    return python_value(value, form)


def python_value(value: Any, form: str) -> Any:
    """The Python value of an answer's JSON, without the client's own code."""
    if form == "bytes":
        return base64.b64decode(value + "=" * (-len(value) % 4), b"-_", validate=True)
    if form == "float64":
        return float(value)
    if form == "uuid":
        return UUID(value)
    return None if form == "none" else value
