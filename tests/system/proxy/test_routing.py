"""nginx sends each request to the owner of its key, unchanged."""

from __future__ import annotations

import base64
import json
import math
import struct
from urllib.parse import quote, unquote_to_bytes

import pytest

from model.partitioner import partition_of, puts_anywhere
from queryable.client.protocol.formats import FORMATS
from tests.support.client import raw
from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Answer, Backend, Cluster, Request
from tests.system.proxy.conftest import StartNginx
from tests.vectors.librdkafka_vectors import HERE, key_bytes

NINE = 2  # index of the count 9 in the vector files


def vectors(name: str) -> list[tuple[bytes, int]]:
    """Keys that fit into a URL, with their partitions of nine."""
    _, *lines = (HERE / f"{name}.jsonl").read_text().splitlines()
    pairs = [(key_bytes(key), partitions[NINE]) for key, partitions in map(json.loads, lines)]
    return [(key, partition) for key, partition in pairs if len(key) <= 1025]


def in_path(key: bytes) -> str:
    return quote(key, safe="").replace(".", "%2E")


def fits_into_a_path(key: bytes) -> bool:
    # nginx refuses %00
    return key != b"" and b"\x00" not in key


def part_of(path: str) -> bytes:
    """The last part of a path, decoded."""
    return unquote_to_bytes(path.rpartition("/")[2])


def last_part(backend: Backend) -> bytes:
    """Of the last request."""
    return part_of(backend.requests[-1].path)


@pytest.mark.parametrize(
    ("partitioner", "view", "path"),
    [
        ("murmur2", "words", "/words/"),
        ("murmur2", "words", "/views/words/keys/"),
        ("crc32", "crc", "/views/crc/keys/"),
        ("fnv1a", "fnv", "/fnv/"),
    ],
)
def test_every_key_reaches_its_owner_byte_for_byte(
    cluster: Cluster, nginx: Nginx, partitioner: str, view: str, path: str
) -> None:
    wrong = []
    with nginx.client() as client:
        for key, partition in vectors(partitioner)[::3]:
            if puts_anywhere(partitioner, key):
                continue  # any backend is asked
            if fits_into_a_path(key):
                target = path + in_path(key)
            else:
                text = base64.urlsafe_b64encode(key).decode().rstrip("=")
                target = f"{path}{text}?encoding=base64url"
            owner = cluster.owner(view, partition)
            response = client.get(target)
            # a batch has the bytes of the key, from which the fake backend makes a path
            if response.json() != {"by": owner.name} or last_part(owner) != part_of(target):
                wrong.append(target)
    assert wrong == []


@pytest.mark.parametrize(
    "target",
    [
        "/words/a%2Fb",
        "/words/a%2fb",
        "/words/a%252Fb",
        "/words/50%25",
        "/words/a%20b",
        "/words/a+b",
        "/words/%FF%FE",
        "/words/%E6%97%A5%E6%9C%AC",
        "/words/processors",
        "/words/%2E",
        "/words/a%2F%2E%2E%2Fb",
        "/words/..%2Fproxy%2Fhealth",
        "/words/a;b=c,d:e@f!$&'()*~",
        "/words/a?x=%2F&y=a%20b&z=//",
        "/words/a?",
        "//words//a",
        "/views/words/keys/a%2Fb/windows?from=2024-01-01T00:00:00Z",
        "/%77ords/a",
        "/processors",
        "/?q",
    ],
)
def test_the_raw_uri_of_a_single_read_arrives_unchanged(
    cluster: Cluster, start_nginx: StartNginx, target: str
) -> None:
    nginx = start_nginx(cluster.addresses(), QUERYABLE_PROXY_BATCHES="0")
    nginx.wait_for_map(EPOCH)
    with nginx.client() as client:
        assert client.get(target).status == 200
    asked = [request.path for backend in cluster.backends for request in backend.requests]
    assert asked == [target]


@pytest.mark.parametrize(
    "key", ["../../../internal/x", "../../../metrics", "../../../../etc", "a/../b", "./a", "a/b"]
)
def test_every_key_of_the_client_reaches_its_owner(
    cluster: Cluster, nginx: Nginx, key: str
) -> None:
    owner = cluster.owner("words", partition_of("murmur2")(key.encode(), 9))
    segment, is_base64 = FORMATS["string"].path_segment(key)
    target = f"/views/words/keys/{segment}{'?encoding=base64url' if is_base64 else ''}"
    with nginx.client() as client:
        assert client.get(target).json() == {"by": owner.name}


