"""Deployments for the client and the CLI, started as for tests/system."""

from tests.system.conftest import (
    deploy,
    module_deploy,
    pytest_runtest_makereport,
    writer,
)

__all__ = ["deploy", "module_deploy", "pytest_runtest_makereport", "writer"]
