"""Tests of the topology and member metadata: user data, the document of /processors, and errors."""

import zlib
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.group.member_metadata import MemberMetadata
from model.topology import (
    NO_MEMBER,
    Epoch,
    Member,
    PlacedView,
    Topology,
    TopologyError,
)
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, candidate

NAMES = st.text("abc-.é0", min_size=1, max_size=4)
OFFSETS = st.integers(0, 2**63 - 1)
MS = st.integers(0, 2**45)
PARTITIONS = st.integers(0, 500)
HASHES = st.integers(0, 2**32 - 1)
MEMBERS = st.builds(
    Member,
    NAMES,
    NAMES,
    st.integers(1, 65535),
    NAMES | st.just(""),
    st.sampled_from(["http", "https"]),
)
EPOCHS = st.builds(Epoch, MS, st.integers(0, 2**31 - 1))
DESCRIPTIONS = st.dictionaries(NAMES, st.none() | NAMES, max_size=3)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    members = draw(st.lists(MEMBERS, max_size=4))
    indices = st.integers(NO_MEMBER, len(members) - 1)
    placed = st.builds(
        PlacedView,
        DESCRIPTIONS,
        NAMES,
        st.lists(indices, max_size=6).map(tuple),
        st.booleans(),
        st.lists(st.integers(1, 9), max_size=3).map(tuple),
        st.lists(st.lists(indices, max_size=2).map(tuple), max_size=6).map(tuple),
        st.lists(st.tuples(PARTITIONS, indices), max_size=3).map(tuple),
        st.lists(PARTITIONS, max_size=3).map(tuple),
        HASHES,
        st.booleans(),
    )
    views = draw(st.dictionaries(NAMES, placed, max_size=3))
    paths = draw(st.dictionaries(NAMES, NAMES, max_size=2))
    return Topology(draw(EPOCHS), tuple(members), views, paths)


MEMBER_METADATA = st.builds(
    MemberMetadata,
    member=MEMBERS,
    views=st.dictionaries(NAMES, st.tuples(NAMES, DESCRIPTIONS), max_size=3),
    positions=st.dictionaries(NAMES, st.dictionaries(PARTITIONS, OFFSETS, max_size=4), max_size=3),
    active=st.dictionaries(NAMES, st.lists(PARTITIONS).map(tuple), max_size=3),
    epoch=EPOCHS,
    started_at_ms=MS,
    mispartitioned=st.lists(NAMES, max_size=2).map(tuple),
    partition_counts=st.dictionaries(
        NAMES, st.lists(PARTITIONS, min_size=1).map(tuple), max_size=2
    ),
    topic_hashes=st.dictionaries(NAMES, HASHES, max_size=2),
    ready=st.dictionaries(NAMES, st.lists(PARTITIONS).map(tuple), max_size=3),
    standby=st.dictionaries(NAMES, st.lists(PARTITIONS).map(tuple), max_size=3),
    drained=st.booleans(),
    reads_references=st.booleans(),
)


@settings(max_examples=examples(60))
@given(topologies(), st.integers(0, 2**31 - 1))
def test_a_topology_is_decoded_as_it_was_encoded(topology: Topology, generation: int) -> None:
    """The user data does not contain the generation, which Kafka supplies."""
    expected = replace(topology, epoch=Epoch(topology.epoch.ms, generation))
    assert Topology.decode(topology.encode(), generation) == expected


@settings(max_examples=examples(60))
@given(MEMBER_METADATA)
def test_member_metadata_is_decoded_as_it_was_encoded(metadata: MemberMetadata) -> None:
    assert MemberMetadata.decode(metadata.encode()) == metadata


def test_members_of_older_versions_are_not_drained_and_get_no_reference() -> None:
    metadata = MemberMetadata(
        TOPOLOGY.members[0],
        MemberMetadata.views_of((ORDERS,)),
        {},
        {},
        Epoch(1, 1),
        1,
        drained=True,
    )
    document = orjson.loads(zlib.decompress(metadata.encode()))
    del document["drained"]
    del document["reads_references"]
    old = replace(metadata, drained=False, reads_references=False)
    assert MemberMetadata.decode(packed(document)) == old


