"""Findings about changelogs."""

from __future__ import annotations

from model.times import DAY
from model.views import View
from model.views_file import parse_views
from queryable.cli.check.changelogs import check_changelog, check_deleted_records
from queryable.cli.inspection.samples import SampledRecord, TopicSample
from tests.unit.queryable.cli.inspection.records import (
    BOTH,
    COMPACT,
    HOUR,
    NOW,
    SUBSCRIPTION,
    record,
    record_in,
    sample_of,
    sessions,
    windows,
)


def changelog_check(view: View, config: dict[str, str], records: list[SampledRecord]) -> str:
    result = check_changelog(view, config, TopicSample(records, [(0, len(records))]))
    return "\n".join(each.line() for each in result)


def test_wrong_kind_of_store_and_other_findings_of_changelogs() -> None:
    [window, totals] = parse_views(
        '[views.w]\ntopic = "app-w-changelog"\nkey = "string"\nvalue = "string"\n'
        'store = "window"\n'
        '[views.t]\ntopic = "app-t-changelog"\nkey = "string"\nvalue = "string"\n'
    ).views
    assert 'set store = "session"' in changelog_check(window, BOTH, sessions([b"a"]))
    assert changelog_check(window, BOTH, windows(HOUR, HOUR, [b"a"])) == ""
    assert "internal format" in changelog_check(
        totals, COMPACT, [record(SUBSCRIPTION[0], value=SUBSCRIPTION[1])]
    )
    several = [record_in(b"a", n) for n in range(2)]
    assert "ambiguous-key" in changelog_check(totals, COMPACT, several)
    [everywhere] = parse_views(
        '[views.g]\ntopic = "app-t-changelog"\nkey = "string"\nvalue = "string"\nstore = "global"\n'
    ).views
    plain = [record(b"a"), record(b"b")]
    assert changelog_check(everywhere, COMPACT, plain) == ""
    assert 'set store = "session"' in changelog_check(everywhere, BOTH, sessions([b"a"]))
    [finding] = list(check_deleted_records(window, BOTH, sample_of([], [(7, 7)]), NOW))
    assert finding.status == "wrong"
    [finding] = list(check_deleted_records(window, BOTH, sample_of([NOW], [(0, 7)]), NOW + 9 * DAY))
    assert finding.status == "warning"
