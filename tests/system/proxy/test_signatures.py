"""The proxy's signatures are those that backends expect."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.security.client_claims import claim
from backend.security.cluster import ClusterAccess
from backend.security.cluster_secret import ClusterSecret, keys_of
from backend.security.connection_key import ConnectionKey
from backend.security.signatures import HEADER, Signature, hash_of, mac_of
from tests.support.client import raw
from tests.support.security.cluster_secret import SECRET, cluster_secret, write_secrets
from tests.system.proxy.backends import EPOCH, Cluster
from tests.system.proxy.conftest import StartNginx

ROOT = Path(__file__).parents[3]
SECRETS = st.binary(min_size=32, max_size=200)
VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=100)

PROCESSORS = b"/processors"

Sign = Callable[..., bytes]


@pytest.fixture(scope="module")
def lua() -> Iterator[Sign]:
    """Signs a request with proxy/security/signing.lua."""
    with subprocess.Popen(
        ["luajit", "tests/support/lua/signatures.lua"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def sign(*fields: bytes) -> bytes:
            process.stdin.write(b" ".join(field.hex().encode() for field in fields) + b"\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        yield sign
        process.stdin.close()


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(
    SECRETS,
    st.sampled_from(["GET", "POST"]),
    VISIBLE.map(str.encode),
    st.integers(0, 2**42),
    st.from_regex(rb"[0-9a-f]{1,40}", fullmatch=True),
    st.text(max_size=30),
    st.binary(max_size=5000),
)
def test_python_and_lua_agree(
    lua: Sign, secret: bytes, method: str, target: bytes, at: int, nonce: bytes, receiver: str,
    body: bytes,
) -> None:  # fmt: skip
    body_hash = hash_of(body)
    key = keys_of(secret, "any application").proxy
    mac = mac_of(key, method, target, at, nonce, body_hash, receiver)
    expected = Signature(at, nonce, body_hash, mac).header()
    fields = method.encode(), target, b"%d" % at, nonce, receiver.encode(), body
    assert lua(secret, *fields) == expected


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(SECRETS, st.ip_addresses().map(str), st.integers(0, 2**42))
def test_python_and_lua_agree_on_claims(lua: Sign, secret: bytes, client: str, at: int) -> None:
    expected = claim(client, keys_of(secret, "any application"), at)
    assert lua(secret, client.encode(), b"%d" % at) == expected


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(
    SECRETS,
    st.from_regex(rb"[0-9a-f]{64}", fullmatch=True),
    st.integers(1, 2**40),
    st.binary(max_size=5000),
)
def test_python_and_lua_agree_on_connections(
    lua: Sign, secret: bytes, mac: bytes, number: int, body: bytes
) -> None:
    key, keys = ConnectionKey(), keys_of(secret, "any application")
    key.begin(cast(ClusterSecret, SimpleNamespace(current=lambda: (keys,))), keys, mac)
    key._number = number - 1
    header = Signature(1, b"a", b"0" * 64, mac).header()
    assert key.is_next(lua(secret, header, b"%d" % number, body), body)


def test_nginx_says_for_which_client_a_request_is(
    cluster: Cluster, start_nginx: StartNginx, tmp_path: Path
) -> None:
    """Whatever the client says."""
    spoofed = b"Queryable-Client: 203.0.113.7\r\nqueryable-client: 203.0.113.8\r\n"
    head = b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + spoofed + b"\r\n"
    access = ClusterAccess(cluster_secret(tmp_path), "any instance")
    file = write_secrets(tmp_path / "secret", SECRET)
    for environment in ({}, {"QUERYABLE_CLUSTER_SECRET_FILE": str(file)}):
        nginx = start_nginx(cluster.addresses(), **environment)
        nginx.wait_for_map(EPOCH)
        for backend in cluster.backends:
            backend.requests.clear()
        raw(nginx.port, b"GET /views/words/keys?limit=1" + head)
        raw(nginx.port, b"GET /words/a" + head)
        requests = [request for each in cluster.backends for request in each.requests]
        assert len(requests) == 2
        for request in requests:
            given = [v for k, v in request.headers.items() if k.lower() == "queryable-client"]
            [value] = given
            found = access.claim_in([(b"queryable-client", value.encode())])
            assert found is not None
            assert (found.client, found.is_signed) == ("127.0.0.1", bool(environment))
        nginx.stop()


def test_nginx_signs_its_requests_for_the_topology(
    cluster: Cluster, start_nginx: StartNginx, tmp_path: Path
) -> None:
    """The receiver is "*", because nginx does not know the ids of instances yet."""
    secret = cluster_secret(tmp_path)
    access = ClusterAccess(secret, "any instance")
    file = write_secrets(tmp_path / "secret", SECRET)
    nginx = start_nginx(
        cluster.addresses(),
        QUERYABLE_PROXY_REFRESH="0.1",
        QUERYABLE_CLUSTER_SECRET_FILE=str(file),
    )
    nginx.wait_for_map(EPOCH)
    requests = [request for each in cluster.backends for request in each.topology_requests]
    assert requests
    for request in requests:
        header = (HEADER, request.headers["Queryable-Signature"].encode())
        assert access.is_signed("GET", PROCESSORS, [header], "127.0.0.1"), "each is unique"


def test_a_file_that_cannot_be_used_is_named(
    cluster: Cluster, start_nginx: StartNginx, tmp_path: Path
) -> None:
    path = write_secrets(tmp_path / "secret", "too short")
    with pytest.raises(AssertionError, match=f"QUERYABLE_CLUSTER_SECRET_FILE: {path}: .*9 bytes"):
        start_nginx(cluster.addresses(), QUERYABLE_CLUSTER_SECRET_FILE=str(path))
