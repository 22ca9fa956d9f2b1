"""What the instances of a group have agreed on, and this instance's place in it: the topology, the
versions of views, the current deployment, and which instances are alive."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping

from backend.cluster.liveness import DEAD, RUNNING, STARTING, Peers
from backend.cluster.lost_instances import LostInstances
from backend.instance.settings import Settings
from backend.telemetry.telemetry import Telemetry
from backend.wire.answer import Header
from backend.wire.scan import NEVER
from model.changes.deployments import DeploymentState
from model.group_views import GroupViews
from model.kinds.registry import kind_of
from model.problems import Unavailable
from model.topology import HTTP, HTTPS, Member, PlacedView, Topology
from model.view_versions import States, ViewVersions
from model.views import View

VIEW_VERSION = b"view-version"
"""The header with the version that an answer comes from. In a request that an instance forwards:
the version that it asks for."""

VIEW_DEFINITION = b"view-definition"
"""The header that says which definition of the view an answer was made with."""

MAX_OTHERS = 5
"""The maximum number of other instances that one request asks for a partition. A view may have many
more replicas, and if none of them could answer, each request would go to all."""


class GroupState:
    """`topology`, `versions`, `deployment` and `state` are replaced, never modified. `topology` is
    the group's topology, at the revision of `versions` and `deployment`.

    Written by the member thread, the threads that follow versions and deployments, and the event
    loop; read by all.
    """

    def __init__(
        self,
        settings: Settings,
        views: Mapping[str, View],
        telemetry: Telemetry,
        versions: ViewVersions | None = None,
    ) -> None:
        """`views`: by name. `versions`: what is known of their versions before the first states;
        None: all are current."""
        self._settings = settings
        self._views = views
        self._telemetry = telemetry
        self.me = Member(
            settings.instance_id,
            settings.advertised_host,
            settings.advertised_port,
            settings.rack,
            HTTP if settings.tls_cert_file is None else HTTPS,
        )
        """This instance with its advertised address."""
        self.group_id = settings.application_id
        """The consumer group of this deployment's instances."""
        self.peers = Peers()
        self.peers.on_change = self.revise
        self.lost = LostInstances()
        self.state = STARTING
        self.has_been_ready = False
        """Whether /health/ready was 200 since the start. Written by readiness."""
        self.drained = False
        """Whether other instances should take over this instance's partitions."""
        self.versions = versions or ViewVersions(tuple(views.values()))
        self.deployment: DeploymentState | None = None
        """The current deployment of the service; None: not known, or there is no service."""
        self.topology = self._agreed = Topology()
        self.epoch_header = b"0-0"
        self._obstacle = ""
        self.on_versions: list[Callable[[], None]] = []
        self.on_topology: list[Callable[[], None]] = []
        self.revision = 0
        """The revision of this instance's /processors. It changes when the document may have."""
        self.processors_etag = 0, b""
        """The revision in which /processors was last built, and its ETag with quotes."""
        self._revisions = itertools.count(1)
        self._changing = threading.Lock()  # of topology, versions and deployment

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
        kind = self._views[view].kind if placed is None else kind_of(placed.description["store"])
        instances = len(self.topology.members)
        return 1 + kind.standbys(self._settings.standby_replicas, instances)

    def apply_topology(self, topology: Topology, rebalance_s: float = 0.0) -> None:
        """Use a new topology. The first one ends the state "starting". `rebalance_s`: how long this
        instance has spent in rebalances."""
        me = self.me.id
        self.lost.apply_topology(self.topology, topology, me, self.dead)
        self._telemetry.rebalanced(self._agreed, topology, me, rebalance_s)
        if self.state == STARTING:
            self.state = RUNNING  # before heartbeats are sent to the instances of the topology
        with self._changing:
            self._agreed = topology
            self._set_versions(self.versions.in_group(GroupViews.from_topology(topology)))
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

    def _set_versions(self, versions: ViewVersions) -> None:
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
        self.topology = self._agreed.at_revision(self.versions.revision + changes)
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
        self.revision = next(self._revisions)

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
            raise self.no_topology()
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

    def wait_for_kafka(self, why: str) -> None:
        """Record why this instance cannot ask Kafka: a clause without addresses."""
        self._obstacle = why

    def no_topology(self) -> Unavailable:
        """The problem of a request before there is a topology."""
        why = f" It waits for Kafka: {self._obstacle}." if self._obstacle else ""
        return Unavailable(
            "no-topology",
            f"This instance has not joined its group yet.{why} Retry after a second.",
        )

    @property
    def known(self) -> bool:
        """Whether this instance has a topology yet."""
        return self.topology.epoch.ms > 0
