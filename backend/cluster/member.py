"""The membership thread: keeps this instance in the deployment's consumer group.

Reads and ingest continue when membership fails: only a newer topology changes the assignment.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaError

from backend.cluster.assignor import TopologyAssignor
from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.placement import Policy
from backend.cluster.topic_partitions import TopicPartitions
from backend.cluster.topology_fetcher import TopologyFetcher
from backend.rate_limited_log import RateLimitedLog
from model.group.member_metadata import MemberMetadata
from model.group.topology_reference import TopologyReference
from model.topology import Topology, TopologyError

log = logging.getLogger(__name__)

_POLL_MS = 200
_IDLE_POLL = 2.0  # s between two polls while there is nothing to join
# After a join, others may join as well: a member learns of this from the answer to a heartbeat.
_JOINED_RECENTLY = 3.0  # s
_MIN_HEARTBEAT_MS = 100
_FREQUENT_HEARTBEATS = 250  # per second of the whole group


class GroupMember:
    """Joins the group, stays in it, and rejoins when the topology must be updated."""

    def __init__(
        self,
        topics: frozenset[str],
        group_id: str,
        client_settings: Mapping[str, Any],
        session_timeout_ms: int,
        metadata_max_age_ms: int,
        member_metadata: Callable[[], MemberMetadata],
        on_topology: Callable[[Topology], None],
        policy: Policy,
        topologies: EncodedTopologies,
        fetcher: TopologyFetcher,
        max_record_bytes: int,
        polled: Callable[[str], TopicPartitions | None],
    ) -> None:
        """For the last four, see TopologyAssignor."""
        self._topics = topics
        self._member_metadata = member_metadata
        self._sent: MemberMetadata | None = None
        self._on_topology = on_topology
        self._policy = policy
        self._topologies = topologies
        self._fetcher = fetcher
        self._max_record_bytes = max_record_bytes
        self._polled = polled
        self._current = Topology()
        self._referenced_ms = 0
        self._settings = {
            **client_settings,
            "group_id": group_id,
            "client_id": "queryable-member",
            "enable_auto_commit": False,
            "auto_offset_reset": "latest",
            "allow_auto_create_topics": False,
            "session_timeout_ms": session_timeout_ms,
            "heartbeat_interval_ms": max(_MIN_HEARTBEAT_MS, session_timeout_ms // 5),
            # the time for which a rebalance waits for live members that do not join
            "max_poll_interval_ms": max(2 * session_timeout_ms, 10_000),
            "metadata_max_age_ms": metadata_max_age_ms,
            "reconnect_backoff_max_ms": 1_000,
            "request_timeout_ms": max(2 * session_timeout_ms, 10_000) + 5_000,
            "metrics_enabled": False,
        }
        self._rejoin = threading.Event()
        self._wake = threading.Event()  # ends a wait
        self._stop = threading.Event()
        self._joined_at = time.monotonic()
        self.rebalance_seconds = 0.0  # from joining to the new topology, since the start
        self._thread = threading.Thread(target=self._run, name="member", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Leave the group at once, so that others need not wait for the session timeout."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def rejoin(self) -> None:
        """Request a new topology, with current metadata of this instance."""
        self._rejoin.set()
        self._wake.set()

    def _run(self) -> None:
        failures = RateLimitedLog(log)
        while not self._stop.is_set():
            try:
                self._run_consumer()
            except Exception as e:  # the thread must survive any error of the broker
                is_expected = isinstance(e, KafkaError)
                failures.warn("group", f"group membership: {e}", None if is_expected else e)
                self._stop.wait(1.0)

    def _run_consumer(self) -> None:
        consumer = KafkaConsumer(
            partition_assignment_strategy=[
                TopologyAssignor(
                    self._metadata,
                    self._assigned,
                    self._policy,
                    self._topologies,
                    self._max_record_bytes,
                    self._polled,
                    lambda: self._current,
                )
            ],
            **self._settings,
        )
        create_no_topics(consumer)
        call_if_it_must_join(consumer, self._wake.set)
        try:
            subscribe(consumer, self._topics)
            while not self._stop.is_set():
                self._poll(consumer)
                # a join must be continued at once, and brings another topology
                if not is_joining(consumer):
                    self._fetch()
                self._wait(consumer)
        finally:
            consumer.close(autocommit=False, timeout_ms=2_000)

    def _heartbeat_ms(self, consumer: KafkaConsumer) -> int:
        """The interval, ms. It is shorter before a join and for some seconds after it, so that
        instances that start one after the other soon share the partitions; the more members, the
        longer, so that heartbeats are no load for the broker."""
        usual: int = self._settings["heartbeat_interval_ms"]
        if not must_join(consumer) and time.monotonic() > self._joined_at + _JOINED_RECENTLY:
            return usual
        if self._fetcher.wait is not None:  # the topology is large, and so is the group
            return usual
        by_group = 1000 * len(self._current.members) // _FREQUENT_HEARTBEATS
        return min(usual, max(_MIN_HEARTBEAT_MS, by_group))

    def _poll(self, consumer: KafkaConsumer) -> None:
        set_heartbeat_interval(consumer, self._heartbeat_ms(consumer))
        poll_group(consumer)
        # a request stays until its metadata are sent: the end of a join that began before the
        # request makes kafka-python forget that it must rejoin
        if self._rejoin.is_set() or is_joining(consumer):
            request_rejoin(consumer)

    def _fetch(self) -> None:
        """Get the topology that the leader has sent by reference, if an attempt is due. Not while
        kafka-python handles the assignment: its thread for heartbeats would wait."""
        try:
            topology = self._fetcher.attempt(self._current)
        except TopologyError as e:
            log.error("the leader's topology is invalid: %s", e)
            return
        if topology is not None:
            self._topology(topology)
        elif self._fetcher.has_given_up:
            log.warning("no instance has sent the new topology: the group needs another one")
            self._fetcher.give_up()
            self._rejoin.set()

    def _wait(self, consumer: KafkaConsumer) -> None:
        """Wait until the next poll or attempt is due. kafka-python's other thread sends the
        heartbeats, and notes that the group rebalances."""
        attempt = self._fetcher.wait
        until = time.monotonic() + (_IDLE_POLL if attempt is None else attempt)
        heartbeat_ms = self._heartbeat_ms(consumer)
        set_heartbeat_interval(consumer, heartbeat_ms)  # the poll may have brought a topology
        while not (must_join(consumer) or self._rejoin.is_set() or self._stop.is_set()):
            left = until - time.monotonic()
            if left <= 0:
                return
            self._wake.wait(left)
            self._wake.clear()  # before the conditions are checked again

    def _metadata(self) -> MemberMetadata:
        """For a join. `member_metadata` assumes that its result is sent to the leader."""
        self._rejoin.clear()  # first: a request from now on needs another join
        self._sent = replace(self._member_metadata(), referenced_ms=self._referenced_ms)
        self._joined_at = time.monotonic()
        return self._sent

    def _assigned(self, assigned: Topology | TopologyReference, generation: int) -> None:
        if isinstance(assigned, TopologyReference):
            self._referenced_ms = max(self._referenced_ms, assigned.epoch_ms)
            self._fetcher.request(assigned, generation)
        else:
            self._fetcher.cancel()
            self._topology(assigned)

    def _topology(self, topology: Topology) -> None:
        self._current = topology
        self.rebalance_seconds += time.monotonic() - self._joined_at
        self._on_topology(topology)
        if self._sent is None:
            return
        me = self._sent.member
        if me not in topology.members:
            namesake = next((m for m in topology.members if m.id == me.id), None)
            log.error(
                "instance %s (%s:%d) is not in the topology of epoch %s: another instance with the "
                "same id, at %s, has started later. This instance gets no partitions. Give each "
                "instance its own id (QUERYABLE_INSTANCE_ID)",
                me.id, me.host, me.port, topology.epoch,
                f"{namesake.host}:{namesake.port}" if namesake else "an unknown address",
            )  # fmt: skip


def subscribe(consumer: KafkaConsumer, topics: frozenset[str]) -> None:
    """Subscribe, and fetch the topics' metadata before the first join.

    Without them, a leader would place no partitions. If they came before the subscription,
    kafka-python (3.0) would consider them as changed after the first join, and join again.
    """
    consumer.subscribe(topics=sorted(topics))
    for topic in topics:
        consumer.partitions_for_topic(topic)


def poll_group(consumer: KafkaConsumer) -> None:
    """Join the group if that is needed, for at most `_POLL_MS`; else tell kafka-python that this
    member is alive.

    The public `poll` would also look up committed offsets and fetch records, which another consumer
    does here, and would wake kafka-python's other thread ten times.
    """
    coordinator = consumer._coordinator
    if must_join(consumer):
        coordinator.poll(timeout_ms=_POLL_MS)
    else:
        coordinator.poll_heartbeat()


def request_rejoin(consumer: KafkaConsumer) -> None:
    """Make the consumer rejoin its group in the next poll.

    kafka-python has no public method for this (Java: `enforceRebalance`, KIP-568). Only this
    function uses the private one.
    """
    consumer._coordinator.request_rejoin()


def set_heartbeat_interval(consumer: KafkaConsumer, ms: int) -> None:
    """Change the interval, from the next heartbeat on. kafka-python has no public method for this,
    and reads the number before each wait."""
    consumer._coordinator.heartbeat.config["heartbeat_interval_ms"] = ms


def create_no_topics(consumer: KafkaConsumer) -> None:
    """Do not create missing topics on metadata requests.

    kafka-python (3.0) does not pass `allow_auto_create_topics` on to its metadata requests.
    """
    consumer._cluster.config["allow_auto_create_topics"] = False


def call_if_it_must_join(consumer: KafkaConsumer, call: Callable[[], None]) -> None:
    """Call `call()` when the answer to a heartbeat, or new metadata of topics, may say that the
    consumer must join again. kafka-python's other thread notes this, and tells nobody.
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
    # a listener could be called before that of the coordinator, which compares the metadata
    consumer._cluster.update_metadata = calling(consumer._cluster.update_metadata)


def is_joining(consumer: KafkaConsumer) -> bool:
    """Whether a join is in progress, which the next poll must continue.

    kafka-python (3.0) forgets a join that a metadata change started, if it takes longer than one
    poll. Then heartbeats stay off, and the member silently drops out of its group (Java checks this
    in `AbstractCoordinator.rejoinNeededOrPending`).
    """
    return bool(consumer._coordinator.rejoining)


def must_join(consumer: KafkaConsumer) -> bool:
    """Whether the member is outside of its group, or must join it again. kafka-python has no public
    property for this."""
    coordinator = consumer._coordinator
    return is_joining(consumer) or coordinator.need_rejoin() or not coordinator.stable()
