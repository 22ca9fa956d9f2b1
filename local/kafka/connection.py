"""Kafka connection settings of the local tools: the address, and ``[kafka]`` of views.toml."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from confluent_kafka.admin import AdminClient

from backend.instance.settings import read_views
from local.errors import LocalError
from model.kafka.clients import closing
from model.kafka.config import for_librdkafka, hide
from model.kafka.config_providers import resolve
from model.problems import ConfigurationError
from model.views import Deployment

ViewsToml = Annotated[
    Path | None, typer.Option(help="A views.toml; its [kafka] table has connection settings.")
]

Kafka = Mapping[str, Any]
"""Settings of librdkafka, with ``bootstrap.servers``."""


def deployment_of(views: Path) -> Deployment:
    """The parsed views.toml. Raises ``LocalError`` if the file is missing or invalid."""
    try:
        return read_views(views)
    except ConfigurationError as error:
        raise LocalError(str(error)) from None


def kafka_of(servers: str, views: Path | None = None) -> Kafka:
    """Client settings. ``views``: a views.toml, whose ``[kafka]`` table is used as in backends."""
    if views is None:
        return {"bootstrap.servers": servers}
    try:
        table = for_librdkafka(resolve(deployment_of(views).kafka, open, os.environ))
    except ConfigurationError as error:
        raise LocalError(f"{views}: {error}") from None
    return {**table, "bootstrap.servers": servers}


def without_secrets(message: str, views: Path) -> str:
    """A message of librdkafka, without the secrets of ``[kafka]`` that it may quote."""
    table = deployment_of(views).kafka
    try:
        return hide(message, table, resolve(table, open, os.environ))
    except ConfigurationError as error:
        return str(error)


def settings_of(servers: str | Kafka) -> Kafka:
    """Client settings for ``servers``: an address, or already a client's settings."""
    return {"bootstrap.servers": servers} if isinstance(servers, str) else servers


@contextmanager
def admin_of(kafka: Kafka) -> Iterator[AdminClient]:
    """An admin client for one task."""
    with closing(AdminClient(quiet(kafka))) as admin:
        yield admin


def quiet(kafka: Kafka) -> dict[str, Any]:
    """Settings of an admin client that logs nothing while the broker is not running yet."""
    return {**kafka, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}
