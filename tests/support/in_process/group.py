"""A consumer group in which the test is the broker and the other members."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from types import SimpleNamespace

from backend.cluster.assignor import TopologyAssignor
from model.group.member_metadata import MemberMetadata
from model.group.topology_reference import Assigned


class FakeGroup:
    """A `Group` (backend/cluster/member.py) that calls the assignor as kafka-python does.

    A join sends the metadata in its first poll, and ends in its last one. As in kafka-python, its
    end makes the consumer forget that it must rejoin, also if that was requested during the join.
    """

    def __init__(
        self, polls_per_join: int = 1, partitions: Mapping[str, int] | None = None
    ) -> None:
        """`partitions`: topic -> number of partitions."""
        self.assigned: deque[Assigned] = deque()
        """What another leader sends with the next joins. If empty, the consumer is the leader."""
        self.before_poll: defaultdict[int, list[Callable[[], None]]] = defaultdict(list)
        """What happens before the n-th poll, from 1 on."""
        self.polls: list[float] = []  # times, s
        self.checks = 0  # how often it was checked whether the consumer must join
        self.sent: list[MemberMetadata] = []  # with each join
        self.heartbeat_ms = 0
        self.heartbeat_ms_of_joins: list[int] = []
        self.opened = 0
        self.closed = 0
        self._partitions = {"orders": 1} if partitions is None else partitions
        self._polls_per_join = polls_per_join
        self._polls_left = 0
        self._must_rejoin = threading.Event()
        self._generation = 0

    def open(self, assignor: TopologyAssignor, may_have_to_join: Callable[[], None]) -> FakeGroup:
        self.opened += 1
        self._assignor = assignor
        self.call_back = may_have_to_join
        self._must_rejoin.set()
        return self

    def rebalance(self) -> None:
        """Another member joins: the answer to a heartbeat says so."""
        self.request_rejoin()

    # what the member calls

    @property
    def is_joining(self) -> bool:
        return self._polls_left > 0

    @property
    def must_join(self) -> bool:
        self.checks += 1
        return self.is_joining or self._must_rejoin.is_set()

    def poll(self) -> None:
        self.polls.append(time.monotonic())
        for action in self.before_poll[len(self.polls)]:
            action()
        if not self.is_joining and self._must_rejoin.is_set():
            self._send_metadata()
            self._polls_left = self._polls_per_join
        if self.is_joining:
            if self._polls_left == 1:
                self._receive()
                self._must_rejoin.clear()
            self._polls_left -= 1

    def request_rejoin(self) -> None:
        self._must_rejoin.set()
        self.call_back()

    def set_heartbeat_interval(self, ms: int) -> None:
        self.heartbeat_ms = ms

    def close(self) -> None:
        self.closed += 1

    def _send_metadata(self) -> None:
        self.heartbeat_ms_of_joins.append(self.heartbeat_ms)
        self._subscription = self._assignor.metadata(set(self._partitions))
        self.sent.append(MemberMetadata.decode(self._subscription.user_data))

    def _receive(self) -> None:
        self._generation += 1
        user_data = self.assigned.popleft().encode() if self.assigned else self._lead()
        self._assignor.on_assignment(SimpleNamespace(user_data=user_data), self._generation)

    def _lead(self) -> bytes:
        cluster = SimpleNamespace(
            partitions_for_topic=lambda topic: set(range(self._partitions[topic])),
            topic_id=lambda topic: None,
            unauthorized_topics=set(),
        )
        members = [SimpleNamespace(member_id="member", metadata=self._subscription)]
        assignment = self._assignor.assign(cluster, members)["member"]
        user_data: bytes = assignment.user_data
        return user_data
