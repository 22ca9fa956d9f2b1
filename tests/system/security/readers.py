"""Clients that read keys, a batch and the whole view `v` while a secret is replaced."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import RemoteDisconnected
from typing import Any, Protocol

import queryable
from local.waiting import stretch, wait_until
from tests.support.background import Background
from tests.support.client import Client, Response, key_path

SINGLE_KEYS = 16  # that a reader asks for one by one

Token = Callable[[], str]


class Reader(Protocol):
    """Reads until an answer is not right; for one thread."""

    def read(self) -> None: ...
    def close(self) -> None: ...


class HttpReader:
    """Reads on one kept connection, and repeats no answer.

    On a busy machine, a batch is sent again if a key of it is undecided (503).
    `is_proxy`: nginx closes idle connections when it reloads. As any HTTP client, the reader then
    repeats the request on a new connection (RFC 9112, 9.3.1). `waits_for_keys`: it does what
    Retry-After says if the keys that verify tokens are being fetched.
    """

    def __init__(
        self,
        client: Client,
        table: Mapping[str, Any],
        token: Token | None = None,
        *,
        is_proxy: bool,
        waits_for_keys: bool = False,
    ) -> None:
        self._client = client
        self._table = table
        self._token = token
        self._is_proxy = is_proxy
        self._waits_for_keys = waits_for_keys
        self.close = client.close

    def read(self) -> None:
        for key in list(self._table)[:SINGLE_KEYS]:
            assert self._ask("GET", key_path("v", key)).json()["value"] == self._table[key]
        body = json.dumps({"keys": list(self._table)}).encode()
        batch = self._batch(body)
        if stretch() > 1 and any(item.get("status") == 503 for item in batch):
            batch = self._batch(body)  # a busy machine: an instance has not answered in time
        assert {item["key"]: item.get("value", item) for item in batch} == self._table
        page = self._ask("GET", "/views/v/keys?limit=1000").json()["items"]
        assert {item["key"]: item["value"] for item in page} == self._table

    def _batch(self, body: bytes) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._ask("POST", "/views/v/batch", body).json()["items"]
        return items

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Response:
        answer = self._send(method, path, body)
        while self._waits_for_keys and _keys_are_being_fetched(answer):
            time.sleep(int(answer.headers["Retry-After"]))
            answer = self._send(method, path, body)
        assert answer.status == 200, f"{time.strftime('%X')} {method} {path}: {answer}"
        return answer

    def _send(self, method: str, path: str, body: bytes | None) -> Response:
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token()}"}
        try:
            return self._client.request(method, path, body, headers)
        except (RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            if not self._is_proxy:
                raise
            return self._client.request(method, path, body, headers)


def _keys_are_being_fetched(answer: Response) -> bool:
    return answer.status == 503 and answer.code == "keys-unavailable"


class ClientReader:
    """The same with the Python client, which repeats what may be repeated."""

    def __init__(self, client: queryable.Client, table: Mapping[str, Any]) -> None:
        self._client = client
        self._table = table
        self.close = client.close

    def read(self) -> None:
        for key in list(self._table)[:SINGLE_KEYS]:
            assert self._client.get("v", key).value == self._table[key]
        answers = self._client.get_many("v", list(self._table))
        assert [answer.value for answer in answers] == list(self._table.values())
        assert {row.key: row.value for row in self._client.scan("v")} == self._table


class Load(Background):
    """Repeats each reader in a thread. The first read that fails ends the test."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        super().__init__("load", len(readers))
        self._readers = readers
        self._rounds = [0] * len(readers)

    def _work(self, number: int) -> None:
        with closing(self._readers[number]) as reader:
            while not self._stop.is_set():
                reader.read()
                self._stop.wait(0.01)  # the instances need processors, too
                self._rounds[number] += 1

    def all_again(self) -> None:
        """Wait until each reader has begun and ended a round."""
        before = list(self._rounds)
        wait_until(
            lambda: self.failures
            or all(now > then + 1 for now, then in zip(self._rounds, before, strict=True)),
            20, "all readers to read again", 0.02,
        )  # fmt: skip
        self.check()


@contextmanager
def reading(readers: Sequence[Reader]) -> Iterator[Load]:
    """Each reads before, during and after the block."""
    with Load(readers) as load:
        load.all_again()
        yield load
        load.all_again()
