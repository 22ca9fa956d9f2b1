"""The cost of a request for its sender: with the Python client, and with its HTTP library alone.

Arguments: the client (see `_CLIENTS`), URL, path of the keys, number of keys, requests, keys per
request. Prints `{"cpu_us", "rate", "p50_ms"}`: CPU time of this process per request, keys per
second, and the latency of a request.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from statistics import median

import aiohttp
import urllib3

from bench import records
from queryable import AsyncClient, Client

_WARM_UP = 200  # requests that are not measured

Send = Callable[[list[str]], None]
SendAsync = Callable[[list[str]], Awaitable[None]]


def _requests(count: int, many: int, keys: int) -> Iterator[list[str]]:
    for _ in range(many):
        yield [records.key(random.randrange(count)).decode() for _ in range(keys)]


class Timing:
    """CPU and wall time of requests."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._took: list[float] = []
        self._cpu = 0.0

    def begin(self) -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    def end(self, began: tuple[float, float]) -> None:
        self._took.append(time.perf_counter() - began[0])
        self._cpu += time.process_time() - began[1]

    def summary(self) -> dict[str, float]:
        return {
            "cpu_us": self._cpu / len(self._took) * 1e6,
            "rate": self._keys * len(self._took) / sum(self._took),
            "p50_ms": median(self._took) * 1e3,
        }


def _timed(send: Send, count: int, many: int, keys: int) -> dict[str, float]:
    timing = Timing(keys)
    for number, requested in enumerate(_requests(count, _WARM_UP + many, keys)):
        began = timing.begin()
        send(requested)
        if number >= _WARM_UP:
            timing.end(began)
    return timing.summary()


async def _timed_async(send: SendAsync, count: int, many: int, keys: int) -> dict[str, float]:
    timing = Timing(keys)
    for number, requested in enumerate(_requests(count, _WARM_UP + many, keys)):
        began = timing.begin()
        await send(requested)
        if number >= _WARM_UP:
            timing.end(began)
    return timing.summary()


def _found(status: int) -> None:
    if status != 200:
        raise SystemExit(f"a read was answered with {status}")


def _client(
    url: str, path: str, count: int, many: int, keys: int, direct: bool = False
) -> dict[str, float]:
    def send(requested: list[str]) -> None:
        if keys == 1:
            _found(200 if client.get(records.VIEW, requested[0]).found else 404)
        else:
            _found(200 if all(client.get_many(records.VIEW, requested)) else 404)

    with Client(url, direct=direct) as client:
        return _timed(send, count, many, keys)


def _urllib3(url: str, path: str, count: int, many: int, keys: int) -> dict[str, float]:
    def send(requested: list[str]) -> None:
        _found(pool.request("GET", f"{path}/{requested[0]}").status)

    with urllib3.connection_from_url(url) as pool:
        return _timed(send, count, many, keys)


def _async_client(url: str, path: str, count: int, many: int, keys: int) -> dict[str, float]:
    async def run() -> dict[str, float]:
        async with AsyncClient(url) as client:

            async def send(requested: list[str]) -> None:
                _found(200 if (await client.get(records.VIEW, requested[0])).found else 404)

            return await _timed_async(send, count, many, keys)

    return asyncio.run(run())


def _aiohttp(url: str, path: str, count: int, many: int, keys: int) -> dict[str, float]:
    async def run() -> dict[str, float]:
        async with aiohttp.ClientSession() as session:

            async def send(requested: list[str]) -> None:
                async with session.get(f"{url}{path}/{requested[0]}") as answer:
                    await answer.read()
                    _found(answer.status)

            return await _timed_async(send, count, many, keys)

    return asyncio.run(run())


_CLIENTS: dict[str, Callable[[str, str, int, int, int], dict[str, float]]] = {
    "client": _client,
    "client-direct": partial(_client, direct=True),
    "urllib3": _urllib3,
    "async-client": _async_client,
    "aiohttp": _aiohttp,
}


def main() -> None:
    client, url, path, *numbers = sys.argv[1:]
    count, many, keys = map(int, numbers)
    print(json.dumps(_CLIENTS[client](url, path, count, many, keys)))


if __name__ == "__main__":
    main()
