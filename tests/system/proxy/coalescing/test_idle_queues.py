"""A queue of reads that has been idle for a while ends, and a read may arrive in this moment."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Cluster
from tests.system.proxy.conftest import KEY, Roles
from tests.system.proxy.crowd import PATIENT, reads

START = 'require("proxy.discovery").init_worker()'
SHORT = {START: f'require("proxy.reads.coalescer").IDLE_TIMEOUT_S = 0.05 {START}'}


@pytest.mark.parametrize("batches", [1, 2, 3, 8])
def test_a_read_does_not_wait_for_the_end_of_its_queue(
    tmp_path: Path, cluster: Cluster, roles: Roles, batches: int
) -> None:
    """Regression: it woke a thread, which ended, and waited until the others had woken, too."""
    active = roles[0]
    environment = {
        **PATIENT, "QUERYABLE_PROXY_REFRESH": "0.1", "QUERYABLE_PROXY_BATCHES": str(batches),
    }  # fmt: skip
    with Nginx(tmp_path / "prefix", cluster.addresses(), environment, 1, SHORT) as nginx:
        nginx.wait_for_map(EPOCH)
        took, pauses = [], [0.1, 0.3, 0.98, 0.6, 1.0, 1.02, 0.1]
        with nginx.client() as client:
            for pause in [0.0, *pauses]:
                time.sleep(pause)
                began = time.monotonic()
                assert client.get(KEY).status == 200
                took.append(time.monotonic() - began)
        assert max(took) < 0.3, took
        assert active.batches == [1] * len(took), "none was sent by itself"

        def has_ended() -> bool:
            backends = nginx.health()["backends"]
            return next(each for each in backends if each["id"] == active.name)["reads"] is None

        wait_until(has_ended, 5, "the queue to end")
        assert reads(nginx, active) == {"waiting": 0, "in_flight": 0}
        assert "lua entry" not in nginx.error_log()
