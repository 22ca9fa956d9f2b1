"""`queryable check --production`: what a laptop may lack, and a production deployment should have.

docs/production-checklist.md explains each finding, and lists what a program cannot check.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from backend.instance.settings import Settings, is_loopback, read_views
from model.kafka.config import for_librdkafka
from model.kafka.config_providers import resolve
from model.machine.limits import memory
from model.problems import ConfigurationError
from queryable.cli.check.findings import Finding, ok, warning, wrong
from queryable.cli.exit_codes import NoBroker
from queryable.cli.inspection.broker import Broker
from queryable.client.protocol.errors import BadUse

MIN_FILES = 16_384
"""Open files that a backend needs: one per connection, and several hundred for RocksDB."""

MIN_MEMORY = 512 << 20
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run")


def check_production(
    settings: Settings,
    timeout: float,
    open_files: int | None = None,
    memory_max: int | None = None,
) -> Iterator[Finding]:
    """The findings that matter only in production. `timeout`: s, for the broker. `open_files`,
    `memory_max` (bytes): limits of the instance; None: those of this process and the machine."""
    yield from check_instance(settings)
    yield from _check_limits(open_files, memory_max)
    yield from _check_topics(settings, timeout)


def check_instance(settings: Settings) -> Iterator[Finding]:
    """The findings that need only the settings."""
    defaults = Settings.model_fields
    if settings.application_id == defaults["application_id"].default:
        yield warning(
            "application id", f"it is the default, {settings.application_id}",
            "set QUERYABLE_APPLICATION_ID, so that no other deployment joins the same group",
        )  # fmt: skip
    else:
        yield ok("application id", settings.application_id)
    if settings.instance_id == f"{settings.advertised_host}-{settings.advertised_port}":
        yield warning(
            "instance id", f"it is {settings.instance_id}, which changes with the address",
            "set QUERYABLE_INSTANCE_ID",
        )  # fmt: skip
    else:
        yield ok("instance id", settings.instance_id)
    yield _check_standbys(settings)
    yield _check_address(settings)
    yield _check_folder(settings.data_dir)
    if settings.tls_cert_file is None and not is_loopback(settings.host):
        yield warning(
            "TLS", "clients, nginx and instances speak unencrypted HTTP",
            "set QUERYABLE_TLS_CERT_FILE and QUERYABLE_TLS_KEY_FILE, or use a trusted network",
        )  # fmt: skip
    if settings.log_format == "text":
        yield warning("log", "its lines are text", "set QUERYABLE_LOG_FORMAT=json (docs/logs.md)")
    else:
        yield ok("log", "each line is a JSON object")


def _check_standbys(settings: Settings) -> Finding:
    number = settings.standby_replicas
    if number == 0:
        return wrong(
            "standbys", "there are none: reads fail while an instance is away",
            "set QUERYABLE_STANDBY_REPLICAS=1, and start at least two instances",
        )  # fmt: skip
    return ok("standbys", f"{number} for each partition; needs at least {number + 1} instances")


def _check_address(settings: Settings) -> Finding:
    if is_loopback(settings.advertised_host):
        return warning(
            "address", f"only this machine can reach {settings.advertised_host}",
            "set QUERYABLE_HOST and QUERYABLE_ADVERTISED if there are several machines",
        )  # fmt: skip
    return ok(
        "address", f"other instances use {settings.advertised_host}:{settings.advertised_port}"
    )


def _check_folder(path: Path) -> Finding:
    absolute = path.absolute()
    temporary = next((t for t in _TEMPORARY if absolute.is_relative_to(t)), None)
    if temporary is not None:
        return wrong(
            "data folder", f"{absolute} is in {temporary}, which is deleted at a restart",
            "set QUERYABLE_DATA_DIR to a folder on a disk that stays",
        )  # fmt: skip
    if not path.is_absolute():
        return warning(
            "data folder", f"{path} depends on the folder in which the instance is started",
            "set QUERYABLE_DATA_DIR to an absolute path",
        )  # fmt: skip
    return ok("data folder", f"{path} stays after a restart")


def _check_limits(open_files: int | None, memory_max: int | None) -> Iterator[Finding]:
    # an instance raises its soft limit to the hard one
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if open_files is None else open_files
    if 0 <= files < MIN_FILES:
        yield warning(
            "open files", f"the limit is {files:,}",
            f"raise it to {MIN_FILES:,} or more (LimitNOFILE of systemd, ulimit -Hn)",
        )  # fmt: skip
    else:
        yield ok("open files", f"the limit is {files:,}")
    available, source = memory(), "the machine or its container has"
    if memory_max is not None and memory_max < available:
        available, source = memory_max, "the unit may use"
    if available < MIN_MEMORY:
        yield warning(
            "memory", f"{source} {available >> 20:,} MiB",
            f"give each instance {MIN_MEMORY >> 20:,} MiB or more (docs/sizing.md)",
        )  # fmt: skip


def _check_topics(settings: Settings, timeout: float) -> Iterator[Finding]:
    """No findings if the views or the broker cannot be read: other checks report that."""
    if settings.bootstrap_servers.count(",") == 0:
        yield warning(
            "brokers", f"only {settings.bootstrap_servers} is named, and it may be down at a start",
            "name two or three in QUERYABLE_BOOTSTRAP_SERVERS",
        )  # fmt: skip
    try:
        deployment = read_views(settings.views)
        kafka = resolve(deployment.kafka, open, os.environ)
        broker = Broker(settings.bootstrap_servers, for_librdkafka(kafka), timeout)
        replicas = broker.replicas()
        topics = sorted({view.topic for view in deployment.views} & replicas.keys())
        configs = broker.configs(topics)
    except (ConfigurationError, BadUse, NoBroker):
        return
    for topic in topics:
        yield replication(topic, replicas[topic], configs[topic].get("min.insync.replicas", "1"))


def replication(topic: str, replicas: int, in_sync: str) -> Finding:
    """Whether the loss of a broker may lose records. `in_sync`: min.insync.replicas."""
    subject = f"topic {topic}"
    if replicas < 2:
        return wrong(
            subject, "it has one replica: the loss of its broker loses the view, too",
            "give it three replicas (kafka-reassign-partitions)",
        )  # fmt: skip
    if replicas < 3 or int(in_sync) < 2:
        return warning(
            subject, f"it has {replicas} replicas, and min.insync.replicas {in_sync}",
            "use three replicas, and min.insync.replicas=2",
        )  # fmt: skip
    return ok(subject, f"it has {replicas} replicas, and min.insync.replicas {in_sync}")
