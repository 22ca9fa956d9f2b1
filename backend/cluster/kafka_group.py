"""The deployment's consumer group, with kafka-python.

kafka-python (3.0) has no public methods for most of this. Only this module uses its private ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer

from backend.cluster.assignor import TopologyAssignor
from backend.cluster.member import MIN_HEARTBEAT_MS

_POLL_MS = 200


@dataclass(frozen=True)
class GroupSettings:
    """What the consumers of a group have in common. `client_settings`: how kafka-python reaches the
    broker."""

    topics: frozenset[str]
    group_id: str
    client_settings: Mapping[str, Any]
    session_timeout_ms: int
    metadata_max_age_ms: int

    @property
    def heartbeat_ms(self) -> int:
        """The usual interval between heartbeats (ms)."""
        return max(MIN_HEARTBEAT_MS, self.session_timeout_ms // 5)

    @property
    def max_poll_interval_ms(self) -> int:
        """How long a rebalance waits for live members that do not join (ms). A member that does not
        poll for this time leaves the group."""
        return max(2 * self.session_timeout_ms, 10_000)

    def open(self, assignor: TopologyAssignor, may_have_to_join: Callable[[], None]) -> KafkaGroup:
        """See `OpenGroup` in backend/cluster/member.py."""
        settings = {
            **self.client_settings,
            "group_id": self.group_id,
            "client_id": "queryable-member",
            "enable_auto_commit": False,
            "auto_offset_reset": "latest",
            "allow_auto_create_topics": False,
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_ms,
            "max_poll_interval_ms": self.max_poll_interval_ms,
            "metadata_max_age_ms": self.metadata_max_age_ms,
            "reconnect_backoff_max_ms": 1_000,
            "request_timeout_ms": self.max_poll_interval_ms + 5_000,
            "metrics_enabled": False,
        }
        consumer = KafkaConsumer(partition_assignment_strategy=[assignor], **settings)
        _create_no_topics(consumer)
        _call_if_it_must_join(consumer, may_have_to_join)
        group = KafkaGroup(consumer)
        try:
            subscribe(consumer, self.topics)
        except BaseException:
            group.close()
            raise
        return group


class KafkaGroup:
    """Implements `Group`. `consumer` has already subscribed."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer

    @property
    def is_joining(self) -> bool:
        """Whether a join is in progress. kafka-python forgets a join that a metadata change
        started, if it takes longer than one poll. Then heartbeats stay off, and the member silently
        drops out of its group (Java checks this in `AbstractCoordinator.rejoinNeededOrPending`)."""
        return bool(self._consumer._coordinator.rejoining)

    @property
    def must_join(self) -> bool:
        coordinator = self._consumer._coordinator
        return self.is_joining or coordinator.need_rejoin() or not coordinator.stable()

    def poll(self) -> None:
        """Poll the coordinator only. The public `poll` would also look up committed offsets, fetch
        records (another consumer does that here), and wake kafka-python's other thread ten times.
        """
        if self.must_join:
            self._consumer._coordinator.poll(timeout_ms=_POLL_MS)
        else:
            self._consumer._coordinator.poll_heartbeat()

    def request_rejoin(self) -> None:
        """Make the consumer join again; `enforceRebalance` in Java (KIP-568)."""
        self._consumer._coordinator.request_rejoin()

    def set_heartbeat_interval(self, ms: int) -> None:
        """Change the interval. kafka-python reads it before each wait."""
        self._consumer._coordinator.heartbeat.config["heartbeat_interval_ms"] = ms

    def close(self) -> None:
        self._consumer.close(autocommit=False, timeout_ms=2_000)


def subscribe(consumer: KafkaConsumer, topics: frozenset[str]) -> None:
    """Subscribe, and fetch the topics' metadata before the first join.

    Without the metadata, a leader would place no partitions. If the metadata came before the
    subscription, kafka-python would see a change after the first join, and join again.
    """
    consumer.subscribe(topics=sorted(topics))
    for topic in topics:
        consumer.partitions_for_topic(topic)


def _create_no_topics(consumer: KafkaConsumer) -> None:
    """Do not create missing topics on metadata requests.

    kafka-python does not pass `allow_auto_create_topics` on to its metadata requests.
    """
    consumer._cluster.config["allow_auto_create_topics"] = False


def _call_if_it_must_join(consumer: KafkaConsumer, call: Callable[[], None]) -> None:
    """Call `call()` when the answer to a heartbeat, or new metadata of topics, may say that the
    consumer must join again. kafka-python's other thread notes this, but tells no other thread.
    """
    coordinator = consumer._coordinator

    def calling(method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            call()
            return result

        return called

    coordinator.request_rejoin = calling(coordinator.request_rejoin)
    coordinator.reset_generation = calling(coordinator.reset_generation)
    # a listener could be called before the coordinator's listener, which compares the metadata
    consumer._cluster.update_metadata = calling(consumer._cluster.update_metadata)
