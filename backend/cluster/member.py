"""The membership thread: keeps this instance in the deployment's consumer group.

Reads and ingest continue when membership fails: only a newer topology changes the assignment.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from kafka.errors import KafkaError

from backend.cluster.assignor import TopologyAssignor
from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.namesakes import address_of
from backend.cluster.placement import Policy
from backend.cluster.topic_partitions import TopicPartitions
from backend.cluster.topology_fetcher import TopologyFetcher
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.group.id_in_use import IdInUse
from model.group.member_metadata import MemberMetadata
from model.group.topology_reference import Assigned, TopologyReference
from model.topology import Member, Topology, TopologyError

log = logging.getLogger(__name__)

IDLE_POLL = 2.0
"""Seconds between two polls while there is nothing to join."""
MIN_HEARTBEAT_MS = 100
# After a join, others may join as well: a member learns of this from the answer to a heartbeat.
_JOINED_RECENTLY = 3.0  # s
_FREQUENT_HEARTBEATS = 250  # per second of the whole group


class Group(Protocol):
    """One consumer of this instance in the consumer group. While the consumer joins, it calls the
    assignor with which the group was opened."""

    @property
    def is_joining(self) -> bool:
        """Whether a join is in progress, which the next poll must continue."""

    @property
    def must_join(self) -> bool:
        """Whether the consumer is outside of its group, or must join it again."""

    def poll(self) -> None:
        """Join the group if that is needed, for a fraction of a second at most. Else tell the
        group that this instance is alive."""

    def request_rejoin(self) -> None:
        """Make the consumer join again in the next poll."""

    def set_heartbeat_interval(self, ms: int) -> None:
        """Change the interval, from the next heartbeat on."""

    def close(self) -> None:
        """Leave the group immediately."""


OpenGroup = Callable[[TopologyAssignor, Callable[[], None]], Group]
"""Opens the group with an assignor. The second argument is called, in any thread, whenever the
consumer may have to join again, until the group is closed."""


class GroupMember:
    """Joins the group, stays in it, and rejoins when the topology must be updated."""

    def __init__(
        self,
        open_group: OpenGroup,
        heartbeat_ms: int,
        member_metadata: Callable[[], MemberMetadata],
        on_topology: Callable[[Topology], None],
        policy: Policy,
        topologies: EncodedTopologies,
        fetcher: TopologyFetcher,
        max_record_bytes: int,
        polled: Callable[[str], TopicPartitions | None],
        on_id_in_use: Callable[[str], None],
        patience: float,
        idle_poll: float = IDLE_POLL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`heartbeat_ms`: the interval if no join is expected. For `policy` to `polled`, see
        TopologyAssignor. `on_id_in_use(reason)`: called if another instance still has the id of
        this one after `patience` s, within which the group forgets a member that has crashed.
        `clock()`: measures the time since a join (s)."""
        self._open_group = open_group
        self._usual_heartbeat_ms = heartbeat_ms
        self._member_metadata = member_metadata
        self._sent: MemberMetadata | None = None
        self._on_topology = on_topology
        self._policy = policy
        self._topologies = topologies
        self._fetcher = fetcher
        self._max_record_bytes = max_record_bytes
        self._polled = polled
        self._on_id_in_use = on_id_in_use
        self._patience = patience
        self._refused_at: float | None = None  # s, since when another instance has the id
        self._ends_because = ""
        self._idle_poll = idle_poll
        self._clock = clock
        self._current = Topology()
        self._referenced_ms = 0
        self._rejoin = threading.Event()
        self._wake = threading.Event()  # ends a wait
        self._stop = threading.Event()
        self._joined_at = clock()
        self.rebalance_seconds = 0.0  # from joining to the new topology, since the start
        self._thread = threading.Thread(target=self._run, name="member", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Leave the group immediately, so that others need not wait for the session timeout."""
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
                self._take_part()
            except Exception as e:  # the thread must survive any error of the broker
                is_expected = isinstance(e, KafkaError)
                failures.warn("group", f"group membership: {e}", None if is_expected else e)
                self._stop.wait(1.0)
            if self._ends_because:  # it has left the group
                self._on_id_in_use(self._ends_because)
                return

    def _take_part(self) -> None:
        """Take part with one consumer, until the member stops or ends, or the consumer fails."""
        assignor = TopologyAssignor(
            self._metadata,
            self._assigned,
            self._policy,
            self._topologies,
            self._max_record_bytes,
            self._polled,
            lambda: self._current,
        )
        group = self._open_group(assignor, self._wake.set)
        try:
            while not self._stop.is_set():
                self._poll(group)
                if self._ends_because:
                    return
                # a join must be continued immediately, and brings another topology
                if not group.is_joining:
                    self._fetch()
                self._wait(group)
        finally:
            group.close()

    def _heartbeat_ms(self, group: Group) -> int:
        """The interval, ms. It is shorter before a join and for some seconds after it, so that
        instances that start one after the other soon share the partitions. It grows with the number
        of members, so that heartbeats are no load for the broker."""
        usual = self._usual_heartbeat_ms
        if not group.must_join and self._clock() > self._joined_at + _JOINED_RECENTLY:
            return usual
        if self._fetcher.wait is not None:  # the topology is large, and so is the group
            return usual
        by_group = 1000 * len(self._current.members) // _FREQUENT_HEARTBEATS
        return min(usual, max(MIN_HEARTBEAT_MS, by_group))

    def _poll(self, group: Group) -> None:
        group.set_heartbeat_interval(self._heartbeat_ms(group))
        group.poll()
        # a request is repeated until its metadata are sent: when a join that began before the
        # request ends, kafka-python forgets that it must rejoin
        if self._rejoin.is_set() or group.is_joining:
            group.request_rejoin()

    def _fetch(self) -> None:
        """Get the topology that the leader has sent by reference, if an attempt is due. Do not call
        this while kafka-python handles the assignment: its heartbeat thread would wait."""
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

    def _wait(self, group: Group) -> None:
        """Wait until the next poll or attempt is due. kafka-python's other thread sends the
        heartbeats, and notes that the group rebalances."""
        attempt = self._fetcher.wait
        seconds = self._idle_poll if attempt is None else attempt
        if self._refused_at is not None and not group.must_join:
            left = self._refused_at + self._patience - self._clock()
            seconds = min(seconds, left)
            if left <= 0:
                self._rejoin.set()  # ask the leader again
        until = time.monotonic() + seconds
        # the poll may have brought a topology
        group.set_heartbeat_interval(self._heartbeat_ms(group))
        while not (group.must_join or self._rejoin.is_set() or self._stop.is_set()):
            left = until - time.monotonic()
            if left <= 0:
                return
            self._wake.wait(left)
            self._wake.clear()  # before the conditions are checked again

    def _metadata(self) -> MemberMetadata:
        """The metadata for a join. `member_metadata` assumes that its result is sent to the
        leader."""
        self._rejoin.clear()  # first: a request from now on needs another join
        self._sent = replace(self._member_metadata(), referenced_ms=self._referenced_ms)
        self._joined_at = self._clock()
        return self._sent

    def _assigned(self, assigned: Assigned, generation: int) -> None:
        if isinstance(assigned, IdInUse):
            self._fetcher.cancel()
            self._refused(assigned.holder)
            return
        self._refused_at = None
        if isinstance(assigned, TopologyReference):
            self._referenced_ms = max(self._referenced_ms, assigned.epoch_ms)
            self._fetcher.request(assigned, generation)
        else:
            self._fetcher.cancel()
            self._topology(assigned)

    def _refused(self, holder: Member) -> None:
        """Another instance has the id. It may have crashed, or be stopping: ask once again."""
        assert self._sent is not None
        me = self._sent.member
        text = (
            f"instance {me.id} ({address_of(me)}) gets no partitions: another instance with this "
            f"id is in the group, at {address_of(holder)}."
        )
        if self._refused_at is None:
            self._refused_at = self._clock()
            log.warning(
                "%s This one ends if the other is still there in %g s", text, self._patience
            )
        elif self._clock() >= self._refused_at + self._patience:
            self._ends_because = (
                f"{text} Give each instance its own id (QUERYABLE_INSTANCE_ID), or stop the other "
                f"one first"
            )

    def _topology(self, topology: Topology) -> None:
        self._current = topology
        self.rebalance_seconds += self._clock() - self._joined_at
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
