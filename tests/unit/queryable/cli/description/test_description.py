"""What `queryable describe` computes."""

from __future__ import annotations

from typing import Any

import pytest

from queryable.cli.description.fields import field_rows
from queryable.cli.description.state import ViewState, bytes_text, state_lines


def test_the_schema_seen() -> None:
    values = [{"n": 1, "of": {"city": "A"}}, {"n": 1.5, "of": {"city": None}, "tags": ["x"]}]
    rows = {row["field"]: row for row in field_rows(values)}
    assert {name: (row["type"], row["in"], row["example"]) for name, row in rows.items()} == {
        ".n": ("integer or number", "2/2", "1"),
        ".of.city": ("string or null", "2/2", "A"),
        ".tags": ("list", "1/2", '["x"]'),
    }
    assert field_rows([True, 17]) == [
        {"field": "value", "type": "boolean or integer", "in": "2/2", "example": "true"}
    ]
    assert field_rows([]) == []
    assert len(field_rows([{f"f{n}": n for n in range(1000)}])) == 100


def document(made_at: int, position: int, lag: int | None = 2) -> dict[str, Any]:
    placement = [
        {"position": position, "lag": lag, "entries": 10, "size_bytes": 1500, "dead_letters": 1,
         "answered_by": ["b1"]},
        {"state": "nobody", "position": 0, "lag": 0},
    ]  # fmt: skip
    return {"made_at": made_at, "views": [{"name": "orders@2", "current": True,
                                           "placement": placement}]}  # fmt: skip


def test_sums_and_rates() -> None:
    before = ViewState.from_document("orders", document(1000, 50))
    after = ViewState.from_document("orders@2", document(3000, 150))
    assert before is not None
    assert after is not None
    assert state_lines(after.document(before)) == {
        "entries": "about 10",
        "size": "1.5 kB",
        "answerable": "1 partitions",
        "lag": "2 records",
        "dead letters": "1",
        "rates": "50.0 records/s read from the topic",
    }
    assert after.document(None)["records_per_second"] is None
    unknown = ViewState.from_document("orders", document(1000, 50, lag=None))
    assert unknown is not None
    lines = state_lines(unknown.document(before) | {"job_records_per_second": 7.25})
    assert lines["lag"] == "unknown"
    assert lines["rates"] == "not measured, 7.2 records/s read by the job"
    job = {"job_seconds_left": 7300.0, "rebuild_seconds": 130.0, "job_records_per_second": 9}
    lines = state_lines(unknown.document(before) | job)
    assert lines["job done in"] == "about 2 h"
    assert lines["rebuild takes"] == "about 2 min"
    assert ViewState.from_document("others", document(1000, 50)) is None


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (2_500_000, "2.5 MB"),
                                            (3 * 10**15, "3000.0 TB")])  # fmt: skip
def test_sizes(size: int, text: str) -> None:
    assert bytes_text(size) == text
