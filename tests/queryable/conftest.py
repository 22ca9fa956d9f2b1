"""Deployments for the client, as tests/system has them."""

from tests.queryable.deployed import deployed
from tests.system.conftest import (
    deploy,
    module_deploy,
    pytest_runtest_makereport,
    writer,
)

__all__ = ["deploy", "deployed", "module_deploy", "pytest_runtest_makereport", "writer"]
