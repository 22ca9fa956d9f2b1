"""The parts of an instance that answer requests. `instance/app.py` builds them, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from backend.cluster.change_log import ChangeLog
from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.group_state import GroupState
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
from backend.telemetry.telemetry import Telemetry
from model.changes.deployments import DeploymentState
from model.pipelines.status import Pipeline
from model.view_versions import VersionState
from model.views import View


@dataclass(kw_only=True)
class QueryContext:
    """`views`: those declared here, by name. `pipelines`: of views that have one, by view."""

    settings: Settings
    constants: Constants
    views: Mapping[str, View]
    group: GroupState
    store_partitions: PartitionRegistry
    metadata_poller: MetadataPoller
    telemetry: Telemetry
    pipelines: Mapping[str, Pipeline]


@dataclass
class KafkaRequests:
    """What sends requests to Kafka because a client has asked for it."""

    appender: Appender
    record_reader: RecordReader
    dead_letter_reader: DeadLetterReader
    pipeline_commands: CommandSender
    unused_groups: UnusedGroups
    version_log: ChangeLog[VersionState]
    deployment_log: ChangeLog[DeploymentState] | None  # None: the deployment has no service


@dataclass(kw_only=True)
class InstanceContext(QueryContext):
    """What queries need, and what routes between instances, metrics and the admin page need
    besides. `topologies`: for members to which the leader has sent only a reference. `rocksdb()`:
    RocksDB's tickers, by name, and the bytes in its block cache. `on_disk()`: view -> partitions
    with a store in the data folder."""

    member: GroupMember
    ingest_loop: IngestLoop
    snapshot_fetcher: SnapshotFetcher
    pushes: PushFetcher | None
    kafka: KafkaRequests
    cluster: ClusterAccess
    certificates: Certificates
    topologies: EncodedTopologies
    rocksdb: Callable[[], tuple[Mapping[str, int], int]]
    on_disk: Callable[[], Mapping[str, list[int]]]
