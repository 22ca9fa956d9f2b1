"""The bodies of all requests in flight have a common limit; above it, 503 `overloaded`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.http.limits.bodies import BodyBudget
from backend.queries.turns import Turns, set_sender
from model.problems import Unavailable
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS

PARTS = [b'{"keys":["' + b"a" * 50, b'"]}']
SIZE = sum(map(len, PARTS))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, ORDERS)
    made.settle()
    yield made
    made.close()


class Sender:
    """A client that sends the chunks of a body, and holds the last one back."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = list(parts)
        self.may_end = asyncio.Event()
        self.waits = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if len(self._parts) == 1:
            self.waits.set()
            await self.may_end.wait()
        part = self._parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self._parts)}


def target_of(path: str) -> dict[str, Any]:
    headers = [(b"content-type", b"application/json")]
    return {
        "raw_path": path.encode(), "query_string": b"", "method": "POST", "headers": headers,
        "client": ("127.0.0.1", 1),
    }  # fmt: skip


async def asked(cluster: Cluster, path: str, sender: Sender) -> tuple[int, dict[bytes, bytes]]:
    """Status and headers of the answer of b1."""
    started: dict[str, Any] = {}

    async def send(message: Any) -> None:
        started.update(message)

    await cluster.nodes["b1"].shell(target_of(path), sender.receive, send)
    return started["status"], dict(started["headers"])


@pytest.mark.parametrize("resource", ["batch", "search"])
def test_a_body_over_the_budget_is_refused_at_once(cluster: Cluster, resource: str) -> None:
    """The request is still arriving, or is being answered."""
    path = f"/views/orders/{resource}"
    parts = PARTS if resource == "batch" else [b'{"query":"' + b"a" * 50, b'"}']
    size = sum(map(len, parts))
    shell = cluster.nodes["b1"].shell
    shell._bodies = budget = BodyBudget(size + size // 2)
    answered = 200 if resource == "batch" else 404

    async def test() -> None:
        first, second = Sender(parts), Sender(parts)
        second.may_end.set()
        asking = asyncio.create_task(asked(cluster, path, first))
        await first.waits.wait()
        status, headers = await asked(cluster, path, second)
        assert (status, headers[b"retry-after"]) == (503, b"1")
        first.may_end.set()
        assert (await asking)[0] == answered
        third = Sender(parts)
        third.may_end.set()
        assert (await asked(cluster, path, third))[0] == answered

    cluster.run(test())
    assert budget.left == size + size // 2, "the whole budget is free again"


def test_a_body_counts_until_its_request_is_answered() -> None:
    async def test() -> None:
        budget, sender = BodyBudget(SIZE), Sender(PARTS)
        sender.may_end.set()
        with budget.counted(sender.receive) as receive:
            await receive()
            await receive()
            assert budget.left == 0
        assert budget.left == SIZE

    asyncio.run(test())


def test_bodies_of_clients_do_not_use_the_budget_of_instances(cluster: Cluster) -> None:
    shell = cluster.nodes["b1"].shell
    shell._bodies = BodyBudget(0)
    body = json.dumps({"keys": [f"key {n}" for n in range(20)]}).encode()
    assert cluster.ask("b1", "POST", "/views/orders/batch", body).json()["code"] == "overloaded"
    # a batch of another instance
    answer = cluster.ask("b2", "POST", "/views/orders/batch", body)
    assert {item["status"] for item in answer.json()["items"]} == {404}
    assert cluster.ask("b1", "GET", "/views/orders/keys").status == 200
    # heartbeats are small, and need no budget
    assert cluster.ask("b1", "POST", "/internal/heartbeat", b"{}").status != 503
    shell._internal_bodies = BodyBudget(0)
    answer = cluster.ask("b2", "POST", "/views/orders/batch", body)
    assert {item["status"] for item in answer.json()["items"]} == {404, 503}


def test_a_body_that_is_arriving_takes_no_place_among_the_requests(cluster: Cluster) -> None:
    """A client that sends slowly would otherwise keep all others out."""
    shell = cluster.nodes["b1"].shell
    for route in shell.routes:
        if route.pattern == "/views/{view}/search":
            route.gate.limit = 1  # type: ignore[attr-defined]

    async def test() -> None:
        parts = [b'{"query":"' + b"a" * 50, b'"}']
        slow = [Sender(parts) for _ in range(3)]
        asking = [asyncio.create_task(asked(cluster, "/views/orders/search", s)) for s in slow]
        for sender in slow:
            await sender.waits.wait()
        other = Sender(parts)
        other.may_end.set()
        assert (await asked(cluster, "/views/orders/search", other))[0] == 404
        for sender in slow:
            sender.may_end.set()
        await asyncio.gather(*asking)

    cluster.run(test())


def test_one_sender_uses_three_quarters_of_the_budget() -> None:
    async def body_of(sender: str, budget: BodyBudget, size: int) -> None:
        set_sender(Turns(), sender)
        client = Sender([b"a" * size])
        client.may_end.set()
        with budget.counted(client.receive) as receive:
            await receive()
            if sender == "many":
                await other("few")

    async def other(sender: str) -> None:
        await asyncio.create_task(body_of(sender, budget, 20))

    budget = BodyBudget(100)
    with pytest.raises(Unavailable):
        asyncio.run(body_of("many", budget, 76))
    asyncio.run(body_of("many", budget, 75))
    assert budget.left == 100
