"""A pytest plugin: each xdist worker has ports of its own. So no server of a test takes the port
that a server of another worker is about to use."""

from __future__ import annotations

import pytest

from local.ports import use_part


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        use_part(int(worker["workerid"].removeprefix("gw")), worker["workercount"])
