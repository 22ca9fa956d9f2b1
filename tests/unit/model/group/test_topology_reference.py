"""References to topologies, and the bounds on user data."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.group.topology_reference import MAX_BYTES, TopologyReference, decode_assignment
from model.kafka.user_data import MAX_DOCUMENT_BYTES, pack, unpack
from model.topology import Epoch, Member, Topology, TopologyError

LEADER = Member("b1", "10.0.0.1", 8081, "r1", "https")
ENCODED = Topology(Epoch(5, 0), (LEADER,)).encode()
REFERENCE = TopologyReference.for_topology(ENCODED, 3, LEADER, 5)


def test_a_reference_is_decoded_as_it_was_encoded() -> None:
    assert decode_assignment(REFERENCE.encode(), 7) == REFERENCE
    assert len(REFERENCE.encode()) < 200


def test_a_topology_itself_is_decoded_too() -> None:
    assert decode_assignment(ENCODED, 7) == Topology(Epoch(5, 7), (LEADER,))


@given(st.binary(max_size=100))
def test_it_is_to_one_topology_only(other: bytes) -> None:
    assert REFERENCE.refers_to(ENCODED)
    assert REFERENCE.refers_to(other) == (other == ENCODED)
    assert not REFERENCE.refers_to(ENCODED[:-1] + bytes([ENCODED[-1] ^ 1]))


def test_members_of_older_versions_reject_it() -> None:
    with pytest.raises(TopologyError, match="unsupported topology version 3"):
        Topology.decode(REFERENCE.encode(), 1)


def test_a_topology_that_no_member_would_accept_is_not_sent() -> None:
    with pytest.raises(TopologyError, match="Split the deployment"):
        TopologyReference.for_topology(bytes(MAX_BYTES + 1), 3, LEADER, 5)
    for size in (-1, MAX_BYTES + 1):
        with pytest.raises(TopologyError, match=f"{size} bytes"):
            decode_assignment(replace(REFERENCE, size=size).encode(), 1)


@pytest.mark.parametrize("field", ["digest", "size", "instances", "leader"])
@pytest.mark.parametrize("value", [None, "x", [], {"a": 1}])
def test_malformed_references_are_refused(field: str, value: object) -> None:
    document = unpack(REFERENCE.encode())
    if field == "digest":
        del document[field]
    else:
        document[field] = value
    with pytest.raises(TopologyError, match="malformed"):
        decode_assignment(pack(document), 1)


@pytest.mark.parametrize("data", [b"", b"x", REFERENCE.encode()[:-1], zlib.compress(b"[1]")])
def test_damaged_user_data_is_refused(data: bytes) -> None:
    with pytest.raises(TopologyError, match="malformed"):
        decode_assignment(data, 1)


@pytest.mark.slow
def test_a_document_without_end_is_not_decompressed() -> None:
    bomb = zlib.compress(b" " * (MAX_DOCUMENT_BYTES + 1))
    assert len(bomb) < MAX_DOCUMENT_BYTES // 500
    with pytest.raises(TopologyError, match="too large"):
        decode_assignment(bomb, 1)
