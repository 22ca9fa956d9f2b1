"""Adds the logs of running backends and proxies to the report of a failed test."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from local.errors import tail
from tests.support.deployment import running_deployments

_LINES = 60


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for deployment in running_deployments():
            for name, log in deployment.logs():
                report.sections.append((f"log of {name}", tail(log, _LINES)))
    return report
