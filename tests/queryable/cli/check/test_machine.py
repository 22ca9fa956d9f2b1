"""Checks of the machine and of the settings, without a broker."""

from __future__ import annotations

import pytest

from backend.settings import Settings
from queryable.cli.check.findings import OK, WARNING
from queryable.cli.check.machine import check_exposure


@pytest.mark.parametrize(
    ("host", "auth", "status", "message"),
    [
        ("127.0.0.1", "off", OK, "off; only this machine reaches 127.0.0.1"),
        ("0.0.0.0", "off", WARNING, "everyone who reaches 0.0.0.0:8081 can read all views"),
        ("10.1.2.3", "off", WARNING, "everyone who reaches 10.1.2.3:8081 can read all views"),
        ("0.0.0.0", "jwt", OK, "each request needs a token"),
    ],
)
def test_an_instance_that_is_open_to_others(
    host: str, auth: str, status: str, message: str
) -> None:
    finding = check_exposure(Settings(host=host, auth=auth))
    assert (finding.status, finding.subject, finding.message) == (status, "authentication", message)
    assert bool(finding.action) is (status == WARNING)
