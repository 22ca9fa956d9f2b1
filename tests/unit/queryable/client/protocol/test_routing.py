"""Direct clients: which instances they ask, and how they follow the topology."""

from __future__ import annotations

import pytest

from queryable.client.protocol.calls import metadata, point
from queryable.client.protocol.context import ClientContext, Settings
from queryable.client.protocol.transport import Response
from queryable.client.settings import client_settings
from tests.support.clients.scripted_transport import (
    BASE,
    CUT,
    ORDERS,
    PROCESSORS,
    REFUSED,
    VALUE,
    Driver,
    ok,
    orders,
)

B1, B2 = "http://h1:1", "http://h2:2"


def active_of_a() -> str:
    driver = orders(ok(PROCESSORS), VALUE, direct=True)
    driver.call(point.get, "orders", "a")
    return driver.requests[-1].base_url


ACTIVE = active_of_a()
STANDBY = B2 if ACTIVE == B1 else B1


def value_with_epoch(epoch: str) -> Response:
    return ok({"key": "a", "value": 1}, topology_epoch=epoch)


def topology_with_epoch(epoch: str) -> Response:
    return ok({**PROCESSORS, "epoch": epoch})


def base_urls(driver: Driver) -> list[str]:
    return [request.base_url for request in driver.requests]


def test_direct_client_asks_the_active_then_a_standby_then_the_proxy() -> None:
    driver = orders(ok(PROCESSORS), REFUSED, CUT, VALUE, direct=True)
    assert driver.call(point.get, "orders", "a").value == 1
    urls = [request.base_url for request in driver.requests]
    assert urls[0] == BASE
    assert sorted(urls[1:3]) == ["http://h1:1", "http://h2:2"]
    assert urls[3] == BASE
    assert driver.sleeps == []


def with_settings(settings: Settings, *replies: Response) -> Driver:
    driver = Driver(ok(ORDERS), *replies)
    driver.context = ClientContext(settings, lambda: driver.now)
    driver.call(metadata.view, "orders")
    driver.requests.clear()
    return driver


@pytest.mark.parametrize(
    ("base", "has_token", "asked"),
    [
        ("https://proxy", True, ["https://proxy"] * 3),
        ("HTTPS://proxy/", True, ["https://proxy"] * 3),
        ("https://proxy", False, ["https://proxy", "http://h", "http://h"]),
        ("http://proxy", True, ["http://proxy", "http://h", "http://h"]),
    ],
)
def test_a_token_for_an_https_url_is_never_sent_by_http(
    base: str, has_token: bool, asked: list[str]
) -> None:
    token = (lambda: "token") if has_token else ""
    settings = client_settings(base, 10.0, True, token, None)
    driver = with_settings(settings, ok(PROCESSORS), VALUE, VALUE)
    for _ in range(2):
        driver.call(point.get, "orders", "a")
    assert [url[: len(each)] for url, each in zip(base_urls(driver), asked, strict=True)] == asked


def test_with_a_token_a_direct_client_uses_the_instances_that_speak_https() -> None:
    processors = [{**each, "scheme": "https"} for each in PROCESSORS["processors"]]  # type: ignore[attr-defined]
    settings = Settings("https://proxy", 10.0, True, lambda: "token")
    driver = with_settings(settings, ok({**PROCESSORS, "processors": processors}), VALUE)
    driver.call(point.get, "orders", "a")
    assert base_urls(driver)[1].startswith("https://h")


def test_direct_client_follows_newer_epochs() -> None:
    newer = {**PROCESSORS, "epoch": "6-1", "processors": PROCESSORS["processors"][1:]}  # type: ignore[index]
    newer_epoch = ok({"key": "a", "value": 1}, topology_epoch="6-1")
    driver = orders(ok(PROCESSORS), newer_epoch, ok(newer), VALUE, direct=True)
    driver.call(point.get, "orders", "a")
    driver.now += 1
    driver.call(point.get, "orders", "a")
    assert driver.targets[2] == "/processors"
    assert driver.requests[3].base_url == "http://h2:2"


def test_hanging_instance_leaves_time_for_the_others() -> None:
    driver = orders(ok(PROCESSORS), CUT, CUT, VALUE, direct=True, timeout=9.0)
    driver.call(point.get, "orders", "a")
    assert [round(request.timeout, 1) for request in driver.requests[1:]] == [3.0, 4.5, 9.0]


def test_failed_instance_is_tried_last_for_a_second() -> None:
    driver = orders(ok(PROCESSORS), REFUSED, VALUE, ok(PROCESSORS), VALUE, VALUE, direct=True)
    for _ in range(3):
        driver.call(point.get, "orders", "a")
        driver.now += 0.4
    # the topology is fetched again between the reads
    assert base_urls(driver) == [BASE, ACTIVE, STANDBY, BASE, STANDBY, STANDBY]
    driver.now += 1
    driver.replies = [VALUE]
    driver.call(point.get, "orders", "a")
    assert base_urls(driver)[-1] == ACTIVE


def test_next_replica_needs_no_retry_budget() -> None:
    driver = orders(ok(PROCESSORS), direct=True)
    driver.replies += [CUT, VALUE, ok(PROCESSORS)] * 100
    driver.context.budget.earn = lambda: None  # type: ignore[method-assign]
    for _ in range(100):
        assert driver.call(point.get, "orders", "a").value == 1
        driver.now += 2


