"""An answer is decoded with the definition that it names, and with no other, while instances and
proxies differ about the deployment or the version that is current."""

from __future__ import annotations

import json
from typing import Any

import pytest

from queryable.client.protocol.calls import batch, changes, point, scan, time_ranges
from queryable.client.protocol.errors import BadRequest, BadUse, NotFound, Unavailable
from queryable.client.protocol.formats import Raw
from queryable.client.protocol.transport import Response
from tests.support.clients.scripted_transport import (
    LATE,
    ORDERS,
    Driver,
    Reply,
    ScriptedStream,
    ok,
    problem,
    rows,
)

# two deployments: the epochs of the former one are greater
FORMER = {"view_definition": "a" * 16, "topology_epoch": "9-1"}
NEXT = {"view_definition": "b" * 16, "topology_epoch": "7-1"}
ITEM = {"key": "a", "value": "dGVh"}


def described(of: dict[str, str], value: str, **fields: Any) -> Response:
    known = {"hash": of["view_definition"]} if "view_definition" in of else {}
    return ok({**ORDERS, **known, "value": value, **fields}, **of)


def answer(of: dict[str, str], document: Any = ITEM, **headers: str) -> Response:
    return ok(document, **{**of, **headers})


def after_a_read(*replies: Reply, **fields: Any) -> Driver:
    """The client knows the former deployment, whose values are text."""
    driver = Driver(described(FORMER, "string", **fields), answer(FORMER))
    driver.call(point.get, "orders", Raw(b"a"))
    driver.requests.clear()
    driver.replies += replies
    return driver


def test_a_description_of_the_other_deployment_is_asked_for_again() -> None:
    """One worker of nginx already asks the next deployment, and another one does not."""
    driver = after_a_read(
        answer(NEXT), described(FORMER, "string"), described(FORMER, "string"),
        described(NEXT, "bytes"),
    )  # fmt: skip
    assert driver.call(point.get, "orders", "a").value == b"tea"
    assert driver.targets == ["/views/orders/keys/a", *["/views/orders"] * 3]
    assert len(driver.sleeps) == 2


def test_a_version_of_the_other_deployment_does_not_decode_the_answer() -> None:
    driver = after_a_read(
        answer(NEXT, view_version="2"), described(FORMER, "string", version=2),
        problem(404, "view-not-found"), described(NEXT, "bytes", version=2), version=1,
    )  # fmt: skip
    assert driver.call(point.get, "orders", "a").value == b"tea"
    assert driver.targets[1:] == ["/views/orders%402"] * 3


def test_an_answer_that_nobody_describes_is_not_decoded() -> None:
    driver = after_a_read(answer(NEXT), *[described(FORMER, "string")] * 20)
    with pytest.raises(Unavailable) as failed:
        driver.call(point.get, "orders", "a")
    assert failed.value.code == "view-changing"
    assert failed.value.retry_after == 1
    assert not failed.value.is_final
    assert 100 < driver.now <= 110
    assert len(driver.requests) <= 12  # each one after the second is a retry


def test_the_deadline_of_the_read_holds_for_its_description() -> None:
    driver = after_a_read(answer(NEXT), *[described(FORMER, "string")] * 20)
    with pytest.raises(Unavailable):
        driver.call(point.get, "orders", "a", timeout=0.3)
    assert driver.now <= 100.3
    driver = after_a_read(answer(NEXT), *[LATE] * 20)
    with pytest.raises(Unavailable, match="no answer in time") as failed:
        driver.call(point.get, "orders", "a", timeout=0.3)
    assert failed.value.code == "view-changing"


def test_the_same_definition_needs_no_new_description() -> None:
    """The instance has another epoch: partitions have moved, or the deployment is another one."""
    driver = after_a_read(answer({**FORMER, "topology_epoch": "9-2"}))
    assert driver.call(point.get, "orders", "a").value == "dGVh"
    assert driver.targets == ["/views/orders/keys/a"]


