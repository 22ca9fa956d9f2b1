"""The epochs of a deployment can begin again: all its instances were restarted, and the clock of
the leader before was ahead. nginx keeps its topology only while it may be the latest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Cluster
from tests.system.proxy.conftest import KEY, PARTITION

BEFORE, AFTER = "2000-1", "1000-1"
START = 'require "proxy.route"'
SOON = {START: f'require("proxy.discovery").FORGET_S = 1 {START}'}


@pytest.fixture
def nginx(cluster: Cluster, tmp_path: Path) -> Iterator[Nginx]:
    cluster.epoch = BEFORE
    environment = {"QUERYABLE_PROXY_REFRESH": "0.1"}
    with Nginx(tmp_path / "prefix", cluster.addresses(), environment, 3, SOON) as nginx:
        nginx.wait_for_map(BEFORE)
        yield nginx


def test_an_older_topology_is_used_if_nobody_has_the_newer_one(
    cluster: Cluster, nginx: Nginx
) -> None:
    owned = [backend.active for backend in cluster.backends]
    for backend, new in zip(cluster.backends, owned[-1:] + owned[:-1], strict=True):
        backend.active = new
    cluster.epoch = AFTER
    nginx.wait_for_map(AFTER)
    with nginx.client() as client:
        assert client.get(KEY).json() == {"by": cluster.owner("words", PARTITION).name}
    # all workers go on from there, also after a reload
    nginx.reload()
    assert set(nginx.epochs()) == {AFTER}
    cluster.epoch = "1000-2"
    nginx.wait_for_map("1000-2")


def test_not_while_one_of_several_has_the_newer_one(cluster: Cluster, nginx: Nginx) -> None:
    """The others are cut off from the group."""
    older = Cluster([])
    older.epoch, older.backends = AFTER, cluster.backends
    for backend in cluster.backends[1:]:
        backend.cluster = older

    before = len(cluster.backends[0].topology_requests)
    wait_until(
        lambda: len(cluster.backends[0].topology_requests) > before + 20, 20, "many refreshes"
    )
    assert set(nginx.epochs()) == {BEFORE}


def test_what_earlier_versions_share_is_no_time_of_this_clock(
    cluster: Cluster, tmp_path: Path
) -> None:
    """nginx was upgraded, and reloads: the workers before knew the topology by the time of day."""
    shared = "ngx.shared.queryable_topics"
    as_before = (
        f'if {shared}:get("epoch") then {shared}:delete("confirmed_at"); '
        f'{shared}:set("confirmed", {shared}:get("epoch") .. " " .. ngx.now()) end'
    )
    changes = {START: f"{as_before} {START}"}
    environment = {"QUERYABLE_PROXY_REFRESH": "0.1"}
    with Nginx(tmp_path / "prefix", cluster.addresses(), environment, 1, changes) as nginx:
        nginx.wait_for_map(EPOCH)
        cluster.stop()
        nginx.reload()
        assert nginx.epochs() == [EPOCH]
        report = nginx.health()
        assert [each["age_s"] for each in (report, *report["workers"])] == [None, None]
