"""Which histogram each request is counted in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter

import pytest

from backend.http.asgi import RECEIVED_EXTENSION
from backend.http.sending import role_of
from backend.telemetry.latencies import Labels
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import NDJSON, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, ORDERS)
    world.put(b"a", b"1")
    return world


def counted(world: World, instance: str = "b1") -> dict[Labels, int]:
    latencies = world.instances[instance].context.telemetry.latencies
    return {labels: sum(counts) for labels, counts, _ in latencies.all()}


def test_every_route_has_a_short_label_of_its_own(world: World) -> None:
    labels = [route.label for route in world.routers["b1"].routes]
    assert {
        "key", "key/windows", "key/changes", "key/rest", "keys", "windows", "top", "batch",
        "search", "append", "internal/reads", "internal/scan", "metrics", "health", "views",
        "processors", "openapi", "admin", "api", "other",
    } <= set(labels)  # fmt: skip
    assert all("{" not in label and len(label) <= 20 for label in labels)


def test_reads_are_counted_by_view_role_and_status(world: World) -> None:
    for key in ("a", "a", "none"):
        owner = "b2" if world.partition(key.encode()) % 2 else "b1"
        world.ask(f"keys/{key}", owner)
        found = counted(world, owner)
    assert (
        counted(world, "b1" if world.partition(b"a") % 2 == 0 else "b2")[
            Labels("key", "orders", "active", 200)
        ]
        == 2
    )
    assert found[Labels("key", "orders", "active", 404)] == 1


def test_a_forwarded_read_is_counted_on_both_instances(world: World) -> None:
    owner = "b2" if world.partition(b"a") % 2 else "b1"
    other = "b1" if owner == "b2" else "b2"

    async def ask() -> None:
        world.routers[owner].fast_path.start()
        answer = await world.request(other, "GET", "/views/orders/keys/a")
        assert answer.status == 200
        await asyncio.sleep(0)  # the owner counts at the end of its turn

    asyncio.run(ask())
    labels = Labels("key", "orders", "active", 200)
    assert counted(world, owner)[labels] == counted(world, other)[labels] == 1


def test_a_scan_of_several_instances(world: World) -> None:
    world.ask("count")
    assert counted(world)[Labels("count", "orders", "active", 200)] == 1


def test_a_streamed_answer_is_counted_until_it_starts(world: World) -> None:
    world.put_all({b"%d" % number: b"1" for number in range(500)})
    began = perf_counter()
    said = world.ask("keys", accept=NDJSON)
    assert said.status == 200
    series = world.instances["b1"].context.telemetry.latencies.all()
    [(labels, counts, seconds)] = [each for each in series if each[0].route == "keys"]
    assert (labels.status, sum(counts)) == (200, 1)
    assert seconds < perf_counter() - began


def test_unknown_views_and_paths_share_their_labels(world: World) -> None:
    for number in range(3):
        asyncio.run(world.request("b1", "POST", f"/views/none-{number}/switch"))
    assert [labels.view for labels in counted(world)] == [""]


def test_the_duration_begins_when_the_request_arrived(world: World) -> None:
    sent = []

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    path = b"/views/orders/count"
    scope = {
        "type": "http", "method": "GET", "raw_path": path, "path": path.decode(),
        "query_string": b"", "headers": [], "client": ("127.0.0.1", 1),
        "extensions": {RECEIVED_EXTENSION: perf_counter() - 2},
    }  # fmt: skip
    asyncio.run(world.routers["b1"](scope, receive, send))
    [(_, _, seconds)] = [
        each
        for each in world.instances["b1"].context.telemetry.latencies.all()
        if each[0].route == "count"
    ]
    assert 2 <= seconds < 4


def test_a_request_whose_client_left_is_counted_as_499(world: World) -> None:
    async def leave() -> None:
        world.peers.down = {"b1", "b2"}
        task = asyncio.ensure_future(world.request("b1", "GET", "/views/orders/count"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(leave())
    assert counted(world)[Labels("count", "orders", "", 499)] == 1


@pytest.mark.parametrize(
    ("served_by", "role"),
    [
        (b"b1; active", "active"),
        (b"b1; standby", "standby"),
        (b"b1; active, b2; active", "active"),
        (b"b1; active, b2; standby", "several"),
        (b"b1; active, +3", "several"),
        (b"b1", ""),
        (b"b1; <script>", ""),
    ],
)
def test_the_role_is_that_of_served_by(served_by: bytes, role: str) -> None:
    assert role_of([(b"partition", b"1"), (b"served-by", served_by)]) == role
    assert role_of([(b"partition", b"1")]) == ""
