"""The composition root: builds the parts of an instance from the settings and connects them.

No other module imports storage, ingest, cluster and HTTP together.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.group_state import GroupState
from backend.cluster.kafka_group import GroupSettings
from backend.cluster.liveness import DRAINING
from backend.cluster.member import GroupMember
from backend.cluster.placement import Policy
from backend.cluster.topology_fetcher import TopologyFetcher
from backend.ingest.appender import Appender
from backend.ingest.applier import RecordApplier
from backend.ingest.consumer import SourceAssignments
from backend.ingest.dead_letter_reader import DeadLetterReader
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.lifecycle.partitions import PartitionLifecycle
from backend.ingest.lifecycle.recovery import RecoveryPolicy
from backend.ingest.lifecycle.snapshot_fetcher import SnapshotFetcher
from backend.ingest.loop import IngestLoop
from backend.ingest.metadata.fetcher import MetadataFetcher
from backend.ingest.metadata.poller import MetadataPoller
from backend.ingest.protocols import StoreDirectory
from backend.ingest.pushes.candidates import PushCandidates
from backend.ingest.pushes.push_fetcher import PushFetcher
from backend.ingest.read_priority import ReadPriority
from backend.ingest.record_reader import RecordReader
from backend.ingest.schema_registry import schema_cache
from backend.ingest.store_partitions import PartitionRegistry
from backend.ingest.writer import PartitionWriter
from backend.instance.constants import Constants
from backend.instance.context import InstanceContext, KafkaRequests
from backend.instance.deployment_follower import DeploymentFollower
from backend.instance.membership_reporter import MembershipReporter
from backend.instance.settings import Settings
from backend.instance.version_follower import VersionFollower, initial_versions
from backend.kafka.broker_check import wait_for_broker
from backend.kafka.clients import KafkaClients
from backend.pipelines.commands import CommandSender
from backend.pipelines.monitor import PipelineMonitor
from backend.pipelines.unused_groups import UnusedGroups
from backend.security.certificates import Certificates
from backend.security.cluster import cluster_access
from backend.server.memory import release_free_memory
from backend.storage.custom import CustomStore, load_store
from backend.storage.data_directory import DataDirectory
from backend.storage.findings import FindingsFile
from backend.telemetry.spans import spans_of
from backend.telemetry.telemetry import Telemetry
from model.problems import ConfigurationError
from model.topology import ROLES, Epoch, Topology
from model.views import Deployment, View

log = logging.getLogger(__name__)

_STOP_TIMEOUT = 10.0  # s
_ID_MARGIN = 1.0  # s after the session time-out, in which the group forgets a dead member


def _import_classes(views: Iterable[View], source: Path) -> dict[str, type[CustomStore]]:
    """The custom store of each view that has one; imports custom formats, too. `source`: the file
    that declares the views. Raises ConfigurationError, which names the field."""
    stores = {}
    try:
        for view in views:
            view.codecs()
            if view.is_custom:
                with view.naming("store"):
                    stores[view.name] = load_store(view.store)
    except ConfigurationError as e:
        raise ConfigurationError(f"{source}, {e}") from None
    return stores


class Instance:
    """All parts of one backend process. They start after the fork and stop before the exit."""

    def __init__(
        self,
        settings: Settings,
        deployment: Deployment,
        kafka: KafkaClients,
        constants: Constants,
        on_id_in_use: Callable[[str], None] = log.error,
    ) -> None:
        """`on_id_in_use(reason)`: called, in a thread, if another instance has the id."""
        self.settings = settings
        self._on_id_in_use = on_id_in_use
        self._constants = constants
        self._kafka = kafka
        self._schemas = schema_cache(settings, deployment)
        self._views = tuple(replace(view, schemas=self._schemas) for view in deployment.views)
        self._highest_epoch = Epoch(0, 0)
        self._cluster = cluster_access(settings)
        self._certificates = Certificates(settings)
        self._topologies = EncodedTopologies()
        self._stopping = threading.Event()
        librdkafka, kafka_python = kafka.librdkafka, kafka.kafka_python
        custom_stores = _import_classes(self._views, settings.views)
        request_views = {view.name: self._request_view(view) for view in self._views}
        spans = spans_of(
            settings.otlp_endpoint,
            settings.instance_id,
            settings.application_id,
            settings.otlp_ratio,
        )
        self._telemetry = Telemetry(request_views, spans)
        self._group = GroupState(
            settings, request_views, self._telemetry, initial_versions(self._views)
        )
        self._directory = DataDirectory.from_settings(settings)
        for name, store in custom_stores.items():
            self._directory.use_custom_store(name, store)
        self._registry = PartitionRegistry(self._views)
        self._metadata_poller = MetadataPoller(
            MetadataFetcher(librdkafka, constants.broker_timeout),
            settings.end_offset_interval,
            constants.broker_timeout,
        )
        self._pipelines = PipelineMonitor(
            self._views, librdkafka, kafka_python, constants.broker_timeout
        )
        self._snapshot_fetcher = SnapshotFetcher(
            self._directory,
            self._group.snapshot_sources,
            self._cluster.signer,
            constants.copy_threshold,
            tls=self._certificates.peers,
            may_be_in_several=self._registry.may_be_in_several,
        )
        self._push_fetcher = PushFetcher.for_views(self._views, settings.views, self._directory)
        lifecycle, self._ingest_loop = self._new_ingest()
        self._metadata_poller.on_poll = self._ingest_loop.look
        self._membership_reporter = MembershipReporter(
            self._group,
            self._cluster,
            self._metadata_poller,
            settings.ends_trusted_for,
            self._views,
            self._registry,
            self._directory.on_disk,
            self._ingest_loop.opening,
            FindingsFile(self._directory.root),
        )
        self._member = self._new_member()
        self._versions = VersionFollower(
            self._views,
            librdkafka,
            settings,
            constants.broker_timeout,
            self._group,
            lifecycle.drop,
            self._rejoin,
        )
        self._deployments = DeploymentFollower(
            librdkafka, settings, constants.broker_timeout, self._group, self._rejoin
        )
        self._appender = Appender(librdkafka, constants.broker_timeout)
        self.context = self._new_context(request_views)

    def _new_ingest(self) -> tuple[PartitionLifecycle, IngestLoop]:
        settings, librdkafka = self.settings, self._kafka.librdkafka
        dead_letters = DeadLetters(librdkafka, self._constants.broker_timeout)
        assignments = SourceAssignments(self._registry)
        writer = PartitionWriter(self._on_state_change)
        policy = RecoveryPolicy(settings.acceptable_recovery_lag)
        pushes = PushCandidates(
            self._push_fetcher, self._directory, self._registry, assignments, policy.clock_tolerance
        )
        lifecycle = PartitionLifecycle(
            self._views,
            cast(StoreDirectory, self._directory),
            self._registry,
            self._metadata_poller,
            self._snapshot_fetcher,
            dead_letters,
            assignments,
            writer,
            policy,
            pushes,
        )
        read_priority = ReadPriority(self._telemetry.reads_served)
        applier = RecordApplier(
            self._registry,
            lifecycle,
            self._metadata_poller,
            dead_letters,
            assignments,
            writer,
            read_priority,
            policy.clock_tolerance,
            release_free_memory,
        )
        loop = IngestLoop(
            self._registry,
            lifecycle,
            applier,
            assignments,
            dead_letters,
            # the one group that this instance needs permissions for
            {**librdkafka, "group.id": settings.application_id},
            read_priority,
            settings.ends_trusted_for,
        )
        return lifecycle, loop

    def _new_member(self) -> GroupMember:
        settings = self.settings
        group = GroupSettings(
            topics=frozenset(view.topic for view in self._views),
            group_id=settings.application_id,
            client_settings=self._kafka.kafka_python,
            session_timeout_ms=settings.session_timeout_ms,
            metadata_max_age_ms=round(
                1000 * settings.end_offset_interval * self._constants.polls_per_leader_look
            ),
        )
        return GroupMember(
            open_group=group.open,
            heartbeat_ms=group.heartbeat_ms,
            member_metadata=lambda: self._membership_reporter.now(self._highest_epoch),
            on_topology=self._on_topology,
            policy=Policy(settings.standby_replicas, settings.acceptable_recovery_lag),
            topologies=self._topologies,
            fetcher=TopologyFetcher(
                settings.instance_id,
                self._topologies,
                self._cluster.signer,
                self._certificates.peers,
            ),
            max_record_bytes=self._constants.group_record_bytes,
            polled=self._membership_reporter.polled_partitions,
            on_id_in_use=self._on_id_in_use,
            patience=settings.session_timeout_ms / 1000 + _ID_MARGIN,
        )

    def _new_context(self, views: Mapping[str, View]) -> InstanceContext:
        settings, broker_timeout = self.settings, self._constants.broker_timeout
        librdkafka, kafka_python = self._kafka.librdkafka, self._kafka.kafka_python
        return InstanceContext(
            settings=settings,
            constants=self._constants,
            views=views,
            group=self._group,
            store_partitions=self._registry,
            metadata_poller=self._metadata_poller,
            telemetry=self._telemetry,
            pipelines=self._pipelines.by_view,
            member=self._member,
            ingest_loop=self._ingest_loop,
            snapshot_fetcher=self._snapshot_fetcher,
            pushes=self._push_fetcher,
            kafka=KafkaRequests(
                self._appender,
                RecordReader(librdkafka, broker_timeout),
                DeadLetterReader(librdkafka, broker_timeout),
                CommandSender(kafka_python, broker_timeout),
                UnusedGroups(kafka_python, broker_timeout, settings.application_id),
                self._versions.log,
                self._deployments.log,
            ),
            cluster=self._cluster,
            certificates=self._certificates,
            topologies=self._topologies,
            rocksdb=self._directory.rocksdb,
            on_disk=self._directory.on_disk,
        )

    def check_broker(self) -> None:
        """Wait for the broker. Raises ConfigurationError if it does not answer in time."""
        timeout = self._constants.start_timeout
        wait_for_broker(
            self._kafka, self.settings, timeout, self._stopping, self._group.wait_for_kafka
        )

    def read_versions(self) -> None:
        """Read which versions of views are current; see VersionFollower.start."""
        self._versions.start()
        self._deployments.start()

    def start(self) -> None:
        """Start the threads in the order of their dependencies."""
        if self._schemas is not None:
            self._schemas.start()
        self._metadata_poller.start()
        self._pipelines.start()
        self._snapshot_fetcher.start()
        self._push_fetcher.start()
        self._ingest_loop.start()
        self._member.start()
        if any(view.append for view in self._views):
            self._appender.start()

    def drain(self) -> float:
        """Announce in /processors that this instance is stopping.

        Returns the time (s) for which it must continue to answer, until proxies and peers use other
        instances.
        """
        self._group.set_state(DRAINING)
        others_answer = any(
            self._group.others(opened.view.name, opened.partition)
            for opened in self._registry.all()
        )
        return self._constants.drain_time if others_answer else 0.0

    def stop(self) -> None:
        """Stop all threads and close the stores. The instance leaves the group first, so that
        others take over in the meantime."""
        self._stopping.set()
        if self._member.alive:
            self._member.stop(_STOP_TIMEOUT)
        self._snapshot_fetcher.stop(_STOP_TIMEOUT)
        self._push_fetcher.stop(_STOP_TIMEOUT)
        if self._ingest_loop.alive:
            self._ingest_loop.stop(_STOP_TIMEOUT)
        if self._metadata_poller.alive:
            self._metadata_poller.stop()
        self._pipelines.stop()
        self._versions.log.stop()
        self._deployments.stop()
        if self._schemas is not None:
            self._schemas.stop()
        self._appender.stop()
        if self._telemetry.spans is not None:
            self._telemetry.spans.shutdown()
        self._directory.close(stores_are_closed=not self._ingest_loop.alive)

    def _request_view(self, view: View) -> View:
        """The view for requests: a client may name the ids of schemas."""
        return view if self._schemas is None else replace(view, schemas=self._schemas.for_requests)

    def _on_state_change(self) -> None:
        self._membership_reporter.remember()  # a store has shown which topic it is
        if self._membership_reporter.is_out_of_date():
            self._member.rejoin()

    def _rejoin(self) -> None:
        if self._member.alive:
            self._member.rejoin()

    def _on_topology(self, topology: Topology) -> None:
        """Apply a new topology. An older one than the current one is ignored."""
        if topology.epoch <= self._highest_epoch:
            log.warning(
                "ignoring the topology of epoch %s: epoch %s is newer",
                topology.epoch,
                self._highest_epoch,
            )
            self._member.rejoin()
            return
        self._highest_epoch = topology.epoch
        me = self._group.me
        dropped = self._group.versions.dropped
        mine = topology.partitions_of(
            me, {view.name: view.hash for view in self._views if view.name not in dropped}
        )
        self._registry.apply_topology(topology)
        shared = {partition_id for partition_id in mine if topology.is_shared(me, *partition_id)}
        taken_over = {
            (opened.view.name, opened.partition)
            for opened in self._registry.all()
            if topology.is_taken_over(self._group.topology, opened.view.name, opened.partition)
        }
        unplaced = {
            view.topic
            for view in self._views
            if (placed := topology.views.get(view.name)) is not None and not placed.partitions
        }
        self._ingest_loop.assign(mine, shared, taken_over, unplaced)
        self._group.apply_topology(topology, self._member.rebalance_seconds)
        self._membership_reporter.remember()
        self._versions.note_topology(topology)
        log.info(
            "epoch %s: %d partitions here: %s", topology.epoch, len(mine), _format_partitions(mine)
        )


def _format_partitions(mine: Mapping[tuple[str, int], str]) -> str:
    """The partitions by role, for a log line."""
    return ", ".join(
        f"{role} {[partition_id for partition_id in sorted(mine) if mine[partition_id] == role]}"
        for role in ROLES
        if role in mine.values()
    )