def test_older_versions_know_only_the_smallest_number_of_partitions() -> None:
    document = orjson.loads(zlib.decompress(TOPOLOGY.encode()))
    assert document["views"]["orders"]["built_partitions"] == 3
    assert document["views"]["missing"]["built_partitions"] == 0
    for placed in document["views"].values():
        del placed["partition_counts"]
    views = Topology.decode(packed(document), 1).views
    assert [views[name].partition_counts for name in ("orders", "missing")] == [(3,), ()]
    member = TOPOLOGY.members[0]
    counts = {"orders": (3, 4)}
    metadata = MemberMetadata(member, {}, {}, {}, Epoch(1, 1), 1, partition_counts=counts)
    document = orjson.loads(zlib.decompress(metadata.encode()))
    assert document.pop("partition_counts") == {"orders": [3, 4]}
    assert MemberMetadata.decode(packed(document)).partition_counts == {"orders": (3,)}


def test_leaders_of_older_versions_decide_about_no_path() -> None:
    document = orjson.loads(zlib.decompress(TOPOLOGY.encode()))
    del document["paths"]
    for placed in document["views"].values():
        del placed["differs"]
    decoded = Topology.decode(packed(document), 1)
    assert decoded.paths == {}
    assert not any(placed.differs for placed in decoded.views.values())


def test_user_data_has_no_secret() -> None:
    """Everyone with the right to describe the group reads it."""
    metadata = MemberMetadata(
        TOPOLOGY.members[0], MemberMetadata.views_of((ORDERS,)), {}, {}, Epoch(1, 1), 1
    )
    topology = orjson.loads(zlib.decompress(TOPOLOGY.encode()))
    assert set(topology) == {"v", "ms", "members", "views", "paths"}
    assert set(orjson.loads(zlib.decompress(metadata.encode()))) == {
        "v", "member", "views", "positions", "active", "epoch", "started_at", "mis_partitioned",
        "doubtful", "built", "partition_counts", "topic_hashes", "ready", "standby",
        "drained", "reads_references", "network", "referenced_ms",
    }  # fmt: skip


def packed(document: object) -> bytes:
    return zlib.compress(orjson.dumps(document))


FOREIGN = {
    "empty": b"",
    "not compressed": b"sticky\0\1",
    "not JSON": zlib.compress(b"\xff"),
    "a number": packed(1),
    "a list": packed([1]),
    "no version": packed({}),
    "another version": packed({"v": 9, "ms": 1, "members": [], "views": {}}),
    "only a version": packed({"v": 2}),
    "a list of views": packed({"v": 2, "ms": 1, "members": [], "views": [], "member": ["a", "b", 1],
                               "positions": {}, "active": {}, "epoch": [1, 1], "started_at": 1,
                               "mis_partitioned": [], "built": {}}),
    "a member of two": packed({"v": 2, "ms": 1, "members": [["a", "b"]], "views": {},
                               "member": ["a", "b"]}),
}  # fmt: skip


@pytest.mark.parametrize("user_data", FOREIGN.values(), ids=FOREIGN)
def test_foreign_user_data_is_refused(user_data: bytes) -> None:
    with pytest.raises(TopologyError):
        Topology.decode(user_data, 1)
    with pytest.raises(TopologyError):
        MemberMetadata.decode(user_data)


def test_the_error_names_the_version() -> None:
    with pytest.raises(TopologyError, match="version 9"):
        Topology.decode(FOREIGN["another version"], 1)
    with pytest.raises(TopologyError, match="version 9"):
        MemberMetadata.decode(FOREIGN["another version"])


def decompressed(data: bytes) -> bytes | None:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return None


@settings(max_examples=examples(60))
@given(st.data())
def test_damaged_user_data_is_refused(data: st.DataObject) -> None:
    valid = candidate("b1", positions={"orders": {0: 7, 1: 9}}).encode()
    at = data.draw(st.integers(2, len(valid) - 1))  # the first two bytes are zlib settings
    flipped = valid[at] ^ data.draw(st.integers(1, 255))
    for damaged in (valid[:at], valid[:at] + bytes([flipped]) + valid[at + 1 :]):
        with pytest.raises(TopologyError):
            Topology.decode(damaged, 1)
        if decompressed(damaged) == decompressed(valid):
            continue  # the bits that fill the last byte before the checksum mean nothing
        with pytest.raises(TopologyError):
            MemberMetadata.decode(damaged)


def test_a_topology_with_ten_thousand_partitions_is_small_enough() -> None:
    members = tuple(Member(f"b{i}", "127.0.0.1", 8000 + i) for i in range(100))
    active = tuple((i * 7919) % 100 for i in range(10_000))
    topology = Topology(Epoch(1, 1), members, {"v": PlacedView(ORDERS.description(), "h", active)})
    assert len(topology.encode()) < 80_000


