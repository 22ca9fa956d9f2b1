"""Members with the same id: restarts, mistakes, and instances that move."""

from __future__ import annotations

import logging
import os
from itertools import permutations
from typing import Any

import pytest

from backend.cluster.namesakes import is_refused, one_per_id, warn_of_namesakes
from model.group.member_metadata import MemberMetadata
from model.machine import network
from model.machine.network import network_id
from model.topology import Epoch
from tests.support.in_process.examples import candidate

OLDER, NEWER = Epoch(5, 1), Epoch(6, 2)


def b1(started_at: int, host: str = "h1", **more: Any) -> MemberMetadata:
    return candidate("b1", started_at=started_at, host=host, **{"network": "n1", **more})


CASES = {
    # the port was free, so the first process has ended
    "a restart": (b1(2), [b1(1, epoch=NEWER)], False),
    "a restart from an older version": (b1(2), [b1(1, network="", epoch=NEWER)], False),
    "a restart by an older version": (b1(2, network=""), [b1(1, epoch=NEWER)], False),
    "a mistake": (b1(1, epoch=NEWER), [b1(2, "h2", network="n2")], True),
    "a mistake, and a clock that is behind": (b1(9, epoch=NEWER), [b1(2, "h2")], True),
    # advertised as 127.0.0.1 on each machine
    "the same address on two machines": (b1(1, epoch=NEWER), [b1(2, network="n2")], True),
    "another port": (b1(1, epoch=NEWER), [b1(2, port=8082)], True),
    "two that start together": (b1(1), [b1(2, "h2", network="n2")], True),
    "three": (b1(1), [b1(2, "h2", network="n2"), b1(3, "h3", network="n3")], True),
    # cut off from the brokers, while another one took its place
    "one that is back": (b1(9, "h2", epoch=NEWER), [b1(1, epoch=OLDER)], True),
}


@pytest.mark.parametrize(("holder", "others", "are_refused"), CASES.values(), ids=CASES)
def test_one_instance_has_an_id(
    holder: MemberMetadata, others: list[MemberMetadata], are_refused: bool
) -> None:
    for order in permutations([holder, *others, candidate("b0")]):
        assert one_per_id(order) == [candidate("b0"), holder]
    assert [is_refused(other, holder) for other in others] == [are_refused] * len(others)


def test_members_of_older_versions_cannot_be_refused() -> None:
    assert not is_refused(b1(2, "h2", network=""), b1(1))


def test_the_leader_names_both(caplog: pytest.LogCaptureFixture) -> None:
    one, other = b1(1, epoch=NEWER), b1(2, "h2", network="n2")
    with caplog.at_level(logging.ERROR):
        warn_of_namesakes([one, other, b1(0), candidate("b2")], [one, candidate("b2")])
    [line] = caplog.messages
    assert "the instance at h2:8081 has the id b1, which the instance at h1:8081 has, too" in line


def test_the_leader_names_instances_with_one_address(caplog: pytest.LogCaptureFixture) -> None:
    members = [candidate(id_, network=f"of {id_}") for id_ in ("b1", "b2")]
    with caplog.at_level(logging.ERROR):
        warn_of_namesakes(members, members)
    [line] = caplog.messages
    assert "instances b1 and b2 both have the address 127.0.0.1:8081" in line


def test_a_network_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    own = network_id()
    assert own == network_id()
    assert len(own) == 16
    monkeypatch.setattr(os, "readlink", lambda path: "net:[1]")
    assert network_id() not in ("", own)
    monkeypatch.setattr(network, "_BOOT", network._BOOT.parent / "not-there")
    assert network_id() == ""
