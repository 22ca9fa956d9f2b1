"""`queryable check --production`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend.instance.settings import Settings
from queryable.cli.check.production import check_instance, replication

GOOD: dict[str, Any] = {
    "application_id": "orders",
    "instance_id": "b1",
    "host": "0.0.0.0",
    "advertised": "b1.example.com:8081",
    "data_dir": Path("/var/lib/queryable/b1"),
    "standby_replicas": 1,
    "tls_cert_file": Path("cert.pem"),
    "log_format": "json",
}


def findings(**settings: Any) -> dict[str, str]:
    """Subject -> status."""
    # without its validation, which reads the certificate
    made = Settings().model_copy(update={**GOOD, **settings})
    return {finding.subject: finding.status for finding in check_instance(made)}


def test_nothing_is_wrong_with_a_production_deployment() -> None:
    assert set(findings().values()) == {"ok"}


@pytest.mark.parametrize(
    ("settings", "subject", "status"),
    [
        ({"application_id": "queryable-topics"}, "application id", "warning"),
        ({"instance_id": "b1.example.com-8081"}, "instance id", "warning"),
        ({"standby_replicas": 0}, "standbys", "wrong"),
        ({"advertised": "127.0.0.1:8081"}, "address", "warning"),
        ({"data_dir": Path("/tmp/data")}, "data folder", "wrong"),
        ({"data_dir": Path("data")}, "data folder", "warning"),
        ({"tls_cert_file": None}, "TLS", "warning"),
        ({"log_format": "text"}, "log", "warning"),
    ],
)
def test_each_finding(
    settings: dict[str, Any], subject: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")  # this checkout may be in a temporary folder
    found = findings(**settings)
    assert found[subject] == status
    assert {name for name, each in found.items() if each != "ok"} == {subject}


@pytest.mark.parametrize(
    ("replicas", "in_sync", "status"),
    [(1, "1", "wrong"), (2, "1", "warning"), (3, "1", "warning"), (3, "2", "ok")],
)
def test_replicas_of_a_topic(replicas: int, in_sync: str, status: str) -> None:
    assert replication("orders", replicas, in_sync).status == status


def test_every_wrong_or_doubtful_finding_says_what_to_do() -> None:
    made = Settings().model_copy(update={"standby_replicas": 0, "data_dir": Path("/tmp/x")})
    for finding in check_instance(made):
        assert bool(finding.action) == (finding.status != "ok"), finding