def test_topology_is_fetched_from_the_client_s_own_url() -> None:
    driver = orders(
        topology_with_epoch("5-1"),
        value_with_epoch("6-1"),
        topology_with_epoch("6-1"),
        VALUE,
        direct=True,
    )
    driver.call(point.get, "orders", "a")
    driver.now += 1
    driver.call(point.get, "orders", "a")
    assert base_urls(driver) == [BASE, ACTIVE, BASE, ACTIVE]
    assert driver.targets[2] == "/processors"


def test_unknown_fields_of_the_topology_are_ignored() -> None:
    for more in ({}, {"max_key_bytes": 10}, {"max_key_bytes": None, "of a later version": [1]}):
        driver = orders(ok({**PROCESSORS, **more}), VALUE, direct=True)
        assert driver.call(point.get, "orders", "a").value == 1
        assert base_urls(driver) == [BASE, ACTIVE]


def test_older_topology_is_never_used() -> None:
    driver = orders(
        topology_with_epoch("5-1"),
        value_with_epoch("7-1"),
        topology_with_epoch("6-1"),
        VALUE,
        direct=True,
    )
    driver.call(point.get, "orders", "a")
    driver.now += 1
    driver.call(point.get, "orders", "a")
    driver.replies = [topology_with_epoch("5-1"), VALUE]
    driver.now += 1
    driver.call(point.get, "orders", "a")
    context: ClientContext = driver.context
    assert context._topology.current is not None
    assert context._topology.current.epoch == (6, 1)


def test_topology_comes_from_the_instances_if_the_proxy_is_down() -> None:
    driver = orders(topology_with_epoch("5-1"), value_with_epoch("6-1"), direct=True)
    driver.call(point.get, "orders", "a")
    driver.now += 1
    driver.replies = [REFUSED, REFUSED, topology_with_epoch("6-1"), VALUE]
    driver.call(point.get, "orders", "a")
    assert base_urls(driver)[2:5] == [BASE, ACTIVE, STANDBY]
    # the view is described again, too: at once, and when the instances know of the change
    described = [REFUSED, REFUSED, ok(ORDERS)]
    driver.replies = [value_with_epoch("7-1"), *described * 2, *[REFUSED] * 3, VALUE]
    for _ in range(2):
        assert driver.call(point.get, "orders", "a").value == 1
        driver.now += 2
    assert driver.replies == []


def topology_of(deployment: str, epoch: str, current: str | None, revision: int) -> Response:
    """The instances of `shop-2` have other addresses."""
    processors = [
        {**each, "host": f"{deployment}-{each['host']}"}
        for each in PROCESSORS["processors"]  # type: ignore[index]
    ]
    service = {"name": "shop", "current": current, "previous": None, "revision": revision}
    document = {**PROCESSORS, "epoch": epoch, "processors": processors}
    return ok({**document, "application_id": deployment, "service": service})


def read(driver: Driver, *replies: Response) -> str:
    """Reads a key, and returns the deployment that has answered, or `proxy`."""
    driver.replies += [*replies]
    driver.call(point.get, "orders", "a")
    driver.now += 3
    assert driver.replies == []
    [*_, asked] = [each.base_url for each in driver.requests if "/keys/" in each.target]
    return asked.removeprefix("http://").partition("-h")[0]


def test_a_direct_client_follows_a_switch_of_the_deployment() -> None:
    old = topology_of("shop-1", "9-1", "shop-1", 1)
    driver = orders(old, direct=True)
    assert read(driver, value_with_epoch("9-1")) == "shop-1"
    # a switch makes the epochs of both deployments newer, but they cannot be compared
    described = ok(ORDERS)
    assert read(driver, value_with_epoch("9-2"), described) == "shop-1"
    new = topology_of("shop-2", "7-1", "shop-2", 2)
    assert read(driver, described, new, value_with_epoch("7-1"), described) == "shop-2"
    assert base_urls(driver)[-3] == BASE
    # a rollback
    assert read(driver, described, value_with_epoch("7-2"), described) == "shop-2"
    back = topology_of("shop-1", "9-3", "shop-1", 3)
    assert read(driver, described, back, value_with_epoch("9-3"), described) == "shop-1"
    # and forward again, to lower epochs
    assert read(driver, described, value_with_epoch("9-4"), described) == "shop-1"
    again = topology_of("shop-2", "7-3", "shop-2", 4)
    assert read(driver, described, again, value_with_epoch("7-3"), described) == "shop-2"
    assert read(driver, described, VALUE) == "shop-2"
    assert read(driver, VALUE) == "shop-2"


def test_a_topology_that_is_not_of_the_current_deployment_is_not_used() -> None:
    driver = orders(topology_of("shop-1", "9-1", "shop-1", 1), direct=True)
    assert read(driver, value_with_epoch("9-1")) == "shop-1"
    read(driver, value_with_epoch("9-2"), ok(ORDERS))
    # the proxy is behind: its instance knows that another deployment is current
    left = topology_of("shop-1", "9-2", "shop-2", 2)
    assert read(driver, ok(ORDERS), left, VALUE) == "proxy"
    # an instance that is cut off does not know it
    for unaware in (
        topology_of("shop-1", "9-3", "shop-1", 1),
        topology_of("shop-1", "9-3", None, 0),
    ):
        assert read(driver, unaware, VALUE) == "proxy"
        driver.now += 1
    new = topology_of("shop-2", "7-1", "shop-2", 2)
    assert read(driver, new, VALUE) == "shop-2"
