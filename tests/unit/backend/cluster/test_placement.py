"""Who is active for what: complete, balanced, sticky; by table, and through random histories."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.cluster.namesakes import one_per_id
from backend.cluster.placement import place
from model.group.member_metadata import MemberMetadata
from model.topology import NO_MEMBER, Epoch, Topology
from model.views import View
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, candidate, view

A, B, C = view("a"), view("b"), view("c")


def ids(topology: Topology, name: str) -> list[str | None]:
    """Who is active for each partition, by name."""
    placed = topology.views[name]
    return [None if i == NO_MEMBER else topology.members[i].id for i in placed.active]


def shares(topology: Topology, name: str) -> Counter[str | None]:
    return Counter(ids(topology, name))


def test_one_instance_has_all() -> None:
    topology = place([candidate("b1", [A, B])], {"a": 3, "b": 2}, 5)
    assert ids(topology, "a") == ["b1"] * 3
    assert ids(topology, "b") == ["b1"] * 2
    assert topology.epoch == Epoch(5, 0)
    assert topology.views["a"].description == A.description()
    assert topology.views["a"].hash == A.hash


def test_nobody_is_there() -> None:
    assert place([], {}, 5) == Topology(Epoch(5, 0), (), {})


def test_a_topic_that_is_missing_has_no_partitions() -> None:
    topology = place([candidate("b1", [A, B])], {"b": 1}, 5)
    assert topology.views["a"].active == ()
    assert ids(topology, "b") == ["b1"]


def test_what_does_not_go_even_in_one_view_goes_even_in_all() -> None:
    members = [candidate(f"b{i}", [A, B, C]) for i in range(3)]
    topology = place(members, {"a": 1, "b": 1, "c": 1}, 5)
    assert {ids(topology, name)[0] for name in "abc"} == {"b0", "b1", "b2"}


def test_one_that_joins_gets_its_share_and_no_more_moves() -> None:
    members = [
        candidate("b1", active={"orders": range(5)}),
        candidate("b2", active={"orders": range(5, 9)}),
        candidate("b3"),
    ]
    found = ids(place(members, {"orders": 9}, 5), "orders")
    assert Counter(found) == {"b1": 3, "b2": 3, "b3": 3}
    before = ["b1"] * 5 + ["b2"] * 4
    assert [old for old, new in zip(before, found, strict=True) if new != old] == ["b1", "b1", "b2"]


def test_what_one_leaves_behind_goes_to_the_others_and_no_more_moves() -> None:
    members = [
        candidate("b1", active={"orders": (0, 3, 6)}),
        candidate("b2", active={"orders": (1, 4, 7)}),
    ]
    found = ids(place(members, {"orders": 9}, 5), "orders")
    assert [found[p] for p in (0, 3, 6)] == ["b1"] * 3
    assert [found[p] for p in (1, 4, 7)] == ["b2"] * 3
    assert sorted(Counter(found).values()) == [4, 5]


def test_a_free_partition_goes_to_who_holds_most_of_it() -> None:
    members = [
        candidate("b1", positions={"orders": {0: 10, 1: 99}}),
        candidate("b2", positions={"orders": {0: 11}}),
    ]
    assert ids(place(members, {"orders": 2}, 5), "orders") == ["b2", "b1"]


def test_a_holder_does_not_outweigh_who_is_active() -> None:
    members = [
        candidate("b1", active={"orders": (0,)}, positions={"orders": {0: 1}}),
        candidate("b2", active={"orders": (1,)}, positions={"orders": {0: 9, 1: 9}}),
    ]
    assert ids(place(members, {"orders": 2}, 5), "orders") == ["b1", "b2"]


def test_one_that_was_silent_claims_what_others_were_given_meanwhile() -> None:
    for silent, other in (("b1", "b2"), ("b2", "b1")):
        members = [
            candidate(silent, active={"orders": range(4)}, epoch=Epoch(1, 0)),
            candidate(other, active={"orders": (2, 3)}, epoch=Epoch(2, 0)),
        ]
        found = ids(place(members, {"orders": 4}, 5), "orders")
        assert found == [silent, silent, other, other]


def test_added_partitions_move_nothing() -> None:
    members = [
        candidate("b1", active={"orders": (0, 1)}),
        candidate("b2", active={"orders": (2, 3)}),
    ]
    found = ids(place(members, {"orders": 6}, 5), "orders")
    assert found[:4] == ["b1", "b1", "b2", "b2"]
    assert set(found[4:]) == {"b1", "b2"}


def test_partitions_that_are_gone_are_forgotten() -> None:
    """A topic made anew may have fewer."""
    members = [candidate("b1", active={"orders": range(9)}), candidate("b2")]
    assert shares(place(members, {"orders": 2}, 5), "orders") == {"b1": 1, "b2": 1}


def test_a_view_goes_only_to_those_that_define_it_alike() -> None:
    other = view("a", key="bytes")
    members = [candidate("b1", [A, B]), candidate("b2", [A, B]), candidate("b3", [other, B])]
    topology = place(members, {"a": 4, "b": 3}, 5)
    assert shares(topology, "a") == {"b1": 2, "b2": 2}
    assert topology.views["a"].hash == A.hash
    assert shares(topology, "b") == {"b1": 1, "b2": 1, "b3": 1}


def test_of_two_definitions_the_one_that_is_answering_stays() -> None:
    """A rolling change of views.toml: half of the instances have the new file already."""
    for old, new in ((A, view("a", key="bytes")), (view("a", key="bytes"), A)):
        members = [candidate("b1", [new]), candidate("b2", [old], active={"a": range(4)})]
        assert shares(place(members, {"a": 4}, 5), "a") == {"b2": 4}
        members.append(candidate("b3", [new]))
        assert shares(place(members, {"a": 4}, 5), "a") == {"b1": 2, "b3": 2}


def test_a_view_that_only_some_have_is_theirs() -> None:
    members = [candidate("b1", [A]), candidate("b2", [A, B])]
    topology = place(members, {"a": 2, "b": 2}, 5)
    assert shares(topology, "b") == {"b2": 2}


def test_what_one_saw_all_are_told() -> None:
    members = [
        candidate("b1", [A, B], partition_counts={"a": (6,), "b": (4,)}),
        candidate("b2", [A, B], partition_counts={"a": (3, 5, 7)}, mispartitioned=("b",)),
        candidate("b3", [A, B]),
    ]
    views = place(members, {"a": 6, "b": 4}, 5).views
    # 7: the store of a topic that was deleted, and is smaller now
    assert (views["a"].partition_counts, views["a"].mispartitioned) == ((3, 5, 6), False)
    assert (views["b"].partition_counts, views["b"].mispartitioned) == ((4,), True)


@pytest.mark.parametrize(
    ("topics", "expected"),
    [((1, 1), ((3, 4), 1)), ((1, 0), ((3, 4), 1)), ((0, 0), ((3, 4), 0)), ((1, 2), ((), 0))],
    ids=["one topic", "one member of an older version", "two of them", "it is being recreated"],
)
def test_numbers_of_partitions_are_of_one_topic(
    topics: tuple[int, int], expected: tuple[tuple[int, ...], int]
) -> None:
    first, second = ({"a": topic} if topic else {} for topic in topics)
    members = [
        candidate("b1", [A], partition_counts={"a": (4,)}, topic_hashes=first),
        candidate("b2", [A], partition_counts={"a": (3,)}, topic_hashes=second),
        candidate("b3", [A]),
    ]
    placed = place(members, {"a": 4}, 5).views["a"]
    assert (placed.partition_counts, placed.topic_hash) == expected


@pytest.mark.parametrize(
    ("now_ms", "seen", "ms"),
    [(5, Epoch(0, 0), 5), (5, Epoch(5, 3), 6), (5, Epoch(80, 1), 81), (81, Epoch(80, 9), 81)],
)
def test_an_epoch_is_above_all_that_were_seen(now_ms: int, seen: Epoch, ms: int) -> None:
    members = [candidate("b1", epoch=Epoch(2, 7)), candidate("b2", epoch=seen)]
    epoch = place(members, {"orders": 1}, now_ms).epoch
    assert epoch == Epoch(ms, 0)
    assert epoch > seen


def test_the_order_in_which_members_come_changes_nothing() -> None:
    members = [candidate(f"b{i}", [A, B], active={"a": (i,)}) for i in range(4)]
    expected = place(members, {"a": 7, "b": 5}, 5)
    for seed in range(5):
        shuffled = random.Random(seed).sample(members, len(members))
        assert place(shuffled, {"a": 7, "b": 5}, 5) == expected


# Histories

VIEWS = (A, B, C)
COUNTS = st.fixed_dictionaries({v.topic: st.integers(0, 12) for v in VIEWS})
MEMBERS = st.frozensets(st.sampled_from([f"b{i}" for i in range(6)]), min_size=1)


def rejoined(topology: Topology, members: frozenset[str]) -> list[MemberMetadata]:
    """These members, each with what the map gave it."""
    return [
        candidate(
            id_,
            VIEWS,
            active={name: topology.roles_of(id_, name)["active"] for name in topology.views},
            positions={
                name: dict.fromkeys(topology.roles_of(id_, name)["active"], 9)
                for name in topology.views
            },
            epoch=topology.epoch,
        )
        for id_ in sorted(members)
    ]


def assert_complete_and_balanced(
    topology: Topology, members: frozenset[str], counts: Mapping[str, int]
) -> None:
    total: Counter[str | None] = Counter(dict.fromkeys(members, 0))
    for of in VIEWS:
        found = shares(topology, of.name)
        assert topology.views[of.name].partitions == counts[of.topic]
        assert sum(found.values()) == counts[of.topic]
        assert set(found) <= members
        assert spread(Counter(dict.fromkeys(members, 0)) + found, members) <= 1
        total.update(found)
    assert spread(total, members) <= 1


def spread(found: Counter[str | None], members: frozenset[str]) -> int:
    of_each = [found[id_] for id_ in members]
    return max(of_each) - min(of_each)


def assert_only_what_must_moves(before: Topology, after: Topology) -> None:
    """Each member keeps as many as its share allows of what it had."""
    for of in VIEWS:
        had = ids(before, of.name) if of.name in before.views else []
        has = ids(after, of.name)
        common = list(zip(had, has, strict=False))
        share = Counter(has)
        for id_ in {m.id for m in after.members}:
            mine = sum(old == id_ for old, _ in common)
            kept = sum(old == new == id_ for old, new in common)
            assert kept == min(mine, share[id_]), (of.name, id_)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(MEMBERS, COUNTS), min_size=1, max_size=6))
def test_any_history(history: list[tuple[frozenset[str], dict[str, int]]]) -> None:
    topology = Topology()
    for members, counts in history:
        before = topology
        topology = place(rejoined(before, members), counts, now_ms=5)
        assert topology.epoch > before.epoch
        assert_complete_and_balanced(topology, members, counts)
        assert_only_what_must_moves(before, topology)
        again = place(rejoined(topology, members), counts, now_ms=5)
        still = {name: replace(placed, moved=()) for name, placed in topology.views.items()}
        assert again.views == still, "the same members again: nothing moves at all"


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(MEMBERS, st.integers(0, 20)), min_size=2, max_size=5))
@example([(frozenset({"b1"}), 1), (frozenset({"b0", "b1"}), 2), (frozenset({"b0", "b1"}), 1)])
def test_of_one_view_no_balanced_map_moves_less(history: list[tuple[frozenset[str], int]]) -> None:
    topology = Topology()
    for members, count in history:
        had = ids(topology, "orders") if topology.views else []
        again = [
            candidate(id_, active={"orders": topology.roles_of(id_, "orders")["active"]})
            for id_ in sorted(members)
        ]
        topology = place(again, {"orders": count}, now_ms=5)
        has = ids(topology, "orders")
        kept = sum(old == new for old, new in zip(had, has, strict=False))
        # at best: everyone keeps a share, the greater ones who had most
        mine = sorted((had[:count].count(id_) for id_ in members), reverse=True)
        base, extra = divmod(count, len(members))
        assert kept == sum(min(n, base + (i < extra)) for i, n in enumerate(mine))


def test_one_at_a_time() -> None:
    """Ten join, then leave: balanced at each step, and only what must moves."""
    counts: dict[str, int] = {"a": 9, "b": 6, "c": 9}
    names = [f"b{i}" for i in range(10)]
    topology = Topology()
    steps = [names[: i + 1] for i in range(10)] + [names[i:] for i in range(1, 10)]
    for step in steps:
        before, members = topology, frozenset(step)
        topology = place(rejoined(before, members), counts, now_ms=5)
        assert_complete_and_balanced(topology, members, counts)
        assert_only_what_must_moves(before, topology)


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["b1", "b2", "b3"]),
            st.sampled_from([ORDERS, view(key="bytes")]),
            st.frozensets(st.integers(0, 5)),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 6),
)
def test_whatever_they_claim(said: list[tuple[str, View, frozenset[int], int]], count: int) -> None:
    """Ids twice, partitions claimed twice, two definitions: still exactly one active each."""
    members = [
        candidate(id_, [of], active={"orders": held}, started_at=started_at)
        for id_, of, held, started_at in said
    ]
    topology = place(one_per_id(members), {"orders": count}, 5)
    placed = topology.views["orders"]
    newest = {m.id: m for m in topology.members}
    assert len(newest) == len(topology.members)
    assert placed.partitions == count
    counted = {id_: max(s for i, _, _, s in said if i == id_) for id_, _, _, _ in said}
    able = {
        id_
        for id_, of, _, started_at in said
        if of.hash == placed.hash and started_at == counted[id_]
    }
    assert set(ids(topology, "orders")) <= able


def test_what_a_member_has_answered_for_and_another_one_gets_is_told() -> None:
    """Who gets it may have it on disk from before: that is no restart."""
    old = candidate("b1", active={"orders": range(4)}, epoch=Epoch(7, 1))
    back = candidate("b2")
    topology = place([old, back], {"orders": 4}, 9)
    theirs = tuple(p for p, id_ in enumerate(ids(topology, "orders")) if id_ == "b2")
    assert len(theirs) == 2
    assert topology.views["orders"].moved == theirs
    # nobody else has answered for what stays, nor for what nobody had
    assert place([old], {"orders": 6}, 9).views["orders"].moved == ()


def test_a_path_stays_with_the_view_that_has_had_it_until_all_instances_have_the_new_file() -> None:
    old, new = view("old", path="/p"), view("new", path="/p")
    for restarted in range(4):
        members = [
            candidate(f"b{number}", [new] if number < restarted else [old], started_at=1 + number)
            for number in range(3)
        ]
        for number in range(restarted):
            members[number] = replace(members[number], started_at_ms=10 + number)
        decided = place(members, {"old": 1, "new": 1}, 5).paths
        assert decided == ({"/p": "old"} if 0 < restarted < 3 else {})
    members = [
        candidate(f"b{n}", of, started_at=9 - n) for n, of in enumerate([[old], [old], [new]])
    ]
    assert place(members, {}, 5).paths == {"/p": "new"}, "it was there first"


def test_the_topology_says_which_views_not_all_instances_declare_alike() -> None:
    other = view("b", topic="another")
    topology = place([candidate("b1", [A, B]), candidate("b2", [A, other, C])], {}, 5)
    assert {name: placed.differs for name, placed in topology.views.items()} == {
        "a": False, "b": True, "c": True,
    }  # fmt: skip
    document = Topology.decode(topology.encode(), 1).processors({})
    assert {name: of.get("differs") for name, of in document["views"].items()} == {
        "a": None, "b": True, "c": True,
    }  # fmt: skip
