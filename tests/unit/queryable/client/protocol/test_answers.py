"""Answers: their source, and missing keys."""

from __future__ import annotations

from datetime import timedelta

import pytest

from queryable import BadUse, NotFound
from queryable.client.protocol.calls import append, batch, point, top
from tests.support.clients.scripted_transport import (
    VALUE,
    Driver,
    ok,
    orders,
    problem,
)


def test_answer_has_its_source() -> None:
    answer = orders(VALUE).call(point.get, "orders", "a")
    assert (answer.key, answer.value, answer.found) == ("a", 1, True)
    assert (answer.partition, answer.position, answer.lag) == (2, 7, 0)
    assert answer.staleness is None
    assert (answer.served_by, answer.instances, answer.is_standby) == ("b1", ("b1",), False)
    assert (answer.pipeline_lag, answer.pipeline_staleness, answer.pipeline_state) == (None,) * 3
    derived = ok({"key": "a", "value": 1}, pipeline_lag="4", pipeline_staleness="1500",
                 pipeline_state="stopped")  # fmt: skip
    answer = orders(derived).call(point.get, "orders", "a")
    assert (answer.pipeline_lag, answer.pipeline_state) == (4, "stopped")
    assert answer.pipeline_staleness == timedelta(seconds=1.5)


@pytest.mark.parametrize(
    ("header", "instances", "is_standby"),
    [
        ("b1; standby", ("b1",), True),
        ("b2; active, b1; standby, b1; active", ("b2", "b1"), True),
        ("b2; active, b1; active, +3", ("b2", "b1"), False),
        ("b2; active, older", ("b2", "older"), False),
    ],
)
def test_answer_lists_all_instances(
    header: str, instances: tuple[str, ...], is_standby: bool
) -> None:
    response = ok({"key": "a", "value": 1}, lag="0", served_by=header)
    answer = orders(response).call(point.get, "orders", "a")
    assert (answer.served_by, answer.instances) == (instances[0], instances)
    assert answer.is_standby is is_standby


def test_answer_without_served_by_has_no_instance() -> None:
    answer = orders(ok({"key": "a", "value": 1})).call(point.get, "orders", "a")
    assert (answer.served_by, answer.instances, answer.is_standby) == (None, (), False)


def test_missing_key_is_not_an_error_but_missing_view_is() -> None:
    driver = orders(problem(404, "key-not-found", partition="1", offset="3"))
    answer = driver.call(point.get, "orders", "a")
    assert not answer
    assert (answer.value, answer.position) == (None, 3)
    with pytest.raises(NotFound) as raised:
        Driver(problem(404, "view-not-found")).call(point.get, "nothing", "a")
    assert raised.value.code == "view-not-found"
    with pytest.raises(NotFound):
        orders(problem(404, "view-not-found")).call(point.get, "orders", "a")


def test_a_view_without_a_name_is_not_asked_for() -> None:
    driver = Driver()
    for call in (point.get, batch.get_many, append.append):
        with pytest.raises(BadUse, match="The name of the view is empty"):
            driver.call(call, "", "a")


def test_ranking_has_its_source() -> None:
    response = ok({"items": [{"key": "a", "value": 2}]}, lag="3", served_by="b1; active")
    ranking = orders(response).call(top.top, "orders", "n")
    assert ranking == [("a", 2)]
    assert (ranking.source.lag, ranking.source.served_by) == (3, "b1")
