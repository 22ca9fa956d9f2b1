"""The metadata that an instance sends to its group's leader, and when it must send it again.

It combines open store partitions, topology and data folder, so it is part of the composition root.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from backend.cluster.group_state import GroupState
from backend.cluster.topic_partitions import TopicPartitions
from backend.ingest.metadata.poller import MetadataPoller
from backend.ingest.store_partitions import PartitionRegistry
from backend.instance.settings import is_loopback
from backend.security.cluster import ClusterAccess
from backend.storage.findings import Finding, FindingsFile
from model.group.member_metadata import MemberMetadata
from model.machine.clock import boot_time
from model.machine.network import network_id
from model.records import hash_of_topic
from model.topology import ACTIVE, NO_EPOCH, STANDBY, WARMING, Epoch, PlacedView, Topology
from model.views import View

_REPEAT_AFTER = 10.0  # s


class MembershipReporter:
    """Builds this instance's metadata, and remembers what it reported last."""

    def __init__(
        self,
        group: GroupState,
        cluster: ClusterAccess,
        metadata_poller: MetadataPoller,
        ends_trusted_for: float,
        views: tuple[View, ...],
        registry: PartitionRegistry,
        on_disk: Callable[[], Mapping[str, list[int]]],
        opening: Callable[[], Iterable[tuple[str, int]]],
        findings: FindingsFile,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ends_trusted_for`: s for which a broker's answer is current. `on_disk()`:
        view -> partitions with a store on disk. `opening()`: assigned store partitions that are not
        open yet. `findings`: what was known before a restart. `clock()`: s."""
        self._group = group
        self._cluster = cluster
        self._metadata_poller = metadata_poller
        self._ends_trusted_for = ends_trusted_for
        self._declared = views
        self._registry = registry
        self._on_disk = on_disk
        self._opening = opening
        self._findings = findings
        self._remembered = findings.read()
        self._writes_findings = threading.Lock()
        self._clock = clock
        self._network = network_id()
        self._started_at_ms = time.time_ns() // 1_000_000
        # view -> (epoch of a topology that was made before there was a store, hash of the topic)
        self._topic_hashes: dict[str, tuple[Epoch, int]] = {}
        self._reported_at = 0.0
        self._reported_counts: Mapping[str, tuple[int, ...]] = {}
        self._reported_ready: dict[str, tuple[int, ...]] = {}

    @property
    def _views(self) -> tuple[View, ...]:
        """The views of this instance, without dropped versions."""
        dropped = self._group.versions.dropped
        return tuple(view for view in self._declared if view.name not in dropped)

    def now(self, highest_epoch: Epoch) -> MemberMetadata:
        """The metadata for joining the group now."""
        open_partitions = self._registry.all()
        topology, me = self._group.topology, self._group.me
        on_disk = self._on_disk()
        self._reported_at = self._clock()
        before = self._known_before()
        known = self._partition_counts(before)
        self._reported_counts = {name: counts for name, (counts, _) in known.items()}
        self._reported_ready = {
            view.name: tuple(
                opened.partition
                for opened in open_partitions
                if opened.view is view and opened.progress.answerable
            )
            for view in self._views
        }
        topology_mispartitioned = tuple(
            name for name, finding in before.items() if finding.mispartitioned
        )
        roles = {view.name: topology.roles_of(me.id, view.name) for view in self._views}
        return MemberMetadata(
            member=me,
            views=MemberMetadata.views_of(self._views),
            positions={
                # a store on disk is useful even if it is not open yet
                view.name: dict.fromkeys(on_disk.get(view.name, ()), 0)
                | {
                    opened.partition: opened.progress.position
                    for opened in open_partitions
                    if opened.view is view
                }
                for view in self._views
            },
            active={name: tuple(of[ACTIVE]) for name, of in roles.items()},
            epoch=highest_epoch,
            started_at_ms=self._started_at_ms,
            mispartitioned=self._mispartitioned(topology_mispartitioned),
            topology_mispartitioned=topology_mispartitioned,
            partition_counts=self._reported_counts,
            topic_hashes={name: topic_hash for name, (_, topic_hash) in known.items()},
            ready=self._reported_ready,
            standby={name: tuple(of[STANDBY]) for name, of in roles.items()},
            drained=self._group.drained,
            reads_references=self._can_fetch_topologies,
            network=self._network,
        )

    @property
    def _can_fetch_topologies(self) -> bool:
        """Without authentication, internal routes answer on loopback only."""
        return self._cluster.is_configured or is_loopback(self._group.me.host)

    def polled_partitions(self, topic: str) -> TopicPartitions | None:
        """The broker's last answer about the topic, for a leader. None if the broker has not
        answered for a while, because the topic may be another one by now."""
        polled = self._metadata_poller.get(topic)
        if polled is None:
            return None
        if boot_time() - polled.fetched_boot_time > self._ends_trusted_for:
            return None
        return TopicPartitions(hash_of_topic(polled.topic_id), polled.partitions)

    def remember(self) -> None:
        """Store what the topology says about the views, for the time after a restart of all
        instances. Any thread may call it."""
        with self._writes_findings:
            topology = self._group.topology
            if topology.epoch != NO_EPOCH:
                self._findings.write(self._findings_of(topology))

    def _known_before(self) -> Mapping[str, Finding]:
        """What the topology says of the views; before there is one, what this instance knew when it
        stopped."""
        topology = self._group.topology
        if topology.epoch != NO_EPOCH:
            return self._findings_of(topology)
        hashes = {view.name: view.hash for view in self._views}
        return {
            name: finding
            for name, finding in self._remembered.items()
            if hashes.get(name) == finding.view_hash
        }

    def _findings_of(self, topology: Topology) -> dict[str, Finding]:
        """What a topology says of the views whose topics exist."""
        findings = {}
        for name, placed in topology.views.items():
            counts, topic_hash = placed.partition_counts, placed.topic_hash
            if not counts and placed.partitions:  # it was made before there was a store
                topic_hash = self._topic_hash_of(name, placed, topology.epoch)
                # counts of an unknown topic would apply for good to a topic that is created again
                counts = (placed.partitions,) if topic_hash else ()
            if counts or placed.mispartitioned:
                findings[name] = Finding(placed.hash, counts, placed.mispartitioned, topic_hash)
        return findings

    def _topic_hash_of(self, view: str, placed: PlacedView, epoch: Epoch) -> int:
        """The hash of the topic that the view had when this topology was made; 0: unknown. The hash
        is kept, because the topic may be created again."""
        hash_epoch, topic_hash = self._topic_hashes.get(view, (NO_EPOCH, 0))
        if hash_epoch == epoch:
            return topic_hash
        known = self._metadata_poller.latest.get(placed.description.get("topic", ""))
        if known is None or known.partitions != placed.partitions:
            return 0
        topic_hash = hash_of_topic(known.topic_id)
        self._topic_hashes[view] = epoch, topic_hash
        return topic_hash

    def _partition_counts(
        self, before: Mapping[str, Finding]
    ) -> dict[str, tuple[tuple[int, ...], int]]:
        """View -> the numbers of partitions that its topic has had, as far as stores know them, and
        the hash of this topic (0: unknown). Counts that were known before are included until all
        stores are open here. Counts of another topic that had the same name are not included."""
        is_joined = self._group.topology.epoch != NO_EPOCH
        opening = {view for view, _ in self._opening()}
        counts_by_view = {}
        for view in self._declared:
            known = self._metadata_poller.latest.get(view.topic)
            topic_id = known.topic_id if known is not None else ""
            topic_hash = hash_of_topic(topic_id) if topic_id else 0
            counts = self._registry.own_partition_counts(view, topic_id)
            finding = before.get(view.name)
            if (
                finding is not None
                and (not is_joined or view.name in opening)
                and (topic_hash == finding.topic_hash or 0 in (topic_hash, finding.topic_hash))
            ):
                counts.update(finding.partition_counts)
                topic_hash = topic_hash or finding.topic_hash
            if counts:
                counts_by_view[view.name] = tuple(sorted(counts)), topic_hash
        return counts_by_view

    def _mispartitioned(self, topology_mispartitioned: tuple[str, ...]) -> tuple[str, ...]:
        """Views with mispartitioned records. They were found here, or the topology marks them and a
        store partition here has not caught up yet."""
        catching_up = {view for view, _ in self._opening()} | {
            opened.view.name
            for opened in self._registry.all()
            if opened.progress.position < opened.progress.target_offset
        }
        return tuple(
            {*self._registry.mispartitioned_views(), *(catching_up & set(topology_mispartitioned))}
        )

    def is_out_of_date(self) -> bool:
        """Whether the leader needs a new report to make a newer topology."""
        return (
            self._has_unreported_findings()
            or self._can_become_active()
            or self._partition_counts_differ()
            or self._counts_were_ignored()
        )

    def _has_unreported_findings(self) -> bool:
        """Whether the leader does not know of mispartitioned records, or of a store that was
        created with another number of partitions. Both change how other instances must read the
        view."""
        counts_by_view = self._partition_counts(self._findings_of(self._group.topology))
        mispartitioned = set(self._registry.mispartitioned_views())
        for name, placed in self._group.topology.views.items():
            known = {placed.partitions, *placed.partition_counts}
            own = set(counts_by_view[name][0]) if name in counts_by_view else set()
            reported = set(self._reported_counts.get(name, ()))
            # a leader of an older version does not pass all of them on
            is_new = any(count < placed.partitions for count in own - known - reported)
            # the leader may know such a count from this instance alone
            is_gone = own and (reported - own).intersection(placed.partition_counts)
            if is_new or is_gone:
                return True
            if name in mispartitioned and not placed.mispartitioned:
                return True
        return False

    def _can_become_active(self) -> bool:
        """Whether all warming partitions can become active now, and the leader does not know it.

        The next topology then makes them active. KIP-441 uses a probing rebalance every ten minutes
        instead.
        """
        topology, me = self._group.topology, self._group.me
        warming = {
            (view.name, partition)
            for view in self._views
            for partition in topology.roles_of(me.id, view.name)[WARMING]
        }
        opened = [self._registry.get(*partition_id) for partition_id in warming]
        if not all(p is not None and p.progress.answerable for p in opened):
            return False
        is_unreported = any(
            partition not in self._reported_ready.get(name, ()) for name, partition in warming
        )
        # repeat the report: the leader may have found that this instance lags too much
        return is_unreported or (
            bool(warming) and self._clock() - self._reported_at > _REPEAT_AFTER
        )

    def _partition_counts_differ(self) -> bool:
        """Whether partition counts differ from the topology. Normally the leader detects this.
        Metadata from before the last report do not count: the topic may have been deleted."""
        topology, topic_metadata = self._group.topology, self._metadata_poller.latest
        return self._clock() - self._reported_at > _REPEAT_AFTER and any(
            (known := topic_metadata.get(view.topic)) is not None
            and known.fetched_at >= self._reported_at
            and (placed := topology.views.get(view.name)) is not None
            and known.partitions != placed.partitions
            for view in self._views
        )

    def _counts_were_ignored(self) -> bool:
        """Whether the leader has ignored the partition counts of a view, because members knew
        different topics with the same name: one that was deleted, and one that was created."""
        return self._clock() - self._reported_at > _REPEAT_AFTER and any(
            not placed.partition_counts
            and any(count <= placed.partitions for count in self._reported_counts.get(name, ()))
            for name, placed in self._group.topology.views.items()
        )
