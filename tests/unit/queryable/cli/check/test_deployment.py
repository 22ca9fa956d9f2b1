"""Findings about the views file."""

from __future__ import annotations

from pathlib import Path

import pytest

from queryable.cli.check.deployment import check_deployment
from tests.support.deployment import views_toml


def test_a_mistake_in_a_derived_view_is_found_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "views.toml"
    file.write_text(
        '[views.hosts.derive]\nfrom = "weblog"\nfields = { client = "string" }\n'
        'key = "client"\nsum = "client"\n'
    )
    finding = next(check_deployment(file, "127.0.0.1:1", sample_size=1, timeout=0.1))
    assert finding.status == "wrong"
    assert 'line 5, [views.hosts.derive], sum: "client" is a string' in finding.message


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        ('count = true\nwindow = "1m"\ntime = "at"', "window"),
        ('count = true\nidentity = ["client", "at"]\ntime = "at"\nsession = "1m"',
         "session and identity"),
        ('count = true\nwindow = "1m"\ntime = "at"\nlateness = "1d"', None),
        ('count = true\nwindow = "1m"', None),  # no event is older than its record
        ('time = "at"\npoints = true', None),
        ('count = true\ntime = "at"', None),
    ],
)  # fmt: skip
def test_state_that_is_kept_for_old_events_is_named(
    shape: str, rows: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "views.toml"
    fields = 'fields = { client = "string", at = "time" }'
    file.write_text(f'[views.x.derive]\nfrom = "t"\n{fields}\nkey = "client"\n{shape}\n')
    messages = [
        f.message for f in check_deployment(file, "127.0.0.1:1", 1, 0.1) if f.status == "ok"
    ]
    found = [message for message in messages if "keeps the state" in message]
    assert len(found) == (rows is not None)
    assert all(f"of each {rows}, because" in message for message in found)


@pytest.mark.parametrize("field", ["key", "value", "store"])
def test_a_class_that_cannot_be_imported_is_found_without_a_broker(
    field: str, tmp_path: Path
) -> None:
    fields = {"topic": "orders", "key": "string", "value": "json", "persistence": "memory"}
    file = tmp_path / "views.toml"
    file.write_text(views_toml(orders={**fields, field: "not.there:C"}))
    found = [f for f in check_deployment(file, "127.0.0.1:1", 1, 0.1) if f.subject == "view orders"]
    assert [(finding.status, finding.message) for finding in found] == [
        (
            "wrong",
            f"[views.orders], {field}: not.there:C cannot be imported: No module named 'not'. Put "
            "its folder on PYTHONPATH",
        )
    ]


def test_one_view_is_not_a_plural(tmp_path: Path) -> None:
    file = tmp_path / "views.toml"
    for views, expected in (({"a": {}}, "1 view"), ({"a": {}, "b": {}}, "2 views")):
        file.write_text(views_toml(**{name: {"topic": name} for name in views}))
        finding = next(check_deployment(file, "127.0.0.1:1", 1, 0.1))
        assert finding.message == f"{file} declares {expected}"
