"""Several URLs of one deployment: another one is asked if one does not answer."""

from __future__ import annotations

import pytest

from queryable import BadUse, Client, NoAnswer, Unconfirmed
from queryable.client.protocol.calls.append import append
from queryable.client.protocol.calls.changes import READ_TIMEOUT_S, changes
from queryable.client.protocol.calls.point import get
from queryable.client.protocol.calls.scan import scan
from queryable.client.protocol.transport import TransportError
from queryable.client.settings import client_settings
from tests.support.clients.scripted_transport import (
    BASE,
    CUT,
    LATE,
    REFUSED,
    VALUE,
    ScriptedStream,
    ok,
    orders,
    problem,
    rows,
)

SECOND, THIRD = "http://second", "https://third"
OTHERS = (SECOND, THIRD)
PROCESSED = ok({"partition": 0, "offset": 7})
CHANGE = b'id: 0:7\nevent: value\ndata: {"key":"a","value":1}\n\n'


def test_the_next_url_is_asked_at_once_and_stays_the_first() -> None:
    driver = orders(REFUSED, CUT, VALUE, VALUE, other_urls=OTHERS)
    assert driver.call(get, "orders", "a").value == 1
    assert [each.base_url for each in driver.requests] == [BASE, SECOND, THIRD]
    assert driver.sleeps == []
    assert driver.call(get, "orders", "a").value == 1
    assert driver.requests[-1].base_url == THIRD
    # the time is shared, so a URL that hangs leaves time for the others
    assert [round(each.timeout, 1) for each in driver.requests[:3]] == [3.3, 5.0, 10.0]


def test_a_refusal_is_asked_elsewhere_too() -> None:
    driver = orders(problem(503, "no-topology"), VALUE, VALUE, other_urls=OTHERS)
    assert driver.call(get, "orders", "a").value == 1
    assert [each.base_url for each in driver.requests] == [BASE, SECOND]
    assert driver.call(get, "orders", "a").value == 1
    assert driver.requests[-1].base_url == BASE, "it answers, so it stays the first"


def test_none_answers() -> None:
    driver = orders(*[REFUSED] * 20, other_urls=OTHERS)
    with pytest.raises(NoAnswer):
        driver.call(get, "orders", "a")
    asked = [each.base_url for each in driver.requests]
    assert asked[:6] == [BASE, SECOND, THIRD] * 2, "again in turn"


def test_retries_go_to_the_urls_that_answer() -> None:
    restoring = problem(503, "restoring", retry_after="1")
    driver = orders(restoring, REFUSED, LATE, restoring, restoring, VALUE, other_urls=OTHERS)
    assert driver.call(get, "orders", "a").value == 1
    assert [each.base_url for each in driver.requests] == [BASE, SECOND, THIRD, BASE, BASE, BASE]
    assert len(driver.sleeps) == 3
    # one that hangs leaves time for them
    assert [round(each.timeout, 1) for each in driver.requests[:3]] == [3.3, 3.3, 5.0]
    driver = orders(*[restoring] * 4, CUT, VALUE, other_urls=OTHERS)
    assert driver.call(get, "orders", "a").value == 1
    asked = [each.base_url for each in driver.requests]
    assert asked == [BASE, SECOND, THIRD] * 2, "all in turn"


def test_a_url_with_a_certificate_that_is_not_accepted_is_asked_once() -> None:
    restoring = problem(503, "restoring", retry_after="0")
    refused = TransportError("certificate", may_have_arrived=False, is_final=True)
    driver = orders(restoring, refused, CUT, CUT, VALUE, other_urls=OTHERS)
    assert driver.call(get, "orders", "a").value == 1
    assert [each.base_url for each in driver.requests] == [BASE, SECOND, THIRD, BASE, THIRD]
    driver = orders(*[refused] * 3, other_urls=OTHERS)
    with pytest.raises(NoAnswer):
        driver.call(get, "orders", "a")
    assert len(driver.requests) == 3


def test_a_record_that_may_be_written_is_not_sent_to_another_url() -> None:
    driver = orders(CUT, other_urls=OTHERS)
    with pytest.raises(Unconfirmed):
        driver.call(append, "orders", "a", 1)
    assert len(driver.requests) == 1
    driver = orders(REFUSED, PROCESSED, other_urls=OTHERS)
    assert driver.call(append, "orders", "a", 1).offset == 7
    assert [each.base_url for each in driver.requests] == [BASE, SECOND]


def test_a_local_read_is_sent_once_to_the_first_url() -> None:
    driver = orders(REFUSED, VALUE, VALUE, other_urls=OTHERS)
    assert driver.call(get, "orders", "a").value == 1
    assert driver.call(get, "orders", "a", route="local").value == 1
    assert driver.requests[-1].base_url == BASE
    assert driver.targets[-1] == "/views/orders/keys/a?route=local"
    driver = orders(REFUSED, other_urls=OTHERS)
    with pytest.raises(NoAnswer):
        driver.call(get, "orders", "a", route="local")


def test_urls_are_a_list_or_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ("http://a/, HTTPS://b:1/x/,http://a", ["http://a", "https://b:1/x"]):
        assert client_settings(given, 1, False, None, None).urls == ("http://a", "https://b:1/x")
    monkeypatch.setenv("QUERYABLE_URL", "http://c,http://d")
    assert client_settings(None, 1, False, None, None).urls == ("http://c", "http://d")
    with pytest.raises(BadUse, match="'' is not a valid URL"):
        Client("http://a,")
    with pytest.raises(BadUse, match="at most 8"):
        Client([f"http://h{n}" for n in range(9)])


def test_opening_a_stream_has_a_share_of_the_time() -> None:
    driver = orders(LATE, ScriptedStream([b""]), other_urls=OTHERS, timeout=9.0)
    assert rows(driver, scan, "orders", stream=True) == []
    assert [(each.timeout, each.read_timeout) for each in driver.requests] == [
        (3.0, 9.0),
        (4.5, 9.0),
    ]
    for patience, share in ((1.5, 0.5), (60.0, READ_TIMEOUT_S / 3)):
        driver = orders(ScriptedStream([CHANGE]), other_urls=OTHERS)
        driver.run(driver.call(changes, "orders", "a", patience=patience).next())
        [request] = driver.requests
        assert (request.timeout, request.read_timeout) == (share, READ_TIMEOUT_S)


def test_a_record_that_is_sent_has_all_the_time_for_its_answer() -> None:
    """It is not sent to another URL once it may have arrived. Only connecting has a share."""
    driver = orders(REFUSED, problem(503, "overloaded"), PROCESSED, other_urls=OTHERS, timeout=9.0)
    driver.call(append, "orders", "a", 1)
    assert [(each.timeout, each.connect_timeout) for each in driver.requests] == [
        (9.0, 3.0), (9.0, 4.5), (9.0, 9.0),
    ]  # fmt: skip
    driver = orders(VALUE, other_urls=OTHERS, timeout=9.0)
    driver.call(get, "orders", "a")
    assert [(each.timeout, each.connect_timeout) for each in driver.requests] == [(3.0, None)]
