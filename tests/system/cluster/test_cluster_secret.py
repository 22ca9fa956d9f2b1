"""Instances and nginx with a cluster secret. security/test_rotation.py is about its rotation."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from backend.security.cluster_secret import ClusterSecret
from backend.security.signatures import HEADER, Purpose, Signer
from backend.wire.point_batch import Reads, encode_reads
from local.waiting import wait_until
from model.partitioner import partition_of
from tests.support.backends import Backend
from tests.support.client import TIMEOUT, Client, Response, key_path
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.security.cluster_secret import (
    OTHER_SECRET,
    SECRET,
    ProxyConnection,
    write_secrets,
)
from tests.support.topics import Writer

TABLE = {f"k{n}": n for n in range(200)}
APPLICATION = "signed"
READS = "/internal/reads"
ROWS = "/views/v/keys?limit=1000"


def reads_of_k1(count: int) -> bytes:
    """The body of a request that reads the key this often."""
    words = b"v string murmur2 2 %d" % partition_of("murmur2")(b"k1", 2)
    return encode_reads([], [Reads(words, [b"\x01k1"] * count)])


@dataclass
class Signed:
    deployment: Deployment
    first: Backend
    second: Backend
    nginx: Nginx


@pytest.fixture(scope="module")
def signed(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> Signed:
    """Two instances, of which the second started later, and nginx with one worker."""
    topic = make_topic(2)
    writer.table(topic, TABLE)
    deployment = module_deploy(
        views_toml(v={"topic": topic}), standby_replicas="1", copy_threshold="10",
        application_id=APPLICATION,
    )  # fmt: skip
    deployment.use_secrets(SECRET)
    first = deployment.new().start()
    second = deployment.new().launch()
    settle([first, second])
    return Signed(deployment, first, second, deployment.proxy(workers=1))


RUNNING = {"b1": "running", "b2": "running"}


def test_instances_accept_one_anothers_requests(signed: Signed) -> None:
    assert "received a snapshot of" in signed.second.log()
    for backend in (signed.first, signed.second):
        with Client(backend.port) as client:
            assert _wrong_rows("", client.get(ROWS)) == ""
            body = json.dumps({"keys": list(TABLE)}).encode()
            items = client.request("POST", "/views/v/batch", body).json()["items"]
            assert {item["key"]: item["value"] for item in items} == TABLE
            assert client.get("/admin/topology.json").json()["instances"][1]["state"] == "running"
        backend.wait(lambda b=backend: b.states() == RUNNING, "heartbeats")
        assert "internal request from" not in backend.log()
        assert "without a valid signature" not in backend.log()


def test_requests_of_others_are_refused(signed: Signed, tmp_path: Path) -> None:
    own, foreign = (
        ClusterSecret(write_secrets(tmp_path / name, secret), APPLICATION)
        for name, secret in (("own", SECRET), ("foreign", OTHER_SECRET))
    )
    path, body = READS, reads_of_k1(1)

    def status(signer: Signer | None, receiver: str = "b1", path: str = path) -> int:
        headers = {}
        if signer is not None:
            request = signer.sign("POST", path.encode(), receiver, body)
            headers[HEADER.decode()] = request.header.decode()
        with Client(signed.first.port) as client:
            answer = client.request("POST", path, body, headers)
        assert answer.status == 200 or answer.code == "not-a-member", answer
        return answer.status

    proxy = Signer(own, Purpose.PROXY)
    assert status(proxy) == 200
    assert status(proxy, "b2") == 403
    assert status(Signer(foreign, Purpose.PROXY)) == 403
    for internal in (READS, "/internal/scan", "/internal/batch", "/internal/heartbeat",
                     "/internal/copy", "/internal/topology"):  # fmt: skip
        assert status(None, path=internal) == 403
        assert internal == READS or status(proxy, path=internal) == 403


def test_a_proxys_connection_has_a_key(signed: Signed, tmp_path: Path) -> None:
    """For batches that arrive at once, and in pieces."""
    secret = ClusterSecret(write_secrets(tmp_path / "own", SECRET), APPLICATION)
    short, long = (reads_of_k1(count) for count in (1, 200))
    proxy = ProxyConnection(secret)

    def status(connection: socket.socket, body: bytes, pieces: int = 1) -> int:
        head = b"POST /internal/reads HTTP/1.1\r\nHost: b1\r\nQueryable-Signature: %b\r\n" % (
            proxy.signature(body)
        )
        request = head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        size = len(request) // pieces + 1
        for at in range(0, len(request), size):
            connection.sendall(request[at : at + size])
            time.sleep(0.01 if pieces > 1 else 0)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        answer.read()
        return answer.status

    address = "127.0.0.1", signed.first.port
    with socket.create_connection(address, TIMEOUT) as connection:
        assert status(connection, short) == 200
        proxy.begin()
        sent = [(short, 1), (short, 3), (long, 1), (short, 1), (long, 2), (short, 1)]
        assert [status(connection, *each) for each in sent] == [200] * len(sent)
        with socket.create_connection(address, TIMEOUT) as other:
            assert status(other, short) == 403, "it is the key of one connection"


def test_nginx_signs_its_batches(signed: Signed) -> None:
    metrics = _batches(signed.nginx)
    with ReadLoop([signed.nginx.port], [key_path("v", key) for key in TABLE], _wrong, 6) as reads:
        wait_until(lambda: _batches(signed.nginx) > metrics + 20, 20, "coalesced reads", 0.05)
        reads.check()
    assert "refuses batches" not in signed.nginx.error_log()


def _batches(nginx: Nginx) -> int:
    """The number of batches that backends have answered."""
    with nginx.client() as client:
        text = client.get("/proxy/metrics", **nginx.headers).body.decode()
    [count] = re.findall(r"^queryable_proxy_batch_reads_count (\d+)$", text, re.M)
    return int(count)


def _wrong(path: str, answer: Response) -> str:
    key = path.rpartition("/")[2]
    if answer.status != 200:
        return f"status {answer.status}"
    return "" if answer.json()["value"] == TABLE[key] else "another value"


def _wrong_rows(_: str, answer: Response) -> str:
    if answer.status != 200:
        return f"status {answer.status}"
    rows = {row["key"]: row["value"] for row in answer.json()["items"]}
    return "" if rows == TABLE else "other rows"
