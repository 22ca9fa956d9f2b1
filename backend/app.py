"""The composition root: reads the settings, builds the parts of an instance, joins them.

Only here do storage, ingest, membership and HTTP meet.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, cast

from a2wsgi import WSGIMiddleware
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from flask import Flask

from backend.cluster.member import GroupMember
from backend.cluster.placement import Policy
from backend.http.asgi import App, Receive, Scope, Send
from backend.http.flask_app import create_flask_app
from backend.http.kiqr.raw_reads import RawReads
from backend.http.kiqr.routes import PREFIX
from backend.http.router import Router
from backend.ingest.appender import Appender
from backend.ingest.applier import RecordApplier
from backend.ingest.consumer import SourceAssignments
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.lifecycle.partitions import PartitionLifecycle, RecoveryPolicy
from backend.ingest.lifecycle.snapshot_fetcher import SnapshotFetcher
from backend.ingest.loop import IngestLoop
from backend.ingest.metadata_poller import MetadataPoller
from backend.ingest.protocols import Folder
from backend.ingest.schema_registry import Registry, SchemaCache, SchemaFolder
from backend.ingest.store_partitions import PartitionRegistry
from backend.ingest.writer import PartitionWriter
from backend.instance_context import DRAINING, InstanceContext
from backend.membership_reporter import MembershipReporter
from backend.pipelines.monitor import PipelineMonitor
from backend.settings import Settings
from backend.storage.custom import load_store
from backend.storage.data_directory import DataDirectory
from backend.wire.answer import Answer
from model.kafka_config import for_kafka_python, for_librdkafka
from model.problems import ConfigurationError
from model.topology import ROLES, Epoch, MemberMetadata, Topology
from model.views import Deployment

log = logging.getLogger(__name__)

# gunicorn's arbiter stops, with this exit code, when a worker ends with it
EXIT_CANNOT_START = 3
_STOP_TIMEOUT = 10.0


def _schemas(settings: Settings, deployment: Deployment) -> SchemaCache | None:
    """Where schemas are had by id, if the deployment says so."""
    if deployment.registry is not None:
        return SchemaCache(Registry(deployment.registry, settings.schema_registry_auth))
    if deployment.schema_folder is not None:
        return SchemaCache(SchemaFolder(settings.views.parent / deployment.schema_folder))
    return None


class Instance:
    """Everything that one backend process has; started after the fork, stopped before its end."""

    def __init__(self, settings: Settings, deployment: Deployment) -> None:
        self.settings = settings
        self._schemas = _schemas(settings, deployment)
        self._views = tuple(replace(view, schemas=self._schemas) for view in deployment.views)
        self._highest_epoch = Epoch(0, 0)
        self._stopping = threading.Event()
        librdkafka = {
            **for_librdkafka(deployment.kafka),
            "bootstrap.servers": settings.bootstrap_servers,
        }
        self._librdkafka = librdkafka
        custom = {view.name: load_store(view.store) for view in self._views if view.is_custom}
        self._folder = DataDirectory(settings.data_dir, application=settings.application_id)
        for name, store in custom.items():
            self._folder.use(name, store)
        self._held = PartitionRegistry(self._views)
        self._metadata_poller = MetadataPoller(
            librdkafka, settings.end_offset_interval, settings.broker_timeout
        )
        kafka_python = {
            **for_kafka_python(deployment.kafka),
            "bootstrap_servers": settings.bootstrap_servers.split(","),
        }
        self._pipelines = PipelineMonitor(
            self._views, librdkafka, kafka_python, settings.broker_timeout
        )
        self._snapshot_fetcher = SnapshotFetcher(
            self._folder,
            lambda view, partition: self.context.snapshot_sources(view, partition),
            lambda: self.context.topology.secret,
            settings.copy_threshold,
        )
        dead_letters = DeadLetters(librdkafka, settings.broker_timeout)
        assignments = SourceAssignments(self._held)
        writer = PartitionWriter(self._on_news)
        policy = RecoveryPolicy(
            settings.acceptable_recovery_lag, settings.cleanup_delay, settings.clock_tolerance
        )
        lifecycle = PartitionLifecycle(
            self._views,
            cast(Folder, self._folder),
            self._held,
            self._metadata_poller,
            self._snapshot_fetcher,
            dead_letters,
            assignments,
            writer,
            policy,
        )
        applier = RecordApplier(
            self._held,
            lifecycle,
            self._metadata_poller,
            dead_letters,
            assignments,
            writer,
            settings.clock_tolerance,
        )
        self._ingest_loop = IngestLoop(
            self._held,
            lifecycle,
            applier,
            assignments,
            dead_letters,
            librdkafka,
            self._reads_served,
        )
        self._member = GroupMember(
            topics=frozenset(view.topic for view in self._views),
            group_id=settings.application_id,
            client_settings=kafka_python,
            session_timeout_ms=settings.session_timeout_ms,
            metadata_max_age_ms=settings.metadata_max_age_ms,
            candidate=self._candidate,
            on_topology=self._on_topology,
            policy=Policy(settings.standby_replicas, settings.acceptable_recovery_lag),
        )
        self._appender = Appender(librdkafka, settings.broker_timeout)
        self.context = InstanceContext(
            settings=settings,
            views={view.name: view for view in self._views},
            held=self._held,
            metadata_poller=self._metadata_poller,
            ingest_loop=self._ingest_loop,
            snapshot_fetcher=self._snapshot_fetcher,
            member=self._member,
            appender=self._appender,
            pipelines=self._pipelines.by_view,
        )
        self._membership_reporter = MembershipReporter(
            self.context, self._views, self._held, self._folder.held, self._ingest_loop.opening
        )

    def check_broker(self) -> None:
        """Wait for the broker, `start_timeout` s at most; ConfigurationError if it is not there.

        Returns within 2 s after `stop`, too.
        """
        said: list[str] = []  # by the client, in the background: why it cannot connect
        settings: dict[str, Any] = {**self._librdkafka, "log_level": 0}
        settings["error_cb"] = lambda error: said.append(error.str())
        admin = AdminClient(settings)
        deadline = time.monotonic() + self.settings.start_timeout
        while not self._stopping.is_set():
            try:
                admin.list_topics(timeout=2.0)
                return
            except KafkaException as e:
                admin.poll(0)  # calls error_cb with what was said in the background
                if time.monotonic() > deadline:
                    why = next((s for s in said if "uthentication" in s), e.args[0].str())
                    raise ConfigurationError(
                        f"no broker answers at {self.settings.bootstrap_servers} "
                        f"({why}). Start Kafka there, or set "
                        f"QUERYABLE_BOOTSTRAP_SERVERS; what it needs to be reached (SASL, TLS) "
                        f"stands in [kafka] of {self.settings.views}."
                    ) from e

    def start(self) -> None:
        """Start the threads, in the order in which they need one another."""
        if self._schemas is not None:
            self._schemas.start()
        self._metadata_poller.start()
        self._pipelines.start()
        self._snapshot_fetcher.start()
        self._ingest_loop.start()
        self._member.start()
        if any(view.append for view in self._views):
            self._appender.start()

    def drain(self) -> float:
        """Say that this instance is about to stop, to whoever asks for /processors; for how long
        (s) it shall answer on, so that all have heard that others answer in its place."""
        self.context.set_state(DRAINING)
        others_answer = any(
            self.context.others(held.view.name, held.partition) for held in self._held.all()
        )
        return self.settings.drain_time if others_answer else 0.0

    def stop(self) -> None:
        """Leave the group first, so that others take over while the stores are being closed."""
        self._stopping.set()
        if self._member.alive:
            self._member.stop(_STOP_TIMEOUT)
        self._snapshot_fetcher.stop(_STOP_TIMEOUT)
        if self._ingest_loop.alive:
            self._ingest_loop.stop(_STOP_TIMEOUT)
        if self._metadata_poller.alive:
            self._metadata_poller.stop()
        self._pipelines.stop()
        if self._schemas is not None:
            self._schemas.stop()
        self._appender.stop()
        self._folder.close()

    def _reads_served(self) -> int:
        return sum(counts.served for counts in self.context.counts.values())

    def _candidate(self) -> MemberMetadata:
        return self._membership_reporter.now(self._highest_epoch)

    def _on_news(self) -> None:
        if self._membership_reporter.is_out_of_date():
            self._member.rejoin()

    def _on_topology(self, topology: Topology) -> None:
        """A new map: take it and hold what it says. An older one than is known is left alone."""
        if topology.epoch <= self._highest_epoch:
            log.warning("a map of epoch %s comes after %s", topology.epoch, self._highest_epoch)
            self._member.rejoin()
            return
        self._highest_epoch = topology.epoch
        me = self.context.me
        mine = {
            (view.name, partition): role
            for view in self._views
            # not what the map gives to another one with the same id
            if me in topology.members
            and (placed := topology.views.get(view.name))
            and placed.hash == view.hash
            for role, partitions in topology.roles_of(me.id, view.name).items()
            for partition in partitions
        }
        self._held.scattered = frozenset(
            name for name, placed in topology.views.items() if placed.mis_partitioned
        )
        shared = {unit for unit in mine if topology.is_shared(me, *unit)}
        taken_over = {
            (held.view.name, held.partition)
            for held in self._held.all()
            if topology.is_taken_over(self.context.topology, held.view.name, held.partition)
        }
        self._ingest_loop.hold(mine, shared, taken_over)
        self.context.take_topology(topology)
        log.info("epoch %s: %d partitions here: %s", topology.epoch, len(mine), _listed(mine))


def _listed(mine: Mapping[tuple[str, int], str]) -> str:
    """Roles and what is held in them, for the log."""
    return ", ".join(
        f"{role} {[unit for unit in sorted(mine) if mine[unit] == role]}"
        for role in ROLES
        if role in mine.values()
    )


def _bridged(pages: Flask) -> App:
    """Flask in threads; KIQR's clients, who wait for other instances, have threads of their own."""
    ordinary = cast(App, WSGIMiddleware(cast(Any, pages), workers=4))
    kiqr = cast(App, WSGIMiddleware(cast(Any, pages), workers=8))

    async def bridge(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = kiqr if scope["path"].startswith(f"{PREFIX}/") else ordinary
        await chosen(scope, receive, send)

    return bridge


class _Failing(Protocol):
    def __call__(self, reason: str) -> None: ...


def _give_up(reason: str) -> None:
    log.critical("%s", reason)
    logging.shutdown()
    os._exit(EXIT_CANNOT_START)


class Application:
    """The ASGI application: the shell around Flask, and the instance behind both."""

    def __init__(
        self, settings: Settings, deployment: Deployment, fail: _Failing = _give_up
    ) -> None:
        try:
            self.instance = Instance(settings, deployment)
        except KafkaException as e:
            # librdkafka checks its settings when a client is made
            raise ConfigurationError(f"{settings.views}, [kafka]: {e.args[0].str()}") from e
        context = self.instance.context
        self._raw_reads = RawReads(context) if settings.kiqr else None
        self._shell = Router(context, _bridged(create_flask_app(context, self._raw_reads)))
        self._fail = fail
        self.send_timeout = settings.send_timeout  # s; these two are for the worker
        self.request_timeout = settings.request_timeout
        self._starting: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._shell(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    def answer_now(self, raw_path: bytes) -> Answer | None:
        """For the worker: see Router.answer_now."""
        return self._shell.answer_now(raw_path)

    def reads_now(self, body: bytes) -> Answer:
        """For the worker: see Router.reads_now."""
        return self._shell.reads_now(body)

    def drain(self) -> float:
        """For the worker: streams end, and in so many seconds it may stop to accept requests."""
        seconds = self.instance.drain()
        self._shell.drain()
        return seconds

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message: dict[str, Any] = dict(await receive())
            if message["type"] == "lifespan.startup":
                scatter_gather = self._shell.start()
                self._shell.start_heartbeats()
                if self._raw_reads is not None:
                    self._raw_reads.start(scatter_gather)
                # answers "not yet" while it waits: a server that does not accept looks hung
                self._starting = asyncio.create_task(self._start())
                await send({"type": "lifespan.startup.complete"})
            else:
                if self._starting is not None:
                    self._starting.cancel()
                await asyncio.to_thread(self.instance.stop)
                await self._shell.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _start(self) -> None:
        _spare_the_collector()
        try:
            await asyncio.to_thread(self.instance.check_broker)
            self.instance.start()
        except ConfigurationError as e:
            self._fail(str(e))
        except Exception as e:
            log.exception("the instance cannot start")
            self._fail(f"the instance cannot start: {e}")


def _spare_the_collector() -> None:
    """What is there at the start stays: no collection need look at it, nor be made every 700
    objects, where ingest makes thousands a batch and none in cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
