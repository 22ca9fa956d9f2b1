"""Findings about topics."""

from __future__ import annotations

from dataclasses import replace

from model.partitioner import partition_of
from model.views_file import parse_views
from queryable.cli.check.topics import (
    check_classes,
    check_partitioner,
    check_records,
    check_retention,
)
from tests.unit.queryable.cli.inspection.records import (
    BOTH,
)


def test_no_advice_on_the_producers_of_changelogs() -> None:
    [view] = parse_views(
        '[views.t]\ntopic = "app-t-changelog"\nkey = "string"\nvalue = "string"\n'
    ).views
    placed_elsewhere = [(1, b"key %d" % n) for n in range(30)]
    finding = check_partitioner(view, 3, placed_elsewhere)
    assert finding.status == "wrong"
    assert "producers" not in finding.action
    assert 'partitioner = "none"' in finding.action
    assert (
        "producers" in check_partitioner(replace(view, topic="orders"), 3, placed_elsewhere).action
    )
    # the topic's retention is not that of the store
    finding = check_retention(view, BOTH)
    assert "application's code" in finding.action
    assert "26h" not in finding.action


def test_a_format_whose_class_is_not_installed_here() -> None:
    [view] = parse_views('[views.t]\ntopic = "t"\nkey = "not_there:Key"\nvalue = "json"\n').views
    [finding] = check_classes(view)
    assert finding.status == "wrong"
    assert finding.message == (
        "[views.t], key: not_there:Key cannot be imported: No module named 'not_there'. Put its "
        "folder on PYTHONPATH"
    )
    assert list(check_records(view, 1, [])) == []


def test_the_empty_key_of_librdkafka_may_be_in_any_partition() -> None:
    source = '[views.t]\ntopic = "t"\nkey = "string"\nvalue = "string"\npartitioner = "crc32"\n'
    [view] = parse_views(source).views
    home = partition_of("crc32")
    placed = [(home(key, 3), key) for key in (b"key %d" % n for n in range(30))]
    anywhere = [(0, b""), (1, b""), (2, b"")]
    assert check_partitioner(view, 3, [*placed, *anywhere]).status == "ok"
    assert check_partitioner(view, 3, anywhere).status == "ok"
    others = replace(view, partitioner="murmur2")
    assert check_partitioner(others, 3, anywhere).status == "wrong"
