"""Clients that ask holders directly: who is asked when some do not answer, and by which map."""

from __future__ import annotations

import json
from typing import Any

import pytest

from queryable import BadUse, NoAnswer, ServerError
from queryable.core import calls
from queryable.core.core import Core
from queryable.core.effects import Response
from queryable.core.formats import FORMATS
from queryable.core.views import View
from tests.queryable.scripted import BASE, CUT, ORDERS, REFUSED, Driver, ScriptedStream, ok
from tests.queryable.test_core import PROCESSORS, VALUE, orders, rows

B1, B2 = "http://h1:1", "http://h2:2"
# "a" is in one of the first three partitions or in one of the last
ACTIVE_OF_A = orders(ok(PROCESSORS), VALUE, direct=True)
ACTIVE_OF_A.ask(calls.get, "orders", "a")
ACTIVE = ACTIVE_OF_A.asked[-1].base
STANDBY = B2 if ACTIVE == B1 else B1


def told(epoch: str) -> Response:
    return ok({"key": "a", "value": 1}, topology_epoch=epoch)


def map_of(epoch: str) -> Response:
    return ok({**PROCESSORS, "epoch": epoch})


def bases(driver: Driver) -> list[str]:
    return [request.base for request in driver.asked]


def test_a_holder_that_hangs_leaves_the_others_their_time() -> None:
    driver = orders(ok(PROCESSORS), CUT, CUT, VALUE, direct=True, timeout=9.0)
    driver.ask(calls.get, "orders", "a")
    assert [round(request.timeout, 1) for request in driver.asked[1:]] == [3.0, 4.5, 9.0]


def test_who_did_not_answer_is_asked_last_for_a_while() -> None:
    driver = orders(ok(PROCESSORS), REFUSED, VALUE, ok(PROCESSORS), VALUE, VALUE, direct=True)
    for _ in range(3):
        driver.ask(calls.get, "orders", "a")
        driver.now += 0.4
    # the map again, in between
    assert bases(driver) == [BASE, ACTIVE, STANDBY, BASE, STANDBY, STANDBY]
    driver.now += 1
    driver.said = [VALUE]
    driver.ask(calls.get, "orders", "a")
    assert bases(driver)[-1] == ACTIVE


def test_the_next_holder_costs_no_retry() -> None:
    driver = orders(ok(PROCESSORS), direct=True)
    driver.said += [CUT, VALUE, ok(PROCESSORS)] * 100
    driver.core.budget.earn = lambda: None  # type: ignore[method-assign]
    for _ in range(100):
        assert driver.ask(calls.get, "orders", "a").value == 1
        driver.now += 2


def test_the_map_is_asked_of_who_told_of_a_newer_one() -> None:
    driver = orders(map_of("5-1"), told("6-1"), map_of("6-1"), VALUE, direct=True)
    driver.ask(calls.get, "orders", "a")
    driver.now += 1
    driver.ask(calls.get, "orders", "a")
    assert bases(driver) == [BASE, ACTIVE, ACTIVE, ACTIVE]
    assert driver.targets[2] == "/processors"


def test_what_a_map_says_of_other_things_changes_nothing() -> None:
    for more in ({}, {"max_key_bytes": 10}, {"max_key_bytes": None, "of a later version": [1]}):
        driver = orders(ok({**PROCESSORS, **more}), VALUE, direct=True)
        assert driver.ask(calls.get, "orders", "a").value == 1
        assert bases(driver) == [BASE, ACTIVE]


def test_a_lesser_map_is_never_taken() -> None:
    driver = orders(map_of("5-1"), told("7-1"), map_of("6-1"), VALUE, direct=True)
    driver.ask(calls.get, "orders", "a")
    driver.now += 1
    driver.ask(calls.get, "orders", "a")
    driver.said = [map_of("5-1"), VALUE]
    driver.now += 1
    driver.ask(calls.get, "orders", "a")
    core: Core = driver.core
    assert core._topology is not None
    assert core._topology.epoch == (6, 1)


def test_where_the_proxy_is_gone_the_instances_have_the_map_and_the_old_one_will_do() -> None:
    driver = orders(map_of("5-1"), told("6-1"), direct=True)
    driver.ask(calls.get, "orders", "a")
    driver.now += 1
    driver.said = [REFUSED, REFUSED, map_of("6-1"), VALUE]
    driver.ask(calls.get, "orders", "a")
    assert bases(driver)[2:5] == [ACTIVE, BASE, STANDBY]
    driver.said = [told("7-1"), *[REFUSED] * 3, VALUE]
    for _ in range(2):
        assert driver.ask(calls.get, "orders", "a").value == 1
        driver.now += 2
    assert driver.said == []


def test_refusals_of_a_key_of_a_batch_are_of_their_status() -> None:
    item = {"items": [{"key": "a", "status": 500, "code": "store-failed"}]}
    with pytest.raises(ServerError) as found:
        orders(ok(item)).ask(calls.get_many, "orders", ["a"])
    assert found.value.code == "store-failed"


def test_what_a_batch_has_shown_would_be_unknown_to_a_session() -> None:
    driver = orders(VALUE, VALUE)
    with driver.core.session() as seen:
        driver.ask(calls.get_many, "orders", ["a", "b"])
        assert seen.snapshot() == {"orders": {2: 6}}
    assert [request.method for request in driver.asked] == ["GET", "GET"]


@pytest.mark.parametrize("form", ["float64", "uuid", "json", "avro"])
def test_keys_that_cannot_be_named_exactly_come_by_pages(form: str) -> None:
    driver = Driver(ok({**ORDERS, "key": form}), ok({"items": [], "next": None}))
    assert rows(driver, calls.scan, "orders", stream=True) == []
    assert "limit=1000" in driver.targets[1]


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("float64", 10**400),
        ("string", "\ud800"),
        ("json", "\ud800"),
        ("json", {1, 2}),
        ("int32", True),
    ],
)
def test_what_has_no_form_is_bad_use(form: str, value: Any) -> None:
    view = View.of({**ORDERS, "key": form})
    for of in (FORMATS[form].segment, FORMATS[form].written, FORMATS[form].record_bytes):
        with pytest.raises(BadUse):
            of(value)
    with pytest.raises(BadUse):
        Driver(ok(view.description)).ask(calls.get, "orders", value)


def test_what_nginx_refuses_in_a_path_is_base64url() -> None:
    assert FORMATS["string"].segment("a\0b") == ("YQBi", True)
    assert FORMATS["bytes"].segment(b"\0") == ("AA", True)
    assert FORMATS["json"].segment("a\0b") == ("%22a%5Cu0000b%22", False)


def test_a_failing_server_is_asked_for_the_time_of_the_call_alone() -> None:
    driver = Driver(*[REFUSED] * 20)
    with pytest.raises(NoAnswer):
        driver.ask(calls.get, "orders", "a", timeout=0.2)
    assert driver.now <= 100.2


def test_rows_that_are_cut_off_are_no_rows() -> None:
    line = json.dumps({"key": "a", "value": 1}).encode()
    with pytest.raises(ServerError):
        rows(orders(ScriptedStream([line, b""])), calls.scan, "orders", stream=True)
