"""One API server for all tests of this folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubernetes.api_server import ApiServer
from tests.support.kubernetes.helm import Helm


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder with the programs that `run` builds."""
    if not (folder := os.environ.get("QUERYABLE_KUBERNETES_TOOLS")):
        pytest.skip("only `make chart-test` runs these: it builds Helm and an API server")
    return Path(folder)


@pytest.fixture(scope="session")
def helm(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm without a cluster."""
    return Helm(tools / "helm", tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def server(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A running API server that knows PodMonitors."""
    server = ApiServer(tools, tmp_path_factory.mktemp("api-server"))
    try:
        server.start()
        server.kubectl("apply", "--server-side", "-f", str(tools / "podmonitors.yaml"))
        server.kubectl(
            "wait", "--for=condition=Established", "crd/podmonitors.monitoring.coreos.com"
        )
        yield server
    finally:
        server.stop()


@pytest.fixture
def namespace(server: ApiServer, request: pytest.FixtureRequest) -> str:
    """A new namespace under Pod Security `restricted`: violations are refused, and warned of."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name)[-63:].strip("-")
    server.kubectl("create", "namespace", name)
    labels = [f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn")]
    server.kubectl("label", "namespace", name, *labels)
    return name
