"""What /health/ready says of the deployment's redundancy, and of views without partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from backend.admin.instance_status import readiness
from backend.admin.redundancy import OwnReport, redundancy
from backend.cluster.liveness import MISSED_BEFORE_DEAD, PartitionReport
from backend.instance.context import InstanceContext
from tests.unit.backend.admin.fakes import EPOCH, ORDERS, context, held, member

B1, B2, B3 = member("b1"), member("b2", 2), member("b3", 3)


def reports(served: InstanceContext, **unanswerable: tuple[int, ...]) -> None:
    """The other instances answer heartbeats: `b2=(0, 1)` cannot answer for these partitions."""
    served.group.peers.keep(["b2", "b3"])
    for id_, partitions in unanswerable.items():
        report = PartitionReport(str(EPOCH), {"orders": partitions} if partitions else {})
        served.group.peers.heard(id_, "running", report)


def test_a_replica_that_cannot_answer_does_not_count() -> None:
    """Regression: an instance with a full disk was assigned 75 partitions, could answer for 22 of
    them, and `below` was 0."""
    opened = (held(0), held(1), held(2))
    served = context(B1, B2, active=(0, 0, 1), standbys=((1,), (1,), (0,)), holding=opened)
    reports(served, b2=(0, 2))
    assert redundancy(served) == {"wanted": 2, "below": 2, "unknown": 0, "lost": []}
    reports(served, b2=())
    assert redundancy(served)["below"] == 0


def test_a_replica_of_this_instance_that_cannot_answer_does_not_count() -> None:
    opened = (held(0), held(1, position=3))
    served = context(B1, B2, active=(0, 0, 0), standbys=((1,),) * 3, holding=opened, opening=(2,))
    reports(served, b2=())
    assert redundancy(served)["below"] == 2
    assert OwnReport(served)() == PartitionReport(str(EPOCH), {"orders": (1, 2)})


def test_a_dead_instance_does_not_count() -> None:
    described = {**ORDERS.description(), "store": "global"}
    served = context(B1, B2, B3, active=(0,), standbys=((1, 2),), holding=(held(0),))
    placed = replace(served.group.topology.views["orders"], description=described)
    served.group.topology = replace(served.group.topology, views={"orders": placed})
    reports(served, b2=(), b3=())
    assert redundancy(served) == {"wanted": 2, "below": 0, "unknown": 0, "lost": []}
    for _ in range(MISSED_BEFORE_DEAD):
        served.group.peers.missed("b3")
    assert redundancy(served) == {"wanted": 2, "below": 1, "unknown": 0, "lost": []}


@pytest.mark.parametrize("epoch", [None, "1-1"])
def test_what_is_not_known_is_not_claimed(epoch: str | None) -> None:
    """An instance that has sent no report, or one for another topology."""
    opened = (held(0), held(1))
    served = context(B1, B2, B3, active=(0, 1, 2), standbys=((1,), (0,), ()), holding=opened)
    served.group.peers.keep(["b2"])
    if epoch is not None:
        served.group.peers.heard("b2", "running", PartitionReport(epoch, {}))
    assert redundancy(served) == {"wanted": 2, "below": 1, "unknown": 2, "lost": []}


def test_a_report_is_made_again_when_the_topology_changes() -> None:
    served = context(B1, B2, active=(0,), standbys=((1,),), holding=(held(0),))
    own = OwnReport(served)
    assert own() == PartitionReport(str(EPOCH), {})
    [placed] = served.group.topology.views.values()
    later = EPOCH._replace(generation=8)
    views = {"orders": replace(placed, active=(0, 0), standbys=((1,), (1,)))}
    served.group.topology = replace(served.group.topology, epoch=later, views=views)
    assert own() == PartitionReport(str(later), {"orders": (1,)})


def test_a_partition_without_a_replica_is_below() -> None:
    assert redundancy(context(B1, active=(-1,)))["below"] == 1


def ready(served: InstanceContext) -> tuple[bool, list[dict[str, Any]]]:
    is_ready, document = readiness(served)
    assert document["ready"] is is_ready
    return is_ready, document["without_partitions"]


def test_an_instance_of_a_new_deployment_is_ready_before_its_topics_exist() -> None:
    expected = {"view": "orders", "topic": "orders-topic", "had_partitions": False}
    assert ready(context(B1, active=())) == (True, [expected])


def test_an_instance_that_has_lost_sight_of_a_topic_is_not_ready() -> None:
    """All instances were restarted after the topic was deleted, or after they lost the permission
    to describe it: no read of the view is answered."""
    served = context(B1, active=())
    served.on_disk = lambda: {"orders": [0, 1]}
    expected = {"view": "orders", "topic": "orders-topic", "had_partitions": True}
    assert ready(served) == (False, [expected])
    served.on_disk = lambda: {"removed": [0]}
    assert ready(served)[0], "stores of a view that is no longer declared"


def test_an_instance_that_was_ready_stays_so_when_a_topic_is_deleted() -> None:
    """All instances lose sight of it at once, and would no longer answer for the other views."""
    served = context(B1, active=())
    assert ready(served)[0]
    served.on_disk = lambda: {"orders": [0, 1]}
    is_ready, [view] = ready(served)
    assert is_ready
    assert view["had_partitions"]


def test_an_instance_that_owns_no_partition_of_a_topic_is_ready() -> None:
    served = context(B1, B2, active=(1,))
    served.on_disk = lambda: {"orders": [0]}
    assert ready(served) == (True, [])
