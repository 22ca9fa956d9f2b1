"""With a cluster secret, nginx signs the first batch of a connection, and the next ones with the
key that both sides have then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.security.cluster import KEYED, ClusterAccess, Refused
from backend.security.connection_key import ConnectionKey
from backend.security.signatures import Purpose
from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.support.security.cluster_secret import SECRET, cluster_secret, write_secrets
from tests.system.proxy.backends import EPOCH, Answer, Backend, Cluster, Request
from tests.system.proxy.conftest import KEY, Roles
from tests.system.proxy.crowd import PATIENT, metric

PATH = b"/internal/reads"
START = 'require("proxy.discovery").init_worker()'
SHORT_PAUSE = {START: f'require("proxy.reads.point_batch_client").NO_KEYS_S = 0.05 {START}'}


class Checking:
    """A backend that answers batches only if their signatures are valid."""

    def __init__(self, backend: Backend, access: ClusterAccess, knows_keys: bool = True) -> None:
        self.kinds: list[str] = []
        self._backend = backend
        self._access = access
        self._knows_keys = knows_keys
        self.keys: dict[int, ConnectionKey] = {}  # by the number of the connection
        backend.behave_batch = self._answer

    def _answer(self, batch: Request) -> Answer | None:
        given = batch.headers["Queryable-Signature"].encode()
        self.kinds.append("key" if len(given) == 32 else "signature")
        key = None
        if self._knows_keys:
            key = self.keys.setdefault(batch.connection, ConnectionKey())
        try:
            sender = self._access.admit(
                (Purpose.PROXY,), batch.method, PATH, given, "10.0.0.1", connection=key
            )
            assert sender is not None
            sender.check_body(batch.body)
        except Refused:
            return Answer(403)
        answer = self._backend.answer_batch(batch)
        assert answer is not None
        name, value = KEYED
        headers = {name.decode().title(): value.decode()} if sender.begins_key else {}
        return replace(answer, headers=headers)


Start = Callable[..., tuple[Checking, Nginx]]


@pytest.fixture
def start(tmp_path: Path, cluster: Cluster, roles: Roles) -> Iterator[Start]:
    """`start(knows_keys=True, changes={})` starts nginx with one connection to the backend."""
    running: list[Nginx] = []

    def started(
        knows_keys: bool = True, changes: dict[str, str] | None = None
    ) -> tuple[Checking, Nginx]:
        active = roles[0]
        checking = Checking(
            active, ClusterAccess(cluster_secret(tmp_path), active.name), knows_keys
        )
        environment = {
            **PATIENT, "QUERYABLE_PROXY_BATCHES": "1", "QUERYABLE_PROXY_REFRESH": "0.1",
            "QUERYABLE_CLUSTER_SECRET_FILE": str(write_secrets(tmp_path / "secret", SECRET)),
        }  # fmt: skip
        nginx = Nginx(tmp_path / "prefix", cluster.addresses(), environment, 1, changes or {})
        running.append(nginx)
        nginx.wait_for_map(EPOCH)
        return checking, nginx

    yield started
    for nginx in running:
        nginx.stop()
        assert "attempt to" not in nginx.error_log()


def read(nginx: Nginx, times: int) -> None:
    with nginx.client() as client:
        for _ in range(times):
            assert client.get(KEY).status == 200


def test_one_signature_is_enough_for_a_connection(start: Start, roles: Roles) -> None:
    checking, nginx = start()
    read(nginx, 6)
    assert checking.kinds == ["signature"] + ["key"] * 5
    assert roles[0].batches == [1] * 6, "none was sent by itself"
    assert len(checking.keys) == 1


def test_a_backend_of_an_earlier_version_gets_signatures(start: Start, roles: Roles) -> None:
    checking, nginx = start(knows_keys=False)
    read(nginx, 4)
    assert checking.kinds == ["signature"] * 4
    assert roles[0].batches == [1] * 4


def test_a_refused_key_costs_no_read(start: Start, roles: Roles) -> None:
    """The batch is sent again with a signature, on another connection."""
    checking, nginx = start()
    read(nginx, 2)
    (key,) = checking.keys.values()
    assert not key.is_next(b"f" * 32, b""), "ends it"
    read(nginx, 3)
    assert checking.kinds == ["signature", "key", "key", "signature", "signature", "signature"]
    assert len(checking.keys) == 2
    assert roles[0].single_requests == []
    assert metric(nginx, "batches_failed_total") == 0
    assert "refuses batches" not in nginx.error_log()


def test_a_connection_has_a_key_again_some_time_after_one_was_refused(start: Start) -> None:
    checking, nginx = start(changes=SHORT_PAUSE)
    read(nginx, 2)
    (key,) = checking.keys.values()
    assert not key.is_next(b"f" * 32, b"")

    def has_key() -> bool:
        read(nginx, 1)
        return checking.kinds[-1] == "key"

    wait_until(has_key, 10, "a batch that is signed with a key")
    assert checking.kinds[:4] == ["signature", "key", "key", "signature"]


def test_a_connection_that_closes_has_no_key(start: Start, roles: Roles) -> None:
    checking, nginx = start()
    answer = roles[0].behave_batch

    def closing(batch: Request) -> Answer | None:
        found = answer(batch)
        assert found is not None
        return replace(found, headers={**found.headers, "Connection": "close"})

    roles[0].behave_batch = closing
    read(nginx, 3)
    assert checking.kinds == ["signature"] * 3
    assert len(checking.keys) == 3
    assert roles[0].batches == [1] * 3
