"""All checks, in the order of the output."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from queryable.cli.check.authentication import check_authentication
from queryable.cli.check.cluster_secret import check_cluster_secret
from queryable.cli.check.deployment import check_deployment
from queryable.cli.check.findings import Finding
from queryable.cli.check.machine import (
    check_data_folder,
    check_nginx,
    check_port,
    check_tls,
    read_settings,
)
from queryable.cli.check.production import check_production
from queryable.cli.check.target import Target


def check_all(
    target: Target,
    overrides: Mapping[str, Any],
    sample_size: int,
    timeout: float,
    production: bool = False,
) -> Iterator[Finding]:
    """`target`: what is checked; it must be applied. `overrides`: settings that replace those of
    its environment, unless they are None.
    `sample_size`: records per topic. `timeout`: seconds for a request to the broker.
    `production`: also what a production deployment needs."""
    if target.finding is not None:
        yield target.finding
    settings, findings = read_settings(target.environment)
    settings = settings.model_copy(
        update={name: value for name, value in overrides.items() if value is not None}
    )
    yield from findings
    yield from check_deployment(
        settings.views,
        settings.bootstrap_servers,
        sample_size,
        timeout,
        settings.schema_registry_auth,
    )
    yield from check_data_folder(settings.data_dir, settings.application_id)
    yield from check_tls(settings, time.time())
    yield check_port(settings)
    yield check_authentication(settings)
    yield from check_cluster_secret(settings)
    yield check_nginx()
    if production:
        yield from check_production(settings, timeout, target.open_files, target.memory_max)
