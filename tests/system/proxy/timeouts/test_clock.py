"""The clock of nginx's machine is set back: nothing waits until it is that late again."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.support.security.cluster_secret import SECRET, write_secrets
from tests.system.proxy.backends import EPOCH, Answer, Cluster, always
from tests.system.proxy.conftest import KEY, Roles, StartNginx

SetClock = Callable[[int], None]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clock") / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


@pytest.fixture
def with_clock(
    library: Path, tmp_path: Path, cluster: Cluster, start_nginx: StartNginx
) -> tuple[Nginx, SetClock]:
    """nginx, and a function that sets its time of day: how many seconds it differs from now on."""
    file = tmp_path / "clock"
    file.write_bytes(struct.pack("l", 0))

    def set_clock(seconds: int) -> None:
        with file.open("r+b") as changed:
            changed.write(struct.pack("l", seconds))

    cluster.more["quotas"] = {"fnv": "1000/s"}
    environment = {
        "QUERYABLE_PROXY_REFRESH": "0.1",
        "QUERYABLE_CLUSTER_SECRET_FILE": str(write_secrets(tmp_path / "secret", SECRET)),
        "CLOCK_FILE": str(file),
    }
    nginx = start_nginx(cluster.addresses(), LD_PRELOAD=str(library), **environment)
    nginx.wait_for_map(EPOCH)
    return nginx, set_clock


def get(nginx: Nginx, target: str) -> tuple[int, object]:
    with nginx.client() as client:
        response = client.get(target)
        return response.status, response.json()


def test_the_topology_is_read_again(cluster: Cluster, with_clock: tuple[Nginx, SetClock]) -> None:
    nginx, set_clock = with_clock
    set_clock(-3600)
    cluster.epoch = "1000-2"
    nginx.wait_for_map("1000-2")


def test_a_quota_refuses_nobody(with_clock: tuple[Nginx, SetClock]) -> None:
    nginx, set_clock = with_clock
    target = "/views/fnv/keys"
    assert get(nginx, target)[0] == 200
    set_clock(-3600)
    # also of reads that are answered together
    wait_until(lambda: get(nginx, "/fnv/a")[0] == 200, 10, "an answer")
    assert get(nginx, target)[0] == 200


def test_a_backend_that_had_failed_is_tried_again(
    roles: Roles, with_clock: tuple[Nginx, SetClock]
) -> None:
    nginx, set_clock = with_clock
    active, standby, _ = roles
    active.behave = active.behave_batch = always(None)
    # each worker learns it
    wait_until(
        lambda: [get(nginx, KEY)[1] for _ in range(20)] == [{"by": standby.name}] * 20,
        10, "the standby",
    )  # fmt: skip
    set_clock(-3600)
    active.behave, active.behave_batch = active.answer, active.answer_batch
    wait_until(
        lambda: [get(nginx, KEY)[1] for _ in range(20)] == [{"by": active.name}] * 20,
        20, "the active",
    )  # fmt: skip


def test_clients_are_vouched_for_at_the_new_time(
    cluster: Cluster, with_clock: tuple[Nginx, SetClock]
) -> None:
    """Backends accept what nginx says of its clients for a minute."""
    nginx, set_clock = with_clock

    def ages() -> list[float]:
        asked = [request for backend in cluster.backends for request in backend.requests]
        signed_at = [int(each.headers["Queryable-Client"].split(";")[1]) for each in asked]
        return [time.time() - at / 1000 for at in signed_at]

    for _ in range(20):  # all workers
        get(nginx, "/views/words/keys")
    assert max(map(abs, ages())) < 10
    set_clock(-3600)

    def are_of_the_new_time() -> bool:
        for backend in cluster.backends:
            backend.requests.clear()
        for _ in range(20):
            get(nginx, "/views/words/keys")
        return max(abs(age - 3600) for age in ages()) < 10

    wait_until(are_of_the_new_time, 5, "claims of the new time")


def test_reads_are_answered_together_again(
    roles: Roles, with_clock: tuple[Nginx, SetClock]
) -> None:
    """After a batch that a backend does not know, there is none for 5 s."""
    nginx, set_clock = with_clock
    active = roles[0]
    active.behave_batch = always(Answer(404))

    def reads_until(count: int) -> None:
        """Reads, in all workers, until so many batches have arrived."""
        wait_until(
            lambda: {get(nginx, KEY)[0] for _ in range(20)} == {200}
            and len(active.batches) >= count,
            20, "batches",
        )  # fmt: skip

    reads_until(1)
    set_clock(-3600)
    active.behave_batch = active.answer_batch
    reads_until(len(active.batches) + 1)


def test_the_topology_gets_no_older(with_clock: tuple[Nginx, SetClock]) -> None:
    nginx, set_clock = with_clock
    set_clock(-3600)
    assert -1 < nginx.health()["age_s"] < 5
    set_clock(3600)
    assert -1 < nginx.health()["age_s"] < 5