MOVED = {**FORMER, "topology_epoch": "9-2"}  # the same deployment, after a rebalance


def test_reads_after_a_new_epoch_do_not_fail_if_the_view_cannot_be_described() -> None:
    driver = after_a_read(answer(MOVED), answer(MOVED))
    for _ in range(2):
        assert driver.call(point.get, "orders", "a").value == "dGVh"
    driver = after_a_read(
        answer(MOVED), answer(MOVED, partition="2", offset="7"), answer(MOVED), LATE, LATE
    )
    driver.call(point.get, "orders", "a")
    with driver.context.session():
        for _ in range(2):
            assert driver.call(point.get, "orders", "a").value == "dGVh"
    assert driver.targets[1:] == ["/views/orders/keys/a", "/views/orders/keys/a?min_offset=2:6"]


def test_a_session_does_not_keep_a_description_with_another_topic() -> None:
    """Its offsets mean nothing in the topic of the next deployment, which may not have them."""
    late = problem(503, "not-up-to-offset", retry_after="60", **NEXT)
    driver = after_a_read()
    with driver.context.session():
        driver.replies = [answer(FORMER, partition="2", offset="7"), late]
        driver.call(point.get, "orders", "a")
        with pytest.raises(Unavailable, match="not-up-to-offset"):
            driver.call(point.get, "orders", "a", timeout=1)
        driver.replies = [described(NEXT, "bytes", topic="orders-next"), answer(NEXT)]
        assert driver.call(point.get, "orders", "a").value == b"tea"
    assert driver.targets[-2:] == ["/views/orders", "/views/orders/keys/a"]


def test_answers_that_alternate_need_each_description_once() -> None:
    driver = after_a_read(answer(NEXT), described(NEXT, "bytes"))
    assert driver.call(point.get, "orders", "a").value == b"tea"
    for _ in range(3):
        driver.replies += [answer(FORMER), answer(NEXT)]
        assert driver.call(point.get, "orders", "a").value == "dGVh"
        assert driver.call(point.get, "orders", "a").value == b"tea"
    assert driver.targets.count("/views/orders") == 1


def test_a_key_is_written_again_for_the_definition_that_answers() -> None:
    """In one format, the key of a request may be another key, or no key, in the other format."""
    missing = Response(404, answer(NEXT).headers, problem(404, "key-not-found").body)
    wrong = Response(400, answer(NEXT).headers, problem(400, "key-undecodable").body)
    for refused in (missing, wrong, answer(NEXT, {"key": "another", "value": "eA=="})):
        driver = after_a_read(refused, described(NEXT, "bytes"), answer(NEXT), key="json")
        assert driver.call(point.get, "orders", "a").value == b"tea"
        assert driver.targets == [
            "/views/orders/keys/%22a%22", "/views/orders", "/views/orders/keys/a",
        ]  # fmt: skip
    driver = after_a_read(missing, described(NEXT, "bytes"), missing, key="json")
    assert not driver.call(point.get, "orders", "a")
    driver = after_a_read(missing, described(NEXT, "bytes", key="int64"))
    with pytest.raises(BadUse, match="'a' is not a valid int64"):
        driver.call(point.get, "orders", "a")


def test_the_errors_of_an_answer_with_the_known_definition_are_raised() -> None:
    wrong = Response(400, answer(FORMER).headers, problem(400, "key-undecodable").body)
    with pytest.raises(BadRequest, match="key-undecodable"):
        after_a_read(wrong).call(point.get, "orders", "a")
    gone = problem(404, "view-not-found", topology_epoch="9-5")
    with pytest.raises(NotFound):
        after_a_read(gone).call(point.get, "orders", "a")