def test_raw_bytes_in_a_path_arrive_unchanged(cluster: Cluster, nginx: Nginx) -> None:
    target = "/words/日本".encode()
    assert raw(nginx.port, b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n").status == 200
    asked = [request.path for backend in cluster.backends for request in backend.requests]
    assert [path.encode("latin-1") for path in asked] == [target]


def test_numbers_are_routed_as_kafka_serializes_them(cluster: Cluster, nginx: Nginx) -> None:
    partitions = dict(vectors("murmur2"))
    with nginx.client() as client:
        for number in (0, -1, 42, 2**53, -(2**53), 2**63 - 1, -(2**63)):
            owner = cluster.owner("longs", partitions[number.to_bytes(8, "big", signed=True)])
            assert client.get(f"/longs/{number}").json() == {"by": owner.name}


@pytest.mark.parametrize(
    ("view", "text", "key"),
    [
        ("floats", "-0", struct.pack(">d", -0.0)),
        ("floats", "123456.789", struct.pack(">d", 123456.789)),
        ("floats", "NaN", struct.pack(">d", math.nan)),
        ("documents", '{"id": "日"}', '{"id": "日"}'.encode()),
        ("documents", "[]", b"[]"),
        ("avro", "-1", b"\x01"),
        ("avro", "64", b"\x80\x01"),
    ],
)
def test_keys_of_other_formats_are_routed_by_their_record_bytes(
    cluster: Cluster, nginx: Nginx, view: str, text: str, key: bytes
) -> None:
    owner = cluster.owner(view, partition_of("murmur2")(key, 9))
    # if the key were not routed, other backends would be asked, too
    with nginx.client() as client:
        for target in (f"/{view}/", f"/views/{view}/keys/") * 3:
            assert client.get(target + quote(text, safe="")).json() == {"by": owner.name}


@pytest.mark.parametrize(
    "target", ["/any/k", "/absent/k", "/longs/x", "/views/words", "/health/ready", "/nothing/here"]
)
def test_requests_without_an_owner_are_spread_over_all_backends(
    cluster: Cluster, nginx: Nginx, target: str
) -> None:
    for _ in range(8):  # connections: both workers take part, each with its own round robin
        with nginx.client() as client:
            for _ in range(6):
                assert client.get(target).status == 200
    assert all(len(backend.requests_for(target)) >= 8 for backend in cluster.backends)


def test_only_running_backends_get_requests_without_a_key(cluster: Cluster, nginx: Nginx) -> None:
    draining, dead, running = cluster.backends
    draining.state, dead.state = "draining", "dead"
    cluster.epoch = "1000-2"
    nginx.wait_for_map("1000-2")
    with nginx.client() as client:
        for _ in range(6):
            assert client.get("/health/ready").json() == {"by": running.name}
        keys = dict(vectors("murmur2"))
        for key in (
            b"\x01",
            b"\x02",
            b"\x03",
            b"\x04",
            b"\x05",
            b"\x06",
            b"\x07",
            b"\x08",
            b"\x09",
        ):
            owner = cluster.owner("words", keys[key])
            # a draining backend still owns its partitions; a dead one may only seem so
            assert client.get("/words/" + in_path(key)).json() == {"by": owner.name}


def test_head_and_post_arrive_unchanged(cluster: Cluster, nginx: Nginx) -> None:
    with nginx.client() as client:
        head = client.request("HEAD", "/words/a")
        assert (head.status, head.body) == (200, b"")
        body = bytes(range(256)) * 4000
        headers = {"Authorization": "Bearer x", "Accept": "text/x", "Content-Type": "avro/binary"}
        post = client.request("POST", "/views/words/batch?a=b", headers=headers, body=body)
        assert post.status == 200
    requests = [request for backend in cluster.backends for request in backend.requests]
    assert [request.method for request in requests] == ["HEAD", "POST"]
    assert requests[1].body == body
    assert headers.items() <= requests[1].headers.items()
    assert requests[1].headers["Host"] == f"127.0.0.1:{nginx.port}"


def test_a_clients_forwarding_mark_is_removed(cluster: Cluster, nginx: Nginx) -> None:
    with nginx.client() as client:
        client.get("/words/a", **{"Queryable-Forwarded": "b2"})
    (request,) = [request for backend in cluster.backends for request in backend.requests]
    assert "Queryable-Forwarded" not in request.headers


def test_responses_arrive_unchanged(cluster: Cluster, nginx: Nginx) -> None:
    big = b"x" * 3_000_000

    def answer(request: Request) -> Answer:
        return Answer(
            404 if "missing" in request.path else 200, big, {"Offset": "5", "ETag": '"e"'}
        )

    for backend in cluster.backends:
        backend.behave = answer
    with nginx.client() as client:
        found = client.get("/words/a", **{"If-None-Match": '"e"'})
        assert (found.status, found.body, found.headers["Offset"]) == (200, big, "5")
        assert client.get("/words/missing").status == 404


def test_connections_to_backends_are_kept(cluster: Cluster, nginx: Nginx) -> None:
    def data_connections(backend: Backend) -> set[int]:
        return {request.connection for request in backend.requests}

    with nginx.client() as client:
        for number in range(300):
            assert client.get(f"/words/k{number}").status == 200
    # a client connection stays with one worker, which sends one request at a time
    assert [len(data_connections(backend)) for backend in cluster.backends] == [1, 1, 1]
