"""Checks before the stack starts: Java, jars, nginx, ports, and the user's own Kafka."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial

from confluent_kafka import KafkaException

from backend.instance.gone_settings import refuse_gone_settings
from local import ports
from local.errors import LocalError
from local.kafka.connection import admin_of, deployment_of, without_secrets
from local.kafka.jars import kafka_jars, spark_jars
from local.kafka.java import find_java
from local.settings import StackSettings
from local.spark_views import DerivedView
from local.stack.nginx import find_nginx
from model.kafka.admin import failure_of
from model.problems import ConfigurationError

_MAX_PORT = 65_535


def check_machine(settings: StackSettings, views: Mapping[str, DerivedView]) -> None:
    """Raises ``LocalError`` if a program, a token or the demo's nginx is missing, a port is in use
    or chosen twice, TLS or a setting that is gone is configured, or Kafka does not answer."""
    if settings.auth == "jwt" and settings.has_demo and not settings.headers:
        raise LocalError(
            "with QUERYABLE_AUTH=jwt the demo's requests need a token: set QUERYABLE_TOKEN. "
            "`queryable token --help` says how to make one."
        )
    if settings.has_demo and settings.without_nginx:
        raise LocalError(
            "the demo derives views from nginx's access log, so it needs nginx: remove "
            "QUERYABLE_WITHOUT_NGINX. `queryable serve --without-nginx` serves your own topics."
        )
    if settings.tls_cert_file:
        raise LocalError(
            "QUERYABLE_TLS_CERT_FILE is set, but the local stack speaks plain HTTP: remove it."
        )
    try:
        refuse_gone_settings(os.environ)  # which the backends get
    except ConfigurationError as error:
        raise LocalError(str(error)) from None
    check_ports(settings)
    if views or not settings.bootstrap_servers:
        find_java()
    if not settings.without_nginx:
        find_nginx()
    for server in _http_servers(settings):
        ports.require_free(*server)
    if settings.bootstrap_servers:
        try:
            with admin_of(settings.kafka) as admin:
                admin.list_topics(timeout=10)
        except KafkaException as error:
            source = f"[kafka] of {settings.views}"
            servers, hide = (
                settings.bootstrap_servers,
                partial(without_secrets, views=settings.views),
            )
            failure = failure_of(error, (), servers, settings.kafka, source, hide)
            if failure.obstacle is not None:
                raise LocalError(
                    f"Kafka at {servers} cannot be asked: {failure.obstacle.text} "
                    "Without QUERYABLE_BOOTSTRAP_SERVERS, there is an embedded broker."
                ) from None
            raise LocalError(
                f"no Kafka broker answers on {servers} ({failure.why}). Correct "
                "QUERYABLE_BOOTSTRAP_SERVERS, or remove it for an embedded broker."
            ) from None
    else:
        ports.require_free(
            settings.broker_port,
            "the Kafka broker",
            "QUERYABLE_BROKER_PORT (or use your own Kafka: QUERYABLE_BOOTSTRAP_SERVERS)",
        )
        kafka_jars()
    if views:
        spark_jars()


def check_ports(settings: StackSettings) -> None:
    """Raises ``LocalError`` if two servers would have the same port, or one too large a port."""
    last = max(settings.backend_ports)
    if last > _MAX_PORT:
        raise LocalError(
            f"QUERYABLE_BACKEND_PORT is {settings.backend_port}, so {settings.instances} backends "
            f"need the ports up to {last}, but the last one is {_MAX_PORT}: choose a lower one."
        )
    chosen = _http_servers(settings)
    if not settings.bootstrap_servers:
        chosen.insert(1, (settings.broker_port, "the Kafka broker", "QUERYABLE_BROKER_PORT"))
    servers: dict[int, tuple[str, str]] = {}
    for port, server, setting in chosen:
        other, other_setting = servers.setdefault(port, (server, setting))
        if other_setting != setting:
            raise LocalError(
                f"{other} and {server} would both use port {port}: choose another one with "
                f"{other_setting} or {setting}."
            )


def _http_servers(settings: StackSettings) -> list[tuple[int, str, str]]:
    """Port, server and setting of each HTTP server of the stack, that for clients first."""
    backends = settings.backend_ports
    first = "the first backend" if settings.without_nginx else "nginx"
    others = backends[1:] if settings.without_nginx else backends
    return [
        (settings.proxy_port, first, "QUERYABLE_PROXY_PORT"),
        *((port, "a backend", "QUERYABLE_BACKEND_PORT") for port in others),
    ]


def check_own_kafka(
    settings: StackSettings, views: Mapping[str, DerivedView], report: Callable[[str], None]
) -> None:
    """Reports which topics are created in the user's own Kafka, and which topics of views.toml are
    missing there. Raises ``LocalError`` if a topic that Spark needs is missing."""
    made = {view.topic for view in views.values()} if settings.create_topics else set()
    those = f"the topics of Spark's views ({', '.join(sorted(made))}) and " if made else ""
    report(
        f"serving the views of {settings.views} from {settings.bootstrap_servers}: no topic is "
        f"created there (except {those}<topic>.dead-letter, for records that a view cannot read), "
        "and no record loaded. QUERYABLE_DEMO_DATA=yes creates the demo's topics there and loads "
        "336,776 flights."
    )
    with admin_of(settings.kafka) as admin:
        existing = admin.list_topics(timeout=10).topics
    entries = deployment_of(settings.views).views
    if missing := sorted({entry.topic for entry in entries} - existing.keys() - made):
        report(
            f"missing topics: {', '.join(missing)}. Their views answer 503 topic-missing "
            "until you create them. QUERYABLE_VIEWS names another file of views."
        )
    needed = {topic for view in views.values() for topic in (*view.sources, view.topic)} - made
    if missing := sorted(needed - existing.keys()):
        raise LocalError(
            f"missing topics: {', '.join(missing)}. Spark reads or writes them for the views "
            f"{', '.join(views)}. Create them, or remove these views from {settings.views} and "
            "QUERYABLE_SPARK_VIEWS."
        )
