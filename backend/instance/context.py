"""The parts and state of an instance that queries and HTTP use. `instance/app.py` builds it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from backend.cluster.change_log import ChangeLog
from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.liveness import DEAD, DRAINING, RUNNING, STARTING, Peers
from backend.cluster.lost_instances import LostInstances
from backend.cluster.member import GroupMember
from backend.ingest.appender import Appender
from backend.ingest.dead_letter_reader import DeadLetterReader
from backend.ingest.lifecycle.snapshot_fetcher import SnapshotFetcher
from backend.ingest.loop import IngestLoop
from backend.ingest.metadata.poller import MetadataPoller
from backend.ingest.pushes.push_fetcher import PushFetcher
from backend.ingest.record_reader import RecordReader
from backend.ingest.store_partitions import PartitionRegistry
from backend.instance.constants import Constants
from backend.instance.settings import Settings
from backend.pipelines.commands import CommandSender
from backend.pipelines.unused_groups import UnusedGroups
from backend.security.certificates import Certificates
from backend.security.cluster import ClusterAccess
from backend.telemetry.history import History
from backend.telemetry.latencies import Latencies
from backend.telemetry.peer_counts import PeerCounts
from backend.telemetry.rebalances import Rebalances
from backend.telemetry.spans import Spans, spans_of
from backend.wire.answer import Header
from backend.wire.scan import NEVER
from model.changes.deployments import DeploymentState
from model.group_views import GroupViews
from model.kinds.registry import kind_of
from model.machine.clock import boot_time
from model.pipelines.status import Pipeline
from model.problems import Unavailable
from model.topology import HTTP, HTTPS, Member, PlacedView, Topology
from model.versions import States, Versions, VersionState
from model.views import View

__all__ = ["DRAINING", "RUNNING", "STARTING", "InstanceContext", "ReadCounts"]

VIEW_VERSION = b"view-version"
"""The header with the version that an answer comes from. In a request that an instance forwards:
the version that it asks for."""

VIEW_DEFINITION = b"view-definition"
"""The header that says which definition of the view an answer was made with."""

MAX_OTHERS = 5
"""The most other instances that one request asks for a partition. A view may have many more
replicas, and if none of them could answer, each request would go to all."""


@dataclass
class ReadCounts:
    """The point reads of a view since the start, by outcome. Only the event loop writes."""

    found: int = 0
    missed: int = 0
    unavailable: int = 0
    forwarded: int = 0
    refused: int = 0

    @property
    def served(self) -> int:
        return self.found + self.missed


@dataclass
class ScanCounts:
    """The scans of a view since the start. Only the event loop writes.

    `requests` and `seconds`: client requests by kind (page, stream, or the name of a query), and
    their duration (s, including the time in which clients read). `entries`: entries read from this
    instance's partitions, also for other instances.
    """

    requests: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    entries: int = 0

    def __post_init__(self) -> None:
        self.add_kind("page")
        self.add_kind("stream")

    def add_kind(self, kind: str) -> None:
        """Adds a kind, so that the metrics have a series for it from 0 on."""
        self.requests.setdefault(kind, 0)
        self.seconds.setdefault(kind, 0.0)


@dataclass
class InstanceContext:
    """The parts and state of an instance. `topology`, `versions`, `deployment` and `state` are
    replaced, never modified. `topology` is the group's topology, at the revision of `versions` and
    `deployment`."""

    settings: Settings
    views: dict[str, View]
    store_partitions: PartitionRegistry
    metadata_poller: MetadataPoller
    ingest_loop: IngestLoop
    snapshot_fetcher: SnapshotFetcher
    member: GroupMember
    appender: Appender
    constants: Constants = field(default_factory=Constants)
    pushes: PushFetcher | None = None
    pipelines: Mapping[str, Pipeline] = field(default_factory=dict)  # by view, if it has one
    pipeline_commands: CommandSender = field(default_factory=CommandSender)
    unused_groups: UnusedGroups = field(default_factory=UnusedGroups)
    dead_letter_reader: DeadLetterReader = field(default_factory=DeadLetterReader)
    record_reader: RecordReader = field(default_factory=RecordReader)
    peers: Peers = field(default_factory=Peers)
    lost: LostInstances = field(default_factory=LostInstances)
    cluster: ClusterAccess = field(default_factory=ClusterAccess)
    topology: Topology = field(default_factory=Topology)
    # for members to which the leader has sent only a reference
    topologies: EncodedTopologies = field(default_factory=EncodedTopologies)
    state: str = STARTING
    drained: bool = False  # whether other instances should take over its partitions
    versions: Versions = field(default_factory=Versions)
    version_log: ChangeLog[VersionState] | None = None
    deployment: DeploymentState | None = None  # of the service; None: not known, or there is none
    deployment_log: ChangeLog[DeploymentState] | None = None
    on_versions: list[Callable[[], None]] = field(default_factory=list)
    on_topology: list[Callable[[], None]] = field(default_factory=list)
    epoch_header: bytes = b"0-0"
    counts: dict[str, ReadCounts] = field(default_factory=dict)
    scans: dict[str, ScanCounts] = field(default_factory=dict)
    certificates: Certificates = field(init=False)
    spans: Spans | None = field(init=False)  # for OpenTelemetry
    latencies: Latencies = field(default_factory=Latencies)
    peer_counts: PeerCounts = field(default_factory=PeerCounts)
    rebalances: Rebalances = field(default_factory=Rebalances)
    history: History = field(default_factory=History)
    # RocksDB's tickers, by name, and the bytes in its block cache
    rocksdb: Callable[[], tuple[Mapping[str, int], int]] = lambda: ({}, 0)
    over_quota: dict[str, int] = field(default_factory=dict)  # refused requests by view
    _revisions: itertools.count[int] = field(default_factory=itertools.count)
    revision: int = 0  # of this instance's /processors: another one when it may have changed
    # the ETag of /processors with quotes, and the revision in which the page was last built
    processors_etag: tuple[int, bytes] = (0, b"")

    def __post_init__(self) -> None:
        settings = self.settings
        self.certificates = Certificates(settings)
        self.spans = spans_of(
            settings.otlp_endpoint,
            settings.instance_id,
            settings.application_id,
            settings.otlp_ratio,
        )
        self.peers.on_change = self.revise
        self._changing = threading.Lock()  # of topology, versions and deployment
        self._of_group = self.topology
        if not self.versions.views:
            self.versions = Versions(tuple(self.views.values()))
        self.counts = {name: ReadCounts() for name in self.views}
        self.scans = {name: ScanCounts() for name in self.views}
        self.over_quota = {name: 0 for name, view in self.views.items() if view.quota}

    def others(self, view: str, partition: int, stale: str | None = None) -> list[Member]:
        """The other instances that may answer for a partition: the active first, suspects last. At
        most MAX_OTHERS.

        `stale`: NEVER returns the active only; ALLOW and None also return standbys.
        """
        me = self.me
        if stale == NEVER:
            active = self.topology.active_of(view, partition)
            return [] if active in (None, me) else [active]
        holders = [m for m in self.topology.holders_of(view, partition) if m != me]
        if len(holders) > 1:
            holders.sort(key=lambda member: self.peers.is_suspect(member.id))
        return holders[:MAX_OTHERS]

    def snapshot_sources(self, view: str, partition: int) -> list[Member]:
        """The instances to fetch a snapshot from: standbys before the active, suspects last."""
        active = self.topology.active_of(view, partition)
        others = self.others(view, partition)
        return sorted(others, key=lambda m: (self.peers.is_suspect(m.id), m == active))

    def replica_target(self, view: str) -> int:
        """How many instances should answer for each partition of a view."""
        placed = self.topology.views.get(view)
        kind = self.views[view].kind if placed is None else kind_of(placed.description["store"])
        instances = len(self.topology.members)
        return 1 + kind.standbys(self.settings.standby_replicas, instances)

    def reads_served(self) -> int:
        """How many reads of keys of all views were answered here."""
        return sum(counts.served for counts in self.counts.values())

    def pipeline_headers(self, view: View) -> tuple[Header, ...]:
        """The headers of every answer of the view; none if it has no pipeline."""
        pipeline = self.pipelines.get(view.name)
        return () if pipeline is None else pipeline.headers(boot_time())

    @property
    def me(self) -> Member:
        """This instance with its advertised address."""
        settings = self.settings
        scheme = HTTP if settings.tls_cert_file is None else HTTPS
        return Member(
            settings.instance_id,
            settings.advertised_host,
            settings.advertised_port,
            settings.rack,
            scheme,
        )

    @property
    def group(self) -> str:
        """The consumer group of this deployment's instances."""
        return self.settings.application_id

    def apply_topology(self, topology: Topology) -> None:
        """Use a new topology. The first one ends the state "starting"."""
        self.lost.apply_topology(self.topology, topology, self.settings.instance_id, self.dead)
        self.rebalances.applied(self._of_group, topology, self.settings.instance_id)
        seconds = self.member.rebalance_seconds if self.member else 0.0
        self.history.rebalanced(time.time(), self._of_group, topology, seconds)
        if self.state == STARTING:
            self.state = RUNNING  # before heartbeats are sent to the instances of the topology
        with self._changing:
            self._of_group = topology
            self._set_versions(self.versions.in_group(GroupViews.of(topology)))
            self._set_topology()

    def apply_versions(self, states: States) -> None:
        """Use new states of the views' versions: requests that arrive from now on are answered from
        the versions that are current in them."""
        with self._changing:
            self._set_versions(self.versions.with_states(states))
            self._set_topology()

    def doubt_versions(self) -> None:
        """Answer no request for the current version of a view until `apply_versions` is called."""
        with self._changing:
            self._set_versions(self.versions.in_doubt())
            self._set_topology()

    def _set_versions(self, versions: Versions) -> None:
        if versions is not self.versions:
            self.versions = versions
            for use_versions in self.on_versions:
                use_versions()

    def apply_deployment(self, state: DeploymentState) -> None:
        """Use a new state of the service. Proxies learn of it as they learn of a topology."""
        with self._changing:
            self.deployment = state
            self._set_topology()

    def _set_topology(self) -> None:
        changes = 0 if self.deployment is None else self.deployment.revision
        self.topology = self._of_group.at_revision(self.versions.revision + changes)
        self.epoch_header = str(self.topology.epoch).encode()
        self.revise()
        for use_topology in self.on_topology:
            use_topology()

    def view_headers(self, view: View | None) -> tuple[Header, ...]:
        """The headers of every answer of a view: its definition, and its version if it has one."""
        if view is None:
            return ()
        definition = VIEW_DEFINITION, view.hash.encode()
        if view.base not in self.versions.with_versions:
            return (definition,)
        return definition, (VIEW_VERSION, b"%d" % view.version)

    def missing_headers(self, view: View | None) -> tuple[Header, ...]:
        """The `view_headers` for an answer that has none. While definitions of the view differ, the
        definition is left out: the answer may come from an instance of the previous release, with
        another definition."""
        headers = self.view_headers(view)
        placed = None if view is None else self.topology.views.get(view.name)
        if view is None or placed is None or placed.hash == view.hash:
            return headers
        return tuple(header for header in headers if header[0] != VIEW_DEFINITION)

    @property
    def dead(self) -> set[str]:
        """The ids of instances that miss heartbeats."""
        return {id_ for id_, state in self.peers.states().items() if state == DEAD}

    def set_state(self, state: str) -> None:
        """Set the state, which /processors contains."""
        self.state = state
        self.revise()

    def revise(self) -> None:
        """Record that /processors may have changed."""
        self.revision = next(self._revisions) + 1

    def placed(self, view: View) -> PlacedView:
        """The placement of the view, with at least one partition. Raises Unavailable if there is
        none, and also if the group uses another definition, because the group's partitions are then
        not those of this view."""
        placed = self.topology.views.get(view.name)
        if placed is None:
            if self.known:
                raise Unavailable(
                    "nobody", f"No instance owns view {view.name} yet. Retry after a second."
                )
            raise Unavailable(
                "no-topology", "This instance has not joined its group yet. Retry after a second."
            )
        if placed.hash != view.hash:
            raise Unavailable(
                "definition-differs",
                f"View {view.name} is declared in another way here than on most instances.",
            )
        if not placed.active:
            raise Unavailable(
                "topic-missing",
                f"Topic {view.topic} of view {view.name} does not exist, or instances may not "
                f"describe it: see their logs.",
            )
        return placed

    @property
    def known(self) -> bool:
        """Whether this instance has a topology yet."""
        return self.topology.epoch.ms > 0
