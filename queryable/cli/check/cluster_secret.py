"""Checks the cluster secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from backend.instance.settings import Settings, is_loopback
from backend.security.cluster_secret import SETTING, ClusterSecret
from model.problems import ConfigurationError
from queryable.cli.check.findings import Finding, ok, warning, wrong

_SUBJECT = "cluster secret"


def check_cluster_secret(settings: Settings) -> Iterator[Finding]:
    """Whether an instance can read the secret, or needs one. No finding if all instances are on
    this machine."""
    if settings.cluster_secret_file:
        try:
            ClusterSecret(Path(settings.cluster_secret_file), settings.application_id)
        except ConfigurationError as error:
            reason = str(error).removeprefix(f"{SETTING}: ")
            yield wrong(_SUBJECT, reason, f"correct the file, or set {SETTING} to another one")
        else:
            yield ok(_SUBJECT, f"{settings.cluster_secret_file} is used")
    elif not is_loopback(settings.host):
        yield warning(
            _SUBJECT,
            "there is none, so instances and proxies on other machines are refused",
            f"set {SETTING}",
        )
