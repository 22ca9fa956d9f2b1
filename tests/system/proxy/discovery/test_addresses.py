"""A host may have several addresses, such as one of IPv6 and one of IPv4; its backend listens at
one of them only."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Answer, Cluster, Request
from tests.system.proxy.conftest import KEY, PARTITION

HANGING = 12
# the workers have not the right to open the file
RESOLVED = """\
local file = io.open("%s")
        require("proxy.addresses").CHECK_S = 0.3
        require("proxy.resolver").addresses = function(host)
            file:seek("set")
            return host == "both" and { "127.0.0.2", "127.0.0.1" }
                or host:find("^hangs") and { "127.0.0.2", "127.0.0.3" }
                or host == "moving" and { file:read("*a") } or { host }
        end
"""


def by(nginx: Nginx) -> object:
    with nginx.client() as client:
        return client.get(KEY).json().get("by")


@pytest.fixture
def moving(tmp_path: Path) -> Path:
    """A file with the address of the host "moving"."""
    path = tmp_path / "moving"
    path.write_text("127.0.0.2")
    return path


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path, moving: Path) -> Callable[[str], Nginx]:
    """Starts nginx, with this host for all backends. One worker: each tries addresses itself."""

    def started(host: str) -> Nginx:
        for backend in cluster.backends:
            backend.host = host
        resolver = RESOLVED % moving
        return Nginx(
            tmp_path / "prefix",
            cluster.addresses(),
            {"QUERYABLE_PROXY_REFRESH": "0.1"},
            1,
            changes={'require "resty.core"': f'require "resty.core"\n        {resolver}'},
        )

    return started


def test_a_backend_is_reached_at_its_second_address(
    cluster: Cluster, start: Callable[[str], Nginx]
) -> None:
    owner = cluster.owner("words", PARTITION)
    owner.stop()
    with start("both") as nginx:
        nginx.wait_for_map(EPOCH)
        assert {each["by"] for each in answers(nginx)} == {
            backend.name for backend in cluster.backends if backend is not owner
        }
        # one that starts later than nginx
        owner.start()
        wait_until(lambda: by(nginx) == owner.name, 20, "the owner")


def test_a_backend_is_followed_to_its_other_address(
    cluster: Cluster, start: Callable[[str], Nginx]
) -> None:
    """For example, it was started again, and listens on IPv4 only."""
    owner = cluster.owner("words", PARTITION)
    with start("both") as nginx:
        nginx.wait_for_map(EPOCH)
        assert by(nginx) == owner.name
        for backend in cluster.backends:
            backend.stop()
            backend.listens_at = "127.0.0.2"
            backend.start()
        wait_until(lambda: by(nginx) == owner.name, 20, "the owner")


def test_another_address_is_followed_in_the_same_epoch(
    cluster: Cluster, start: Callable[[str], Nginx], moving: Path
) -> None:
    etag = {"ETag": '"the same"'}

    def unchanged(request: Request) -> Answer:
        is_known = request.headers.get("If-None-Match") == etag["ETag"]
        return Answer(304, b"", etag) if is_known else Answer(200, document, etag)

    with start("moving") as nginx:
        document = json.dumps(cluster.topology()).encode()
        for backend in cluster.backends:
            backend.behave_topology = unchanged
        nginx.wait_for_map(EPOCH)
        told = [backend.topology_answers for backend in cluster.backends]
        wait_until(lambda: any(of[-3:] == [304] * 3 for of in told), 10, "an unchanged topology")
        assert by(nginx) is None
        moving.write_text("127.0.0.1")
        wait_until(lambda: by(nginx) == cluster.owner("words", PARTITION).name, 20, "the owner")


@pytest.fixture
def port_that_hangs() -> Iterator[int]:
    """Of 127.0.0.2 and 127.0.0.3: connections to it are neither accepted nor refused."""
    with ExitStack() as stack:
        port = 0
        for address in ("127.0.0.2", "127.0.0.3"):
            listener = stack.enter_context(socket.socket())
            listener.bind((address, port))
            listener.listen(0)
            port = listener.getsockname()[1]
            for _ in range(4):  # more than its queue takes
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                with suppress(BlockingIOError):
                    waiting.connect((address, port))
        yield port


def test_hosts_that_hang_do_not_delay_a_new_topology(
    cluster: Cluster, start: Callable[[str], Nginx], port_that_hangs: int
) -> None:
    document = cluster.topology

    def with_others() -> dict[str, object]:
        found = document()
        found["processors"] += [
            {"id": f"x{number}", "host": f"hangs{number}", "port": port_that_hangs, "state": "dead"}
            for number in range(HANGING)
        ]
        return found

    with start("127.0.0.1") as nginx:
        nginx.wait_for_map(EPOCH)
        for cluster.epoch in ("1000-2", "1000-3"):
            cluster.topology = with_others  # type: ignore[method-assign]
            began = time.monotonic()
            nginx.wait_for_map(cluster.epoch)
            assert time.monotonic() - began < 3


def answers(nginx: Nginx) -> list[dict[str, str]]:
    with nginx.client() as client:
        found = [client.get(f"/words/k{number}") for number in range(20)]
    return [response.json() for response in found if response.status == 200]
