"""Names and states of versions of a view."""

from __future__ import annotations

import itertools

import orjson
import pytest

from model.changes.records import fold
from model.problems import ConfigurationError
from model.view_versions import (
    States,
    VersionState,
    ViewVersions,
    decode_record,
    encode_record,
    split_name,
)
from model.views import View
from model.views_file import parse_views


def views(*names: str, **fields: str) -> tuple[View, ...]:
    more = "".join(f'{name} = "{value}"\n' for name, value in fields.items())
    text = "\n".join(
        f'[views."{name}"]\ntopic = "t-{name.replace("@", "-v")}"\nkey = "string"\n'
        f'value = "json"\n{more}'
        for name in names
    )
    return parse_views(text).views


def current(versions: ViewVersions, name: str = "orders") -> int | None:
    view = versions.named.get(name)
    return None if view is None else view.version


def test_an_entry_without_a_version_is_version_1() -> None:
    first, second = views("orders", "orders@2")
    assert (first.name, first.base, first.version) == ("orders", "orders", 1)
    assert (second.name, second.base, second.version) == ("orders@2", "orders", 2)
    # the same view, so its stores are not rebuilt when the entry is renamed
    (renamed,) = views("orders@1")
    assert renamed.name == "orders"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("orders@0", "may only have"),
        ("orders@", "may only have"),
        ("orders@x", "may only have"),
        ("@2", "may only have"),
        ("a@1@2", "may only have"),
    ],
)
def test_other_names_with_an_at_sign_are_refused(text: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        views(text)


def test_views_of_which_others_may_have_versions_are_undecided() -> None:
    """Until the version topic has been read."""
    declared = ViewVersions(views("orders", "orders@2", "users"))
    assert declared.undecided == set()
    doubted = declared.in_doubt()
    assert doubted.undecided == {"orders", "users"}
    assert set(doubted.named) == {"orders@1", "orders@2", "users@1"}
    assert (doubted.with_versions, doubted.state("users")) == ({"orders"}, None)
    known = doubted.with_states({"users": VersionState(2, 1, (), 1)})
    assert known.undecided == {"users"}, "it is not declared here"
    assert current(known) == 1


def test_versions_of_a_view_must_not_share_a_topic_or_a_pipeline() -> None:
    entry = '[views."{}"]\ntopic = "{}"\nkey = "string"\nvalue = "json"\npipeline = "{}"\n'
    with pytest.raises(ConfigurationError, match=r'line 8, .*"a" is the topic of \[views.orders\]'):
        parse_views(entry.format("orders", "a", "p") + "\n" + entry.format("orders@2", "a", "q"))
    with pytest.raises(ConfigurationError, match="has its own pipeline"):
        parse_views(entry.format("orders", "a", "p") + entry.format("orders@2", "b", "p"))
    with pytest.raises(ConfigurationError, match="version 1 is declared by"):
        parse_views(entry.format("orders", "a", "p") + entry.format("orders@1", "b", "q"))


def test_versions_of_a_view_have_one_path() -> None:
    assert [view.path for view in views("orders", "orders@2", path="/o")] == ["/o", "/o"]
    entry = '[views."{0}"]\ntopic = "{1}"\nkey = "string"\nvalue = "json"\npath = "{2}"\n'
    with pytest.raises(ConfigurationError, match="all versions of a view have the same path"):
        parse_views(entry.format("orders", "a", "/o") + entry.format("orders@2", "b", "/p"))
    with pytest.raises(ConfigurationError, match="overlaps"):
        parse_views(entry.format("orders", "a", "/o") + entry.format("other@2", "b", "/o"))


def test_views_must_not_share_a_folder_for_pushes() -> None:
    entry = '[views."{}"]\ntopic = "{}"\nkey = "string"\nvalue = "json"\npush = "{}"\n'
    with pytest.raises(ConfigurationError, match=r"line 10, .*its own folder for pushes"):
        parse_views(
            entry.format("orders", "a", "s3://x/y") + entry.format("orders@2", "b", "s3://x/y/")
        )
    parse_views(entry.format("orders", "a", "s3://x/y") + entry.format("orders@2", "b", "s3://x/z"))


def test_views_to_whose_topic_clients_append_have_the_same_records() -> None:
    """The topic is all that an append names."""
    entry = '[views."{}"]\ntopic = "t"\nkey = "string"\nvalue = "{}"\nappend = "{}"\n{}\n'
    first = entry.format("texts", "string", "on", "")
    for other, more, field in (
        ("json", "", "value"),
        ("string", 'partitioner = "crc32"', "partitioner"),
    ):
        second = entry.format("documents", other, "on", more)
        with pytest.raises(ConfigurationError, match=rf"append.*{field} differs from that of"):
            parse_views(first + second)
        parse_views(first + entry.format("documents", other, "off", more))
    # murmur2 computes the partition if readers cannot
    for more in ('store = "versioned"', 'partitioner = "none"'):
        parse_views(first + entry.format("again", "string", "on", more))


def test_names_are_split() -> None:
    assert split_name("orders") == ("orders", 1)
    assert split_name("orders@12") == ("orders", 12)
    with pytest.raises(ValueError, match="not a view and a version"):
        split_name("orders@02")


def test_the_lowest_version_is_current_until_the_first_switch() -> None:
    versions = ViewVersions(views("orders@2", "orders", "other"))
    assert current(versions) == 1
    assert [current(versions, f"orders@{n}") for n in (1, 2, 3)] == [1, 2, None]
    assert current(versions, "other@1") == 1
    assert versions.with_versions == {"orders"}


def test_a_view_with_versions_is_undecided_until_the_states_are_known() -> None:
    versions = ViewVersions(views("orders", "orders@2", "other"), None)
    assert versions.undecided == {"orders"}
    assert current(versions) is None
    assert [current(versions, name) for name in ("orders@1", "orders@2", "other")] == [1, 2, 1]


def test_switch_rollback_and_drop() -> None:
    versions = ViewVersions(views("orders", "orders@2"))
    state = versions.state("orders")
    assert state is not None
    state = state.switched_to(2)
    assert (state.current, state.previous, state.revision) == (2, 1, 1)
    versions = versions.with_states({"orders": state})
    assert (current(versions), versions.revision) == (2, 1)
    state = state.rolled_back()
    assert (state.current, state.previous, state.revision) == (1, 2, 2)
    state = state.switched_to(2).without(1)
    assert (state.current, state.previous, state.dropped) == (2, None, (1,))
    versions = versions.with_states({"orders": state})
    assert [current(versions, name) for name in ("orders", "orders@1", "orders@2")] == [2, None, 2]
    assert versions.dropped == {"orders"}
    with pytest.raises(ValueError, match="no previous version"):
        state.rolled_back()


def test_a_current_version_that_is_not_declared_here_is_undecided() -> None:
    """An instance with an older views.toml must not answer from the version that it has."""
    versions = ViewVersions(views("orders"), {"orders": VersionState(2, 1, (), 1)})
    assert versions.undecided == {"orders"}
    assert current(versions) is None


def test_of_records_with_one_revision_the_first_counts() -> None:
    """Two commands at the same time: all instances see the same one succeed."""
    states: States = {}
    first, second = VersionState(2, 1, (), 1), VersionState(3, 1, (), 1)
    after = fold(states, "orders", first)
    assert after == {"orders": first}
    assert fold(after, "orders", second) is None
    assert fold(after, "orders", VersionState(3, 2, (), 3)) is None
    assert fold(after, "orders", VersionState(3, 2, (), 2)) == {"orders": VersionState(3, 2, (), 2)}


def test_records_round_trip() -> None:
    state = VersionState(3, 2, (1,), 7)
    assert decode_record(encode_record("orders", state, 5)) == ("orders", state)


def test_a_malformed_record_is_an_error() -> None:
    good = encode_record("orders", VersionState(3, 2, (1,), 7), 5)
    bad = [None, b"", b"[]", b"{}", good * 2, b'"' + b"x" * 200_000 + b'"']
    for field, value in itertools.product(
        ("view", "current", "previous", "dropped", "revision"), ("true", '"1"', "0", "[0]", "-1")
    ):
        document = orjson.loads(good)
        document[field] = orjson.loads(value)
        bad.append(orjson.dumps(document))
    for each in bad:
        if each is not None and b'"view":"1"' in each:
            continue  # a name as any other
        with pytest.raises(ValueError):  # noqa: PT011
            decode_record(each)
