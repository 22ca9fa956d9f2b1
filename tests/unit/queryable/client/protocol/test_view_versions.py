"""Views with versions: the client follows a switch, and a session stays with its version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from queryable.client.protocol.calls import (
    batch,
    changes,
    metadata,
    point,
    scan,
    time_ranges,
    top,
    view_versions,
)
from queryable.client.protocol.calls.append import append
from queryable.client.protocol.errors import BadRequest, BadUse, NoAnswer, NotFound
from queryable.client.protocol.transport import Response
from tests.support.clients.scripted_transport import (
    CUT,
    ORDERS,
    Driver,
    ScriptedStream,
    ok,
    orders,
    problem,
    rows,
    stream_of,
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
        described(1, "5-1"), value(1, "5-1"), value(2, "5-2"), described(2, "5-2"),
        described(2, "5-2"), value(2, "5-2"), value(2, "5-1"), value(2, "5-2"),
    )  # fmt: skip
    found = [driver.call(point.get, "orders", "a") for _ in range(5)]
    assert [answer.version for answer in found] == [1, 2, 2, 2, 2]
    # once per epoch; an older epoch, of an instance that is behind, means nothing
    assert [target for target in driver.targets if "keys" not in target] == [
        "/views/orders", "/views/orders%402", "/views/orders",
    ]  # fmt: skip
    assert driver.call(metadata.view, "orders").topic == "orders-v2"


def test_a_session_stays_with_its_version() -> None:
    """Offsets in the topic of one version mean nothing in that of another one."""
    again = described(1, "5-2", name="orders@1")
    driver = Driver(described(1, "5-1"), value(1, "5-1"), value(1, "5-2"), again, value(1, "5-2"))
    with driver.context.session() as seen:
        for _ in range(3):
            assert driver.call(point.get, "orders", "a").version == 1
        assert seen.snapshot() == {"orders-v1": {2: 6}}
    assert driver.targets[1] == "/views/orders@1/keys/a"
    read = "/views/orders@1/keys/a?min_offset=2:6"
    # another deployment may have another definition of the version
    assert driver.targets[2:] == [read, "/views/orders%401", read]
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
    driver = Driver(
        described(1, "5-1"), first, ScriptedStream([lines("b", "c"), b""])
    )  # fmt: skip
    assert [row.key for row in rows(driver, scan.scan, "orders", stream=True)] == ["a", "b", "c"]
    assert [target.partition("?")[0] for target in driver.targets[1:]] == [
        "/views/orders/keys", "/views/orders@1/keys",
    ]  # fmt: skip


def switched(answer: Response | ScriptedStream, **second: Any) -> Driver:
    """The client knows version 1 with text; version 2 answers, which is then described."""
    name = second.pop("name", "orders@2")
    described_2 = described(2, "5-2", name=name, **second)
    # a stream is opened again: it is not open while the view is described
    again = [answer] if isinstance(answer, ScriptedStream) else []
    return Driver(described(1, "5-1", value="string"), answer, described_2, *again)


def answer_of(version: int, document: Any) -> Response:
    return ok(document, topology_epoch="5-2", view_version=str(version))


ITEM = {"key": "a", "value": "dGVh"}
PAGE = {"items": [ITEM], "next": None}
LINE = json.dumps(ITEM).encode() + b"\n"


def test_the_first_answer_after_a_switch_has_the_formats_of_its_version() -> None:
    driver = switched(answer_of(2, ITEM), value="bytes")
    assert driver.call(point.get, "orders", "a").value == b"tea"
    assert driver.targets[-1] == "/views/orders%402"
    batched = answer_of(2, {"items": [{"status": 200, **ITEM}]})
    [found] = switched(batched, value="bytes").call(batch.get_many, "orders", ["a"])
    assert found.value == b"tea"
    ranked = switched(answer_of(2, PAGE), value="bytes").call(top.top, "orders", "n")
    assert ranked == [("a", b"tea")]
    for options, answer in ({}, answer_of(2, PAGE)), ({"stream": True}, stream_of(2, LINE, b"")):
        driver = switched(answer, value="bytes")
        assert rows(driver, scan.scan, "orders", **options) == [("a", b"tea")]
    window = {**ITEM, "start": 5, "end": 6, "sequence": 0}
    driver = switched(answer_of(2, {"items": [window], "next": None}), value="bytes")
    [row] = rows(driver, time_ranges.windows, "orders", "a")
    assert row.value == b"tea"
    event = b"id: 2/0:7\nevent: value\ndata: %b\n" % LINE
    driver = switched(stream_of(2, event), value="bytes")
    [change] = driver.run(driver.call(changes.changes, "orders", "a").next())
    assert (change.value, change.offset) == (b"tea", 7)


def test_an_answer_of_the_former_version_has_its_formats() -> None:
    """An instance that is behind answers a client that knows the new version."""
    driver = Driver(
        described(2, "5-2", value="bytes"), answer_of(1, ITEM), described(1, "5-2", value="string")
    )
    assert driver.call(point.get, "orders", "a").value == "dGVh"
    assert driver.targets[-1] == "/views/orders%401"


def test_a_view_that_has_just_got_versions() -> None:
    driver = Driver(ok({**ORDERS, "value": "string"}), answer_of(1, ITEM), described(1, "5-2"))
    assert driver.call(point.get, "orders", "a").value == "dGVh"


def test_a_batch_is_sent_again_if_the_version_has_other_keys() -> None:
    missing = answer_of(2, {"items": [{"status": 404}]})
    driver = Driver(
        described(1, "5-1", key="bytes"), missing,
        described(2, "5-2", name="orders@2", key="json"),
    )  # fmt: skip
    with pytest.raises(BadUse):  # bytes are no JSON
        driver.call(batch.get_many, "orders", [b"tea"])
    driver = Driver(
        described(1, "5-1", key="json"), missing,
        described(2, "5-2", name="orders@2", key="float64"),
        answer_of(2, {"items": [{"status": 200, "value": 7}]}),
    )  # fmt: skip
    [answer] = driver.call(batch.get_many, "orders", [1])
    assert answer.value == 7
    assert driver.targets[-1] == "/views/orders@2/batch"
    assert driver.requests[-1].body == b'{"keys":[1.0]}'


def test_changes_follow_further_switches() -> None:
    first, second = (b"id: %b0:7\nevent: value\ndata: %b\n" % (v, LINE) for v in (b"", b"2/"))
    driver = Driver(
        described(1, "5-1", value="string"),
        stream_of(1), described(1, "5-2", value="string"), stream_of(1, first, b""),
        stream_of(2), described(2, "5-2", name="orders@2", value="bytes"),
        stream_of(2, second, b""),
        stream_of(1, first),
    )  # fmt: skip
    pager = driver.call(changes.changes, "orders", "a")
    found = [driver.run(pager.next())[0].value for _ in range(3)]
    assert found == ["dGVh", b"tea", "dGVh"]
    assert driver.targets[-1] == "/views/orders/keys/a/changes"


def test_a_broken_stream_whose_keys_have_many_texts_is_not_resumed() -> None:
    """It was opened for keys of the former version, which have one text."""
    driver = switched(stream_of(2, LINE, CUT), key="json")
    with pytest.raises(NoAnswer):
        rows(driver, scan.scan, "orders", stream=True)


def appended(driver: Driver, *args: Any) -> tuple[tuple[int, int], list[tuple[str, str, bytes]]]:
    """Where the record was written, and the topics, versions and bodies that were sent."""
    result = driver.call(append, *args)
    sent = [
        (each.target.split("/")[2], (each.headers or {}).get("view-version", ""), each.body or b"")
        for each in driver.requests
        if each.method == "POST"
    ]
    return result, sent


WRITTEN = ok({"partition": 0, "offset": 9})
NOT_CURRENT = problem(409, "version-not-current")


def test_an_append_after_a_switch_is_encoded_again_for_the_current_version() -> None:
    driver = Driver(described(1, "5-1", value="string"), NOT_CURRENT, described(2, "5-2"), WRITTEN)
    result, sent = appended(driver, "orders", "a", "tea")
    assert result == (0, 9)
    assert sent == [
        ("orders-v1", "1", b'{"key":"a","value":"tea"}'),
        ("orders-v2", "2", b'{"key":"a","value":"tea"}'),
    ]
    driver = Driver(
        described(1, "5-1", value="string"), NOT_CURRENT, described(2, "5-2", value="int64")
    )
    with pytest.raises(BadUse):
        driver.call(append, "orders", "a", "tea")


def test_an_append_to_a_topic_that_is_gone_goes_to_the_current_version() -> None:
    gone = problem(404, "no-such-resource")
    driver = Driver(described(1, "5-1"), gone, described(2, "5-2"), WRITTEN)
    assert [topic for topic, *_ in appended(driver, "orders", "a", 1)[1]] == [
        "orders-v1", "orders-v2",
    ]  # fmt: skip
    # a view without versions cannot have another topic
    with pytest.raises(NotFound):
        orders(gone).call(append, "orders", "a", 1)


def test_an_append_is_encoded_again_once() -> None:
    driver = Driver(described(1, "5-1"), NOT_CURRENT, described(2, "5-2"), NOT_CURRENT)
    with pytest.raises(BadRequest, match="version-not-current"):
        driver.call(append, "orders", "a", 1)
    # instances learn of a switch one after the other, within milliseconds
    assert len(driver.sleeps) == 1


def test_an_instance_that_does_not_know_the_version_yet_is_asked_again() -> None:
    driver = Driver(described(2, "5-2"), problem(503, "version-unknown", retry_after="1"), WRITTEN)
    assert len(appended(driver, "orders", "a", 1)[1]) == 2


def test_an_append_to_a_named_version_is_for_no_other() -> None:
    driver = Driver(described(1, "5-2", name="orders@1"), WRITTEN)
    assert appended(driver, "orders@1", "a", 1)[1] == [
        ("orders-v1", "", b'{"key":"a","value":1}'),
    ]  # fmt: skip


def test_a_session_does_not_write_to_another_version_than_it_has_read() -> None:
    driver = Driver(described(1, "5-1"), value(1, "5-1"), NOT_CURRENT)
    with driver.context.session():
        driver.call(point.get, "orders", "a")
        with pytest.raises(BadRequest, match="version-not-current"):
            driver.call(append, "orders", "a", 1)
    # one that has read nothing begins with the current version
    driver = Driver(described(1, "5-1"), NOT_CURRENT, described(2, "5-2"), WRITTEN, value(2, "5-2"))
    with driver.context.session() as seen:
        assert [version for _, version, _ in appended(driver, "orders", "a", 1)[1]] == ["1", "2"]
        assert driver.call(point.get, "orders", "a").version == 2
        assert seen.snapshot()["orders-v2"] == {0: 9, 2: 6}
    assert driver.targets[-1] == "/views/orders@2/keys/a?min_offset=0:9"


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


def test_a_client_waits_for_an_instance_that_waits() -> None:
    for wait, seconds in ((None, 10), (3, 13), (50, 60)):
        driver = Driver(ok({"current": 2}))
        driver.call(view_versions.switch, "orders", 2, wait=wait)
        [request] = driver.requests
        assert seconds - 1 < request.timeout <= seconds
