"""Which requests are retried, when, and how often."""

from __future__ import annotations

import pytest

from queryable import (
    BadRequest,
    NoAnswer,
    OutsideHistory,
    ServerError,
    TooManyRequests,
    Unavailable,
)
from queryable.client.protocol.calls import point
from queryable.client.protocol.requests import MAX_ATTEMPTS
from queryable.client.protocol.transport import Response, TransportError
from tests.support.clients.scripted_transport import (
    CUT,
    LATE,
    REFUSED,
    VALUE,
    Driver,
    orders,
    problem,
)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(400, "bad-parameter"), BadRequest),
        (problem(406, "not-acceptable"), BadRequest),
        (problem(410, "outside-history"), OutsideHistory),
        (problem(429, "quota-exceeded", retry_after="7"), TooManyRequests),
        (problem(500, "internal-error"), ServerError),
        (Response(500, {}, b"<html>"), ServerError),
        (problem(503, "repartitioned", retry_after="1", retry_elsewhere="no"), Unavailable),
    ],
)
def test_final_errors_are_not_retried(answer: Response, kind: type[Exception]) -> None:
    driver = orders(answer)
    with pytest.raises(kind):
        driver.call(point.get, "orders", "a")
    assert len(driver.requests) == 1


def test_too_many_requests_say_when_to_retry() -> None:
    driver = orders(problem(429, "quota-exceeded", retry_after="7"))
    with pytest.raises(Unavailable) as raised:
        driver.call(point.get, "orders", "a")
    assert (raised.value.status, raised.value.retry_after) == (429, 7.0)


def test_503_is_retried_after_the_time_in_retry_after() -> None:
    driver = orders(problem(503, "catching-up", retry_after="1"), VALUE)
    assert driver.call(point.get, "orders", "a").value == 1
    [seconds] = driver.sleeps
    assert 1 <= seconds <= 1.25


def test_503_is_not_retried_before_the_time_in_retry_after() -> None:
    later = problem(503, "catching-up", retry_after="5")
    driver = orders(*[later] * 2, VALUE, timeout=30.0)
    assert driver.call(point.get, "orders", "a").value == 1
    assert all(5 <= seconds <= 6.25 for seconds in driver.sleeps)
    driver = orders(later, timeout=4.0)
    with pytest.raises(Unavailable) as raised:
        driver.call(point.get, "orders", "a")
    assert raised.value.retry_after == 5.0, "there is no time for a retry"


def test_reported_error_is_raised_rather_than_a_later_timeout() -> None:
    driver = orders(problem(503, "not-up-to-offset", retry_after="1"), *[CUT] * 9, timeout=1.6)
    with pytest.raises(Unavailable, match="not-up-to-offset"):
        driver.call(point.get, "orders", "a")
    assert len(driver.requests) > 1


@pytest.mark.parametrize(
    ("failures", "text"),
    [([CUT, LATE], "cut"), ([LATE, CUT], "cut"), ([REFUSED, CUT], "cut"), ([LATE], "in time")],
)
def test_the_reason_tells_more_than_a_later_timeout(
    failures: list[TransportError], text: str
) -> None:
    """The last attempt has only the time that is left."""
    driver = orders(*failures, *[LATE] * 20)
    with pytest.raises(NoAnswer, match=text):
        driver.call(point.get, "orders", "a")
    assert len(driver.requests) > len(failures)


def test_connection_errors_are_retried_soon() -> None:
    driver = orders(CUT, REFUSED, VALUE)
    assert driver.call(point.get, "orders", "a").value == 1
    assert len(driver.sleeps) == 2
    assert sum(driver.sleeps) < 0.2


def test_timeout_includes_all_retries() -> None:
    driver = orders(*[problem(503, "nobody", retry_after="1")] * 20, timeout=3.0)
    with pytest.raises(Unavailable) as raised:
        driver.call(point.get, "orders", "a")
    assert raised.value.code == "nobody"
    assert driver.now <= 103.0
    assert all(request.timeout <= 3.0 for request in driver.requests)
    assert driver.requests[-1].timeout <= 3.0 - sum(driver.sleeps) + 1e-9


def test_number_of_attempts_is_limited() -> None:
    driver = orders(*[REFUSED] * 20, timeout=1e6)
    with pytest.raises(NoAnswer):
        driver.call(point.get, "orders", "a")
    assert len(driver.requests) <= MAX_ATTEMPTS


def test_calls_share_a_retry_budget() -> None:
    driver = orders(*[REFUSED] * 1000)
    for _ in range(100):
        with pytest.raises(NoAnswer):
            driver.call(point.get, "orders", "a")
    assert len(driver.requests) <= 100 + 11


def test_responses_refill_the_retry_budget() -> None:
    driver = orders()
    while driver.context.budget.spend():
        pass
    driver.replies = [VALUE] * 11
    for _ in range(11):
        driver.call(point.get, "orders", "a")
    driver.replies = [REFUSED, VALUE]
    assert driver.call(point.get, "orders", "a").value == 1


def test_timeout_includes_fetching_the_view() -> None:
    driver = Driver(*[REFUSED] * 20)
    with pytest.raises(NoAnswer):
        driver.call(point.get, "orders", "a", timeout=0.2)
    assert driver.now <= 100.2
