"""Names and paths mean the same on all instances of a group, whatever their files say."""

from __future__ import annotations

import itertools

import pytest

from model.group_views import Claim, GroupViews, contested, decide, leading
from model.view_versions import VersionState, ViewVersions
from model.views import View
from tests.support.in_process.examples import view

ORDERS = view("orders", path="/o", topic="orders")
SECOND = view("orders@2", path="/o", topic="orders-v2")


def group(*views: View, **decided: str) -> GroupViews:
    """`decided`: without the slash of the paths."""
    return GroupViews(
        {view.name: view.hash for view in views},
        {view.name: view.path for view in views if view.path is not None},
        {f"/{path}": base for path, base in decided.items()},
    )


def claims(*texts: str) -> list[Claim]:
    return [Claim(*text.split("=")) for text in texts]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (["/a=x", "/b=y", "/ab=z"], []),
        (["/a=x", "/a=x"], []),
        (["/a=x", "/a=y", "/b=z"], ["/a=x", "/a=y"]),
        (["/a=x", "/a/b/c=y", "/a/b/d=x"], ["/a=x", "/a/b/c=y"]),
        (["/a/b=x", "/a=y", "/a/c=z"], ["/a/b=x", "/a=y", "/a/c=z"]),
    ],
)
def test_paths_that_overlap_with_one_of_another_view_are_contested(
    of: list[str], expected: list[str]
) -> None:
    for order in itertools.permutations(of):
        assert contested(claims(*order)) == set(claims(*expected))


def test_the_view_that_has_had_a_path_for_longest_keeps_it() -> None:
    old, new, other = claims("/a=z", "/a=b", "/c=d")
    for order in itertools.permutations([(old, 5), (new, 7), (other, 1)]):
        assert decide(dict(order)) == {"/a": "z"}
    assert decide({old: 7, new: 5}) == {"/a": "b"}
    assert decide({old: 5, new: 5}) == {"/a": "b"}, "in some order that all instances know"
    below, above = claims("/a/b=x", "/a=y")
    assert decide({below: 1, above: 2}) == {"/a/b": "x"}
    assert decide({below: 2, above: 1}) == {"/a": "y"}


def test_a_contested_path_leads_nowhere_until_that_is_decided() -> None:
    of = claims("/a=x", "/a=y", "/b=y")
    assert leading(of, {}) == {"/b": "y"}
    assert leading(of, {"/a": "y"}) == {"/a": "y", "/b": "y"}
    assert leading(of, {"/a": "gone"}) == {"/b": "y"}


def test_a_version_that_only_others_declare_has_no_path() -> None:
    versions = ViewVersions((ORDERS,)).in_group(group(SECOND, ORDERS))
    assert versions.named == {"orders": ORDERS, "orders@1": ORDERS}
    assert versions.elsewhere == {"orders@2": "orders@2"}
    assert versions.leads_to == {"/o": "orders"}
    assert versions.with_versions == {"orders"}


def test_without_a_switch_the_lowest_version_of_the_group_is_current() -> None:
    later = ViewVersions((SECOND,))
    assert later.named["orders"] is SECOND
    together = later.in_group(group(ORDERS, SECOND))
    assert together.elsewhere == {"orders": "orders", "orders@1": "orders"}
    assert together.current == {"orders": "orders"}
    assert together.in_group(group(SECOND)).named["orders"] is SECOND


def test_a_current_version_that_only_others_declare_is_elsewhere() -> None:
    states = {"orders": VersionState(2, 1, (), 1)}
    versions = ViewVersions((ORDERS,), states)
    assert versions.undecided == {"orders"}
    known = versions.in_group(group(ORDERS, SECOND))
    assert (known.undecided, known.elsewhere["orders"]) == (set(), "orders@2")
    doubted = known.in_doubt()
    assert doubted.undecided == {"orders"}
    assert set(doubted.elsewhere) == {"orders@2"}


def test_another_definition_than_that_of_the_group_is_not_used() -> None:
    other = view("orders", path="/o", topic="another")
    versions = ViewVersions((other,)).in_group(group(ORDERS))
    assert versions.named == {}
    assert versions.elsewhere == {"orders": "orders", "orders@1": "orders"}
    assert not versions.is_here(other)
    assert versions.in_group(group(other)).named["orders"] is other


def test_a_path_of_the_own_file_alone_is_undecided() -> None:
    """The group has not taken it over yet, or has given it to another view."""
    new = view("orders", path="/new", topic="orders")
    versions = ViewVersions((new,)).in_group(group(ORDERS))
    assert versions.leads_to == {"/o": "orders"}
    assert versions.undecided_paths == {"/new"}
    moved = ViewVersions((new,)).in_group(group(view("other", path="/new", topic="o"), ORDERS))
    assert (moved.leads_to["/new"], moved.undecided_paths) == ("other", set())


def test_a_contested_path_is_undecided_without_the_leader() -> None:
    """Leaders of older versions do not decide."""
    other = view("other", path="/o", topic="other")
    for own in ((ORDERS,), (other,), (ORDERS, SECOND)):
        versions = ViewVersions(own).in_group(group(ORDERS, other))
        assert (versions.leads_to, versions.undecided_paths) == ({}, {"/o"})
        assert versions.paths == {}
        decided = ViewVersions(own).in_group(group(ORDERS, other, o="other"))
        assert (decided.leads_to, decided.undecided_paths) == ({"/o": "other"}, set())
        assert decided.paths == {"other": "/o"}


def test_a_dropped_version_claims_no_path() -> None:
    moved, other = view("orders@2", path="/new", topic="b"), view("other", path="/o", topic="c")
    states = {"orders": VersionState(2, None, (1,), 2)}
    versions = ViewVersions((moved, other), states).in_group(group(ORDERS, moved, other))
    assert versions.leads_to == {"/new": "orders", "/o": "other"}
    assert versions.undecided_paths == set()


def test_the_path_of_a_dropped_version_leads_to_its_view_if_no_other_version_has_one() -> None:
    """The file may give the path to one version alone."""
    plain, states = view("orders@2", topic="b"), {"orders": VersionState(2, None, (1,), 2)}
    alone = ViewVersions((ORDERS, plain), states)
    for versions in (alone, alone.in_group(group(ORDERS, plain))):
        assert (versions.leads_to, versions.undecided_paths) == ({"/o": "orders"}, set())
        assert versions.paths == {"orders": "/o"}
        assert versions.named["orders"] is plain
    edited = ViewVersions((plain,), states)
    assert edited.in_group(group(ORDERS, plain)).leads_to == {"/o": "orders"}
    assert edited.in_group(group(plain)).leads_to == {}


def test_the_path_of_a_dropped_version_is_not_undecided_if_its_view_has_moved() -> None:
    moved = view("orders@2", path="/new", topic="b")
    states = {"orders": VersionState(2, None, (1,), 2)}
    for own in ((ORDERS, moved), (ORDERS,), (moved,)):
        versions = ViewVersions(own, states).in_group(group(ORDERS, moved))
        assert (versions.leads_to, versions.undecided_paths) == ({"/new": "orders"}, set())