def test_bounds_are_written_again_for_the_definition_that_answers() -> None:
    page = answer(NEXT, {"items": [ITEM], "next": None})
    driver = after_a_read(page, described(NEXT, "bytes"), page, key="json")
    assert rows(driver, scan.scan, "orders", from_="a") == [("a", b"tea")]
    assert driver.targets[-1].startswith("/views/orders/keys?from=a&")
    # without a bound, the request is the same
    driver = after_a_read(page, described(NEXT, "bytes"), key="json")
    assert rows(driver, scan.scan, "orders") == [("a", b"tea")]
    window = {**ITEM, "start": 5, "end": 6, "sequence": 0}
    page = answer(NEXT, {"items": [window], "next": None})
    driver = after_a_read(page, described(NEXT, "bytes"), page, key="json")
    [row] = rows(driver, time_ranges.windows, "orders", "a")
    assert (row.key, row.value) == ("a", b"tea")
    assert driver.targets[-1].startswith("/views/orders/keys/a/windows?")


def stream(of: dict[str, str], *chunks: bytes) -> ScriptedStream:
    result = ScriptedStream([*chunks])
    result.headers = answer(of).headers
    return result


def test_streams_are_opened_again_for_the_definition_that_answers() -> None:
    line = json.dumps(ITEM).encode() + b"\n"
    asked, again = stream(NEXT), stream(NEXT, line, b"")
    driver = after_a_read(asked, described(NEXT, "bytes"), again)
    assert rows(driver, scan.scan, "orders", stream=True, from_="a") == [("a", b"tea")]
    assert asked.is_closed
    asked, again = stream(NEXT), stream(NEXT)
    driver = after_a_read(asked, described(NEXT, "bytes", key="bytes"), again)
    with pytest.raises(BadUse, match="'a' is not a valid bytes"):
        rows(driver, scan.scan, "orders", stream=True, from_="a")
    assert asked.is_closed
    assert again.is_closed
    event = b"id: 0:7\nevent: value\ndata: %b\n" % line
    driver = after_a_read(
        stream(NEXT), described(NEXT, "bytes"), stream(NEXT), stream(NEXT, event), key="json"
    )
    [change] = driver.run(driver.call(changes.changes, "orders", "a").next())
    assert (change.key, change.value) == ("a", b"tea")
    assert driver.targets[-1] == "/views/orders/keys/a/changes"


def test_a_page_after_a_change_of_the_keys_is_not_mixed_with_others() -> None:
    """The rows that the caller has are those of other keys, and so are the bounds."""
    first = answer(FORMER, {"items": [ITEM], "next": "c"})
    page = answer(NEXT, {"items": [ITEM], "next": None})
    driver = after_a_read(first, page, described(NEXT, "bytes"), key="json")
    pager = driver.call(scan.scan, "orders", from_="a")
    assert driver.run(pager.next()) == [("a", "dGVh")]
    with pytest.raises(Unavailable, match="view-changing"):
        driver.run(pager.next())


def test_a_batch_is_not_sent_again_and_again() -> None:
    one, other = ({"items": [{"status": 404}]} for _ in range(2))
    driver = after_a_read(answer(NEXT, one), described(NEXT, "string", key="json"))
    driver.replies += [answer(FORMER, other), answer(NEXT, one)] * 10
    with pytest.raises(Unavailable, match="view-changing"):
        driver.call(batch.get_many, "orders", ["a"])
    assert len(driver.requests) < 10


def test_instances_that_name_no_definition_are_compared_by_epoch() -> None:
    """Those of the release before."""
    former, later = {"topology_epoch": "9-1"}, {"topology_epoch": "7-1"}
    driver = Driver(described(former, "string"), answer(later), described(former, "string"))
    assert driver.call(point.get, "orders", "a").value == "dGVh"  # the formats are the same
    driver = Driver(
        described(former, "string"), answer({"topology_epoch": "9-2"}), described(later, "bytes"),
        described({"topology_epoch": "9-2"}, "string"),
    )  # fmt: skip
    assert driver.call(point.get, "orders", "a").value == "dGVh"
