"""All that `check` looks at, in the order in which it is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from queryable.console import machine_checks
from queryable.console.deployment_checks import deployment
from queryable.console.findings import Finding


def everything(
    environment: Mapping[str, str], given: Mapping[str, Any], records: int, timeout: float
) -> Iterator[Finding]:
    """`given`: settings that are not to be those of the environment, unless they are None.
    `records`: how many of each topic to look at. `timeout`: s for a request to the broker."""
    settings, found = machine_checks.settings_of(environment)
    settings = settings.model_copy(
        update={name: value for name, value in given.items() if value is not None}
    )
    yield from found
    yield from deployment(settings.views, settings.bootstrap_servers, records, timeout)
    yield from machine_checks.folder(settings.data_dir, settings.application_id)
    yield machine_checks.port(settings)
    yield machine_checks.nginx()