def test_members_of_versions_without_https_are_reached_by_http() -> None:
    document = orjson.loads(zlib.decompress(TOPOLOGY.encode()))
    for member in document["members"]:
        del member[4:]
    decoded = Topology.decode(zlib.compress(orjson.dumps(document)), 17)
    assert [member.scheme for member in decoded.members] == ["http", "http"]
    assert [member.origin for member in TOPOLOGY.members] == [
        "http://127.0.0.1:8081",
        "https://127.0.0.2:8082",
    ]


def test_epochs_are_ordered() -> None:
    shuffled = [Epoch(10, 0), Epoch(2, 1), Epoch(0, 0), Epoch(2, 0), Epoch(1, 9)]
    assert sorted(shuffled) == [Epoch(0, 0), Epoch(1, 9), Epoch(2, 0), Epoch(2, 1), Epoch(10, 0)]
    assert str(Epoch(1795225262643, 17)) == "1795225262643-17"


TOPOLOGY = Topology(
    Epoch(1795225262643, 17),
    (Member("b1", "127.0.0.1", 8081), Member("b2", "127.0.0.2", 8082, "r2", "https")),
    {
        "orders": PlacedView(
            ORDERS.description(),
            ORDERS.hash,
            (0, 1, NO_MEMBER, 0),
            True,
            (3, 4),
            standbys=((1,), (0,), (), ()),
            warming=((3, 1),),
            moved=(1, 3),
        ),
        "missing": PlacedView({"topic": "missing", "path": None}, "h", ()),
    },
)


def test_actives() -> None:
    b1, b2 = TOPOLOGY.members
    assert [TOPOLOGY.active_of("orders", p) for p in range(-1, 5)] == [
        None, b1, b2, None, b1, None,
    ]  # fmt: skip
    assert TOPOLOGY.active_of("missing", 0) is None
    assert TOPOLOGY.active_of("nothing", 0) is None
    assert TOPOLOGY.roles_of("b1", "orders")["active"] == [0, 3]
    assert TOPOLOGY.roles_of("b2", "orders")["active"] == [1]
    assert TOPOLOGY.roles_of("b3", "orders")["active"] == []
    assert TOPOLOGY.roles_of("b1", "nothing")["active"] == []


def test_holders() -> None:
    b1, b2 = TOPOLOGY.members
    holders = [TOPOLOGY.holders_of("orders", p) for p in range(-1, 5)]
    assert holders == [[], [b1, b2], [b2, b1], [], [b1], []], "without warming members"
    assert TOPOLOGY.roles_of("b2", "orders") == {"active": [1], "standby": [0], "warming": [3]}
    assert TOPOLOGY.roles_of("b9", "orders") == {"active": [], "standby": [], "warming": []}


def test_keys_that_may_be_in_several_partitions() -> None:
    placed = PlacedView({}, "h", (0, 0, 0, 0))
    for partition_counts, mispartitioned, expected in [
        ((), False, {}),
        ((4,), False, {}),
        ((2,), False, {"partition_counts": [2, 4]}),
        ((2, 3, 4), False, {"partition_counts": [2, 3, 4]}),
        ((2,), True, {"mispartitioned": True}),
        ((), True, {"mispartitioned": True}),
    ]:
        of = replace(placed, partition_counts=partition_counts, mispartitioned=mispartitioned)
        views = Topology(Epoch(1, 1), TOPOLOGY.members, {"orders": of}).processors({})["views"]
        assert views == {"orders": {"partitions": 4, **expected}}


def test_the_document_of_processors() -> None:
    assert TOPOLOGY.processors({"b2": "draining"}) == {
        "version": 1,
        "epoch": "1795225262643-17",
        "views": {
            "orders": {
                "name": "orders",
                "topic": "orders",
                "path": "/orders",
                "key": "string",
                "value": "json",
                "partitioner": "murmur2",
                "store": "key-value",
                "partitions": 4,
                "mispartitioned": True,
            },
            "missing": {"topic": "missing", "path": None, "partitions": 0},
        },
        "processors": [
            {
                "id": "b1",
                "host": "127.0.0.1",
                "port": 8081,
                "scheme": "http",
                "state": "running",
                "topicPartitions": {"orders": [0, 3], "missing": []},
                "standbyPartitions": {"orders": [1], "missing": []},
                "warmingPartitions": {"orders": [], "missing": []},
            },
            {
                "id": "b2",
                "host": "127.0.0.2",
                "port": 8082,
                "scheme": "https",
                "rack": "r2",
                "state": "draining",
                "topicPartitions": {"orders": [1], "missing": []},
                "standbyPartitions": {"orders": [0], "missing": []},
                "warmingPartitions": {"orders": [3], "missing": []},
            },
        ],
    }
