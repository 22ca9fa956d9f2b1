"""Views with versions: the client follows a switch, and a session stays with its version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from queryable.client.protocol.calls import metadata, point, scan, view_versions
from queryable.client.protocol.errors import BadRequest, NoAnswer
from queryable.client.protocol.transport import Response
from tests.queryable.client.protocol.scripted_transport import (
    CUT,
    ORDERS,
    Driver,
    ScriptedStream,
    ok,
    orders,
    problem,
    rows,
)


def described(version: int, epoch: str, **fields: Any) -> Response:
    view = {**ORDERS, "topic": f"orders-v{version}", "version": version, "versions": [1, 2]}
    return ok({**view, **fields}, topology_epoch=epoch)


def value(version: int, epoch: str, offset: int = 7) -> Response:
    return ok(
        {"key": "a", "value": version}, partition="2", offset=str(offset), topology_epoch=epoch,
        view_version=str(version),
    )  # fmt: skip


def test_a_view_is_described_again_after_a_switch() -> None:
    driver = Driver(
        described(1, "5-1"), value(1, "5-1"), value(2, "5-2"),
        described(2, "5-2", value="int64"), value(2, "5-2"), value(2, "5-1"), value(2, "5-2"),
    )  # fmt: skip
    found = [driver.call(point.get, "orders", "a") for _ in range(5)]
    assert [answer.version for answer in found] == [1, 2, 2, 2, 2]
    # once per epoch; an older epoch, of an instance that is behind, means nothing
    assert [target for target in driver.targets if "keys" not in target] == ["/views/orders"] * 2
    assert driver.call(metadata.view, "orders").topic == "orders-v2"


def test_a_session_stays_with_its_version() -> None:
    """Offsets in the topic of one version mean nothing in that of another one."""
    driver = Driver(described(1, "5-1"), value(1, "5-1"), value(1, "5-2"), value(1, "5-2"))
    with driver.context.session() as seen:
        for _ in range(3):
            assert driver.call(point.get, "orders", "a").version == 1
        assert seen.snapshot() == {"orders-v1": {2: 6}}
    assert driver.targets[1] == "/views/orders@1/keys/a"
    assert driver.targets[2:] == ["/views/orders@1/keys/a?min_offset=2:6"] * 2
    # the next one begins with the current version
    driver.replies += [described(2, "5-2"), value(2, "5-2")]
    with driver.context.session():
        assert driver.call(point.get, "orders", "a").version == 2
    assert driver.targets[-1] == "/views/orders@2/keys/a"


def test_a_broken_stream_resumes_in_its_version() -> None:
    def lines(*keys: str) -> bytes:
        return b"".join(json.dumps({"key": key, "value": 1}).encode() + b"\n" for key in keys)

    first = ScriptedStream([lines("a", "b"), CUT])
    first.headers = {"view-version": "1"}
    driver = orders(first, ScriptedStream([lines("b", "c"), b""]))
    assert [row.key for row in rows(driver, scan.scan, "orders", stream=True)] == ["a", "b", "c"]
    assert [target.partition("?")[0] for target in driver.targets] == [
        "/views/orders/keys", "/views/orders@1/keys",
    ]  # fmt: skip


def test_commands_are_sent_once() -> None:
    for call, arguments, path, body in (
        (view_versions.switch, (2,), "switch", {"version": 2, "force": False}),
        (view_versions.rollback, (), "rollback", {"force": False}),
        (view_versions.drop, (1,), "drop", {"version": 1, "delete_topic": False}),
    ):
        driver = Driver(CUT, ok({"current": 2}))
        with pytest.raises(NoAnswer):
            driver.call(call, "orders", *arguments)
        [request] = driver.requests
        assert (request.method, request.target) == ("POST", f"/views/orders/{path}")
        assert json.loads(request.body or b"") == body


def test_a_refused_switch_has_the_code() -> None:
    driver = Driver(problem(409, "version-not-ready"))
    with pytest.raises(BadRequest) as refused:
        driver.call(view_versions.switch, "orders", 2, max_lag=5)
    assert refused.value.code == "version-not-ready"
    assert json.loads(driver.requests[0].body or b"")["max_lag"] == 5
