"""The document of the admin page: the topology joined with the /instance of each instance."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any, cast

import pytest

from backend.admin.topology import Peers, redundancy_of, topology_document
from model.machine.clock import boot_time
from model.topology import Member, Topology
from tests.unit.backend.admin.fakes import (
    EPOCH,
    ORDERS,
    answering,
    context,
    held,
    member,
    nobody,
    silent,
)

B1, B2 = member("b1"), member("b2", 2)

# the /instance of b2
B2_SAYS = {
    "id": "b2",
    "state": "draining",
    "epoch": str(EPOCH),
    "rebuilds": 0,
    "partitions": [
        {
            "view": "orders",
            "partition": 1,
            "role": "active",
            "state": "catching-up",
            "position": 30,
            "goal": 100,
            "lag": 70,
            "staleness": None,
            "size_bytes": 50,
            "dead_letters": 4,
            "unreadable_values": 1,
            "unreadable_keys": 3,
            "mis_partitioned": 0,
        }
    ],
}


def says(*statements: dict[str, Any]) -> Any:
    """Replaces HTTP requests."""
    return lambda members: list(statements)


def by_id(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {instance["id"]: instance for instance in document["instances"]}


def codes(document: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in document["views"][0]["warnings"]]


def test_the_numbers_of_a_partition_are_those_of_its_active() -> None:
    served = context(B1, B2, active=(0, 1, 0), holding=(held(0, end=17),), opening=(2,))

    document = topology_document(served, says(B2_SAYS))

    assert (document["epoch"], document["asked"], document["known"]) == (str(EPOCH), "b1", True)
    assert abs(document["made_at"] / 1000 - time.time()) < 60
    [view] = document["views"]
    assert (view["name"], view["topic"], view["partitions"]) == ("orders", "orders-topic", 3)
    zero, one, two = view["placement"]
    assert (zero["active"], zero["state"], zero["position"], zero["lag"]) == (
        "b1",
        "answerable",
        10,
        7,
    )
    assert (one["active"], one["state"], one["goal"], one["lag"]) == ("b2", "catching-up", 100, 70)
    assert (two["active"], two["state"], two.get("position")) == ("b1", "opening", None)
    assert [placement["standby"] for placement in view["placement"]] == [[], [], []]


def test_the_numbers_of_an_instance_are_the_sums_of_its_partitions() -> None:
    served = context(
        B1, B2, active=(0, 1, 0, 0), holding=(held(0, end=17), held(2, end=None)), opening=(3,)
    )

    instances = by_id(topology_document(served, says(B2_SAYS)))

    process = instances["b1"].pop("process")
    assert process["version"] == version("queryable-topics")
    assert process["uptime_ms"] > 0
    assert process["memory_bytes"] > 1e6
    assert process["threads"] >= 1
    assert instances["b1"] | {"epoch": None} == {
        "id": "b1",
        "host": "127.0.0.1",
        "port": 1,
        "in_topology": True,
        "state": "running",
        "error": None,
        "epoch": None,
        "rebuilds": 2,
        "lost_at": None,
        "broker": None,
        "drained": False,
        "requests": {"per_second": 0.0, "p99_ms": None},
        "ended_threads": [],
        "partitions": 3,
        "answerable": 2,
        "lag": 7,
        "lag_unknown": 2,  # one has no known end, one is not open
        "size_bytes": 200,
        "dead_letters": 0,
    }
    assert instances["b2"]["state"] == "draining"
    assert (instances["b2"]["lag"], instances["b2"]["dead_letters"]) == (70, 4)


def test_the_partitions_of_an_unreachable_instance_are_unknown() -> None:
    served = context(B1, B2, active=(0, 1), holding=(held(0),))

    document = topology_document(
        served, says({"state": "unreachable", "error": "Connection refused"})
    )

    b2 = by_id(document)["b2"]
    assert (b2["state"], b2["error"]) == ("unreachable", "Connection refused")
    assert (b2["partitions"], b2["answerable"], b2["lag_unknown"]) == (1, 0, 1)
    assert document["views"][0]["placement"][1] == {
        "partition": 1,
        "active": "b2",
        "standby": [],
        "answered_by": [],
        "state": "unknown",
        "replicas": [
            {"id": "b2", "role": "active", "state": "unknown", "position": None, "goal": None}
            | {"lag": None, "staleness": None, "size_bytes": None, "dead_letters": None}
            | {"open_transaction": None, "mis_partitioned": None}
            | {"unreadable_values": None, "unreadable_keys": None, "building": None}
        ],
    }


def test_a_partition_is_answerable_while_a_standby_answers() -> None:
    """The state is that for readers, also if the active is dead or recovering."""
    served = context(B1, B2, active=(1, 1), standbys=((0,), ()), holding=(held(0),))

    document = topology_document(served, says({"state": "unreachable", "error": "refused"}))

    zero, one = document["views"][0]["placement"]
    assert (zero["state"], zero["active"], zero["answered_by"]) == ("answerable", "b2", ["b1"])
    assert zero["position"] == 10, "the numbers are those of the standby that answers"
    assert (one["state"], one["answered_by"]) == ("unknown", [])
    assert document["views"][0]["replicas"] == 2
    assert redundancy_of(document) == {
        "orders": {"partitions": 2, "answerable": 1, "standby_only": 1, "below_replicas": 2}
    }
    b2 = by_id(document)["b2"]
    assert (b2["answerable"], b2["lag_unknown"]) == (0, 2), "its own report"


def test_each_replica_has_its_own_position_and_lag() -> None:
    served = context(B1, B2, active=(0,), standbys=((1,),), holding=(held(0, end=17),))
    standby = {**B2_SAYS["partitions"][0], "partition": 0, "role": "standby"}

    [placement] = topology_document(served, says({**B2_SAYS, "partitions": [standby]}))["views"][0][
        "placement"
    ]

    found = [
        (each["id"], each["role"], each["state"], each["position"], each["lag"])
        for each in placement["replicas"]
    ]
    assert found == [
        ("b1", "active", "answerable", 10, 7),
        ("b2", "standby", "catching-up", 30, 70),
    ]


def test_a_broker_is_silent_when_the_lag_is_unknown() -> None:
    served = context(B1, active=(0,), holding=(held(0),))
    trusted_for = served.settings.ends_trusted_for
    for age, is_silent in ((0, False), (trusted_for - 1, False), (trusted_for + 1, True)):
        polled = SimpleNamespace(fetched_boot_time=boot_time() - age)
        served.metadata_poller.latest["orders-topic"] = polled  # type: ignore[assignment]
        broker = by_id(topology_document(served, says()))["b1"]["broker"]
        assert broker["is_silent"] is is_silent
        assert abs(broker["silent_ms"] - age * 1000) < 500


def test_a_thread_that_has_ended_is_named() -> None:
    served = context(B1, active=(0,), holding=(held(0),))
    cast(Any, served.ingest_loop).alive = False
    assert by_id(topology_document(served, says()))["b1"]["ended_threads"] == ["ingest"]


def test_with_all_replicas_nothing_is_missing() -> None:
    served = context(B1, B2, active=(0,), standbys=((1,),), holding=(held(0),))
    standby = {**B2_SAYS["partitions"][0], "partition": 0, "role": "standby"}

    for state, below in (("answerable", 0), ("catching-up", 1)):
        b2_says = {**B2_SAYS, "partitions": [{**standby, "state": state}]}
        counts = redundancy_of(topology_document(served, says(b2_says)))["orders"]
        assert (counts["answerable"], counts["below_replicas"]) == (1, below)


def test_a_global_view_wants_as_many_replicas_as_there_are_instances() -> None:
    b3 = member("b3", 3)
    described = {**ORDERS.description(), "store": "global"}
    served = context(B1, B2, b3, active=(0,), standbys=((1, 2),), holding=(held(0),))
    placed = replace(served.group.topology.views["orders"], description=described)
    served.group.topology = replace(served.group.topology, views={"orders": placed})
    standby = {**B2_SAYS["partitions"][0], "partition": 0, "role": "standby"}
    standby["state"] = "answerable"
    b2_says = {**B2_SAYS, "partitions": [standby]}
    gone = {"state": "unreachable", "error": "refused"}

    for b3_says, below in (({**b2_says, "id": "b3"}, 0), (gone, 1)):
        document = topology_document(served, says(b2_says, b3_says))
        assert document["views"][0]["replicas"] == 3
        assert redundancy_of(document)["orders"]["below_replicas"] == below


def test_a_lost_instance_is_shown_also_if_it_has_left_the_topology() -> None:
    served = context(B1, B2, active=(0, 1), holding=(held(0),))
    b3 = {"id": "b3", "host": "h", "port": 3, "lost_at": 1_000}
    b2_says = {**B2_SAYS, "lost": [b3]}

    document = topology_document(served, says(b2_says))

    found = by_id(document)["b3"]
    assert (found["state"], found["lost_at"], found["in_topology"]) == ("lost", 1_000, False)
    served.group.lost.dead(B2)  # it is still in the topology, and answers again
    assert by_id(topology_document(served, says(B2_SAYS)))["b2"]["state"] == "draining"
    gone = says({"state": "unreachable", "error": "refused"})
    assert by_id(topology_document(served, gone))["b2"]["state"] == "lost"


def test_a_partition_without_an_active() -> None:
    document = topology_document(context(B1, active=(-1,)), says())

    [placement] = document["views"][0]["placement"]
    assert (placement["active"], placement["state"]) == (None, "nobody")


def test_an_instance_that_has_not_joined_yet_shows_itself() -> None:
    document = topology_document(context(), says())

    assert document["known"] is False
    assert [view["name"] for view in document["views"]] == [ORDERS.name]
    assert codes(document) == []
    b1 = by_id(document)["b1"]
    assert (b1["state"], b1["in_topology"]) == ("starting", False)


def test_standbys_come_from_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    processors = Topology.processors

    def with_a_standby(self: Topology, states: dict[str, str]) -> dict[str, Any]:
        document = processors(self, states)
        document["processors"][1]["standbyPartitions"]["orders"] = [0]
        return document

    monkeypatch.setattr(Topology, "processors", with_a_standby)
    document = topology_document(context(B1, B2, active=(0, 1), holding=(held(0),)), says(B2_SAYS))

    assert [placement["standby"] for placement in document["views"][0]["placement"]] == [["b2"], []]


@pytest.mark.parametrize(
    ("served", "expected"),
    [
        pytest.param(context(B1, active=(0,), holding=(held(0),)), [], id="none"),
        pytest.param(context(B1, active=()), ["topic-missing"], id="no topic"),
        pytest.param(
            context(B1, active=(0,), hash="other"), ["definition-differs"], id="other definition"
        ),
        pytest.param(
            context(B1, active=(0,), holding=(held(0, mispartitioned=3),)),
            ["mis-partitioned"],
            id="mis-partitioned here",
        ),
        pytest.param(
            context(B1, active=(0,), mispartitioned=True), ["mis-partitioned"],
            id="mis-partitioned in the topology",
        ),
        pytest.param(
            context(B1, active=(0,), holding=(held(0, dead_letters=1),)),
            ["dead-letters"],
            id="dead letters",
        ),
        pytest.param(
            context(B1, active=(0,), holding=(held(0, held_for=12.0),)),
            ["open-transaction"],
            id="a transaction that is open for long",
        ),
        pytest.param(
            context(B1, active=(0,), holding=(held(0, held_for=3.0),)), [], id="a short one"
        ),
        pytest.param(
            context(B1, active=(0, 0), partition_counts=(1,)),
            ["repartitioned"],
            id="built with fewer",
        ),
        pytest.param(
            context(B1, active=(0,), topic_partitions=2), ["repartitioned"], id="has more by now"
        ),
    ],
)  # fmt: skip
def test_warnings(served: Any, expected: list[str]) -> None:
    assert codes(topology_document(served, says())) == expected


@pytest.mark.slow
def test_peers_are_asked_over_http_and_those_that_do_not_answer_are_unreachable() -> None:
    with (
        answering(B2_SAYS) as good,
        answering({"id": "b9"}) as another,
        answering(b"<html>") as no_json,
        answering([]) as no_object,
        answering({"id": "b2"}, status=503) as failing,
        nobody() as refusing,
        silent() as hanging,
    ):
        ports = [good, another, no_json, no_object, failing, refusing, hanging]
        statements = Peers(timeout=0.3).ask([member("b2", port) for port in ports])

    assert statements[0] == B2_SAYS
    assert [statement["state"] for statement in statements[1:]] == ["unreachable"] * 6
    assert all(statement["error"] for statement in statements[1:])
    assert statements[5]["error"] == "connection refused"


@pytest.mark.slow
def test_many_hanging_instances_take_no_longer_than_the_deadline() -> None:
    with silent() as hanging, answering(B2_SAYS) as good:
        peers = Peers(timeout=0.4, deadline=0.6)
        members: list[Member] = [member("b2", hanging) for _ in range(64)]
        began = time.monotonic()
        statements = peers.ask([member("b2", good), *members])
        took = time.monotonic() - began

        assert statements[0] == B2_SAYS
        assert {statement["state"] for statement in statements[1:]} == {"unreachable"}
        assert took < 64 / 16 * 0.4
