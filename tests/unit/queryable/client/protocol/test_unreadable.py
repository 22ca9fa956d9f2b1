"""Values that are not in the view's format: what each call gives."""

from __future__ import annotations

import io
import json

import pytest

from queryable import Entry, Unreadable, ValueUnreadable
from queryable.cli.exit_codes import UNREADABLE, exit_code_of
from queryable.cli.output import Output, write_rows
from queryable.client.dataframes import to_arrow, to_pandas
from queryable.client.protocol.calls import aggregate, batch, changes, count, point, scan, top
from queryable.client.protocol.transport import Response
from queryable.client.typed_views import TypedView
from tests.support.clients.scripted_transport import ScriptedStream, ok, orders, rows

REPORT = {"partition": 3, "offset": 9, "reason": "no JSON"}
VALUE = Unreadable(3, 9, "no JSON")
PROBLEM = Response(
    406, {}, json.dumps({"code": "value-unreadable", "detail": "A detail.", **REPORT}).encode()
)  # fmt: skip
ITEMS = {"items": [{"key": "a", "value": 1}, {"key": "b", "unreadable": REPORT}], "next": None}


def test_a_read_of_the_key_raises_and_is_not_retried() -> None:
    driver = orders(PROBLEM)
    with pytest.raises(ValueUnreadable) as raised:
        driver.call(point.get, "orders", "b")
    assert (raised.value.status, raised.value.code) == (406, "value-unreadable")
    assert raised.value.more == REPORT
    assert exit_code_of(raised.value) == UNREADABLE == 4


def test_a_batch_has_the_values_of_the_others() -> None:
    item = {"key": "b", "status": 406, "code": "value-unreadable", "unreadable": REPORT}
    answers = orders(ok({"items": [{"key": "a", "status": 200, "value": 1}, item]})).call(
        batch.get_many, "orders", ["a", "b"]
    )
    assert [(each.found, each.value) for each in answers] == [(True, 1), (True, VALUE)]


def test_rows() -> None:
    driver = orders(ok(ITEMS))
    assert rows(driver, scan.scan, "orders") == [Entry("a", 1), Entry("b", VALUE)]


def test_changes() -> None:
    data = json.dumps({"key": "b", "unreadable": REPORT}).encode()
    driver = orders(ScriptedStream([b"id: 3:9\nevent: unreadable\ndata: %b\n\n" % data]))
    pager = driver.call(changes.changes, "orders", "b")
    [change] = driver.run(pager.next())
    assert (change.value, change.is_deleted, change.offset) == (VALUE, False, 9)


def test_numbers() -> None:
    counted = orders(ok({"count": 5, "exact": True, "unreadable": 2})).call(count.count, "orders")
    assert (counted.count, counted.unreadable) == (5, 2)
    assert orders(ok({"count": 5, "exact": True})).call(count.count, "orders").unreadable == 0
    ranking = orders(ok({"items": [], "unreadable": 2})).call(top.top, "orders", "n")
    assert ranking.unreadable == 2
    groups = orders(ok({"items": [], "unreadable": 2})).call(aggregate.aggregate, "orders")
    assert groups.unreadable == 2


def test_a_view_with_types_raises() -> None:
    item = {"key": "b", "status": 406, "code": "value-unreadable", "unreadable": REPORT}
    driver = orders(ok({"items": [item]}))
    with pytest.raises(ValueUnreadable, match="no JSON"):
        TypedView(driver, "orders", str, int).get_many(["b"])


def test_frames_have_the_reason() -> None:
    found = [Entry("a", {"n": 1, "unreadable": "field"}), Entry("b", VALUE)]
    table = to_arrow(found)
    assert table["unreadable"].to_pylist() == [None, "no JSON"]
    assert table["value.unreadable"].to_pylist() == ["field", None]
    assert table["n"].to_pylist() == [1, None]
    assert list(to_pandas(found)["unreadable"])[1] == "no JSON"
    assert "unreadable" not in to_arrow([Entry("a", 1)]).column_names


@pytest.mark.parametrize("output", [Output.JSON, Output.CSV, Output.TABLE, Output.VERTICAL])
def test_rows_of_the_command_line_name_it(
    output: Output, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Entry("a", 1)._asdict(), Entry("b", VALUE)._asdict()]
    assert write_rows(found, output) == 2
    shown = capsys.readouterr()
    assert "no JSON" in shown.out
    assert shown.err == "1 value is not in the view's format, and cannot be read\n"
    if output is Output.JSON:
        lines = list(map(json.loads, io.StringIO(shown.out)))
        assert lines == [{"key": "a", "value": 1}, {"key": "b", "unreadable": REPORT}]
