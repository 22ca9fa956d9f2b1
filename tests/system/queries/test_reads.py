"""Point reads through three instances: each of them gives the same answer."""

from __future__ import annotations

import base64
import json
import re
import struct
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from local.kafka.broker import Broker
from tests.support.backends import Backend
from tests.support.client import Client, Response, exchange, key_path, raw
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer, ends_of, history

PARTITIONS = 5
ODD_KEYS = [
    "a/b", "/", "100%", "%61", "a", "%2F", "a b", " ", "a+b", "a?b", "a#b", "a&b=c", "a;b",
    "Zürich", "東京", "🛩", "processors", "views", "keys", "'\"\\", "a\nb", "x" * 8192,
]  # fmt: skip
# keys that a URL's path cannot contain, or that clients and proxies would resolve or refuse
ONLY_ENCODED = ["", ".", "..", "\x00", "a\x00b"]
STRINGS = [*(f"key {n}" for n in range(150)), *ODD_KEYS]

INTEGERS = [0, 1, -1, 42, -(2**63), 2**63 - 1]
FLOATS = [0.0, 1.5, -1.5, 1e300, -1e-300, float("inf")]
UUIDS = [uuid.UUID(int=n * 2**97 + n) for n in range(6)]
BYTES = [b"\x00", b"\xff\xfe", b"a/b", b"text", bytes(range(256))]


def encoded(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


@dataclass(frozen=True)
class Running:
    backends: list[Backend]
    ends: dict[int, int]


@pytest.fixture(scope="module")
def running(
    module_deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> Iterator[Running]:
    strings, integers, floats, uuids, raw = (make_topic(PARTITIONS) for _ in range(5))
    for key in [*STRINGS, *ONLY_ENCODED]:
        writer.send(strings, [(key.encode(), json.dumps({"is": key}).encode())])
    writer.table(strings, {"deleted": 1})
    writer.table(strings, {"deleted": None})
    writer.send(integers, ((struct.pack(">q", n), str(n).encode()) for n in INTEGERS))
    writer.send(floats, ((struct.pack(">d", n), struct.pack(">d", n / 2)) for n in FLOATS))
    writer.send(uuids, ((str(u).encode(), struct.pack(">i", n)) for n, u in enumerate(UUIDS)))
    writer.send(raw, ((key, key) for key in BYTES))
    views = views_toml(
        v={"topic": strings, "path": "/messages"},
        deep={"topic": strings, "path": "/a/b.c/d"},
        integers={"topic": integers, "key": "int64", "value": "string"},
        floats={"topic": floats, "key": "float64", "value": "float64"},
        uuids={"topic": uuids, "key": "uuid", "value": "int32"},
        raw={"topic": raw, "key": "bytes", "value": "bytes"},
        exists={"topic": strings, "value": "none"},
    )
    deployment = module_deploy(views)
    backends = deployment.start(3)
    yield Running(backends, ends_of(history(broker.bootstrap_servers, strings, PARTITIONS)))
    for backend in backends:
        assert "Traceback" not in backend.log()


@pytest.fixture
def clients(running: Running) -> Iterator[list[Client]]:
    """One keep-alive connection to each instance."""
    with ExitStack() as stack:
        yield [stack.enter_context(Client(backend.port)) for backend in running.backends]


def ask_all(clients: list[Client], path: str, method: str = "GET") -> Response:
    """The answer, which must be the same from all instances."""
    answers = [client.request(method, path) for client in clients]
    compared = [
        (a.status, a.body, *(a.headers[n] for n in ("ETag", "Partition", "Offset", "Served-By")))
        for a in answers
    ]
    assert compared[1:] == compared[:-1], path
    for answer in answers:
        assert answer.headers["Topology-Epoch"]
        assert int(answer.headers["Content-Length"]) == len(answer.body) or method == "HEAD"
    return answers[0]


def test_every_instance_gives_the_same_answer_for_every_key(
    running: Running, clients: list[Client]
) -> None:
    owners = {
        partition: f"{instance['id']}; active"
        for instance in running.backends[0].processors()["processors"]
        for partition in instance["topicPartitions"]["v"]
    }
    assert len(set(owners.values())) == 3
    for key in STRINGS:
        answer = ask_all(clients, f"/messages/{quote(key, safe='')}")
        assert answer.status == 200, key
        assert answer.json() == {"key": key, "value": {"is": key}}
        partition = int(answer.headers["Partition"])
        assert answer.headers["Served-By"] == owners[partition]
        assert int(answer.headers["Offset"]) == running.ends[partition]
        assert answer.headers["Lag"] == "0"
        assert int(answer.headers["Staleness"]) >= 0
        assert answer.headers["Content-Type"] == "application/json"


def shown(answer: Response) -> tuple[object, ...]:
    names = ("Content-Type", "ETag", "Vary", "Partition", "Offset", "Served-By")
    return answer.status, answer.body, *(answer.headers[name] for name in names)


@pytest.mark.parametrize("accept", ["*/*", "application/octet-stream", "text/html"])
def test_every_instance_gives_the_same_answer_to_a_search_and_a_point_read(
    clients: list[Client], accept: str
) -> None:
    for key in [*STRINGS[:12], "nobody", "x" * 8192]:
        path, body = f"/messages/{quote(key, safe='')}", json.dumps({"query": key}).encode()
        found = {shown(client.request("GET", path, accept=accept)) for client in clients}
        found |= {
            shown(client.request("POST", "/views/v/search", body, accept=accept))
            for client in clients
        }
        assert len(found) == 1, found
        [(status, _, _, etag, *_)] = found
        assert status == (406 if accept == "text/html" else 404 if key == "nobody" else 200)
        if status == 200:
            named = {"accept": accept, "if_none_match": str(etag)}
            known = [client.request("GET", path, **named) for client in clients]
            known += [
                client.request("POST", "/views/v/search", body, **named) for client in clients
            ]
            assert {answer.status for answer in known} == {304}
            assert {answer.headers["ETag"] for answer in known} == {etag}


def test_all_encodings_of_a_key_are_equivalent(clients: list[Client]) -> None:
    for key in ODD_KEYS[:-1]:
        raw = key.encode()
        everything_escaped = "".join(f"%{byte:02x}" for byte in raw)
        for path in (
            key_path("v", key),
            f"/messages/{everything_escaped}",
            f"/a/b.c/d/{quote(key, safe='')}",
            f"/messages/{encoded(raw)}?encoding=base64url",
            f"/views/v/keys/{encoded(raw)}{'=' * (-len(encoded(raw)) % 4)}?encoding=base64url",
        ):
            answer = ask_all(clients, path)
            assert (answer.status, answer.json()["key"]) == (200, key), path
    for key in ONLY_ENCODED:
        answer = ask_all(clients, f"/messages/{encoded(key.encode())}?encoding=base64url")
        assert (answer.status, answer.json()["value"]) == (200, {"is": key})
    # paths are decoded once: %2561 is the key "%61", %61 is the key "a"; + is a plus
    assert ask_all(clients, "/messages/%2561").json()["key"] == "%61"
    assert ask_all(clients, "/messages/%61").json()["key"] == "a"
    assert ask_all(clients, "/messages/a+b").json()["key"] == "a+b"
    assert ask_all(clients, "/messages/%E6%9D%B1%e4%ba%ac").json()["key"] == "東京"


def test_a_miss_is_404_with_its_offset(running: Running, clients: list[Client]) -> None:
    for key in ["deleted", *(f"missing {n}" for n in range(30))]:
        answer = ask_all(clients, key_path("v", key))
        assert (answer.status, answer.code) == (404, "key-not-found")
        assert int(answer.headers["Offset"]) == running.ends[int(answer.headers["Partition"])]
        assert answer.headers["ETag"] is None


def test_head_returns_the_headers_of_get(clients: list[Client]) -> None:
    for key, status in (("key 1", 200), ("key 2", 200), ("key 3", 200), ("nobody", 404)):
        got = ask_all(clients, key_path("v", key))
        for client in clients:
            head = client.request("HEAD", key_path("v", key))
            assert (head.status, head.body) == (status, b"")
            for name in ("ETag", "Partition", "Content-Length", "Content-Type"):
                assert head.headers[name] == got.headers[name], name


def test_an_etag_changes_only_with_the_record(clients: list[Client]) -> None:
    tags = [ask_all(clients, key_path("v", f"key {n}")).headers["ETag"] for n in range(50)]
    assert len(set(tags)) == 50
    assert tags == [ask_all(clients, key_path("v", f"key {n}")).headers["ETag"] for n in range(50)]


def test_keys_and_values_of_all_formats(clients: list[Client]) -> None:
    expected: list[tuple[str, Any, Any]] = [
        *((f"/views/integers/keys/{n}", n, str(n)) for n in INTEGERS),
        *((f"/views/uuids/keys/{u}", str(u), n) for n, u in enumerate(UUIDS)),
        *((f"/views/uuids/keys/{str(u).upper()}", str(u), n) for n, u in enumerate(UUIDS)),
        *(
            (f"/views/raw/keys/{quote(b, safe='')}", encoded(b), encoded(b))
            for b in BYTES
            if b"\0" not in b
        ),
        *(
            (f"/views/raw/keys/{encoded(b)}?encoding=base64url", encoded(b), encoded(b))
            for b in BYTES
        ),
        *((f"/views/floats/keys/{n}", n, n / 2) for n in FLOATS[:-1]),
        ("/views/floats/keys/Infinity", "Infinity", "Infinity"),
        ("/views/integers/keys/-0", 0, "0"),
        ("/views/exists/keys/key%201", "key 1", None),
        (f"/views/integers/keys/{encoded(struct.pack('>q', 42))}?encoding=base64url", 42, "42"),
    ]
    for path, key, value in expected:
        answer = ask_all(clients, path)
        assert answer.status == 200, path
        assert answer.json() == {"key": key, "value": value}
    assert ask_all(clients, "/views/integers/keys/7").status == 404
    assert ask_all(clients, f"/views/uuids/keys/{uuid.UUID(int=99)}").status == 404


LONG = "x" * 8193
REFUSED = [
    ("GET", "/views/nope/keys/a", 404, "view-not-found"),
    ("GET", "/views/nope", 404, "view-not-found"),
    ("GET", "/messages/%FF", 400, "key-undecodable"),
    ("GET", "/messages/a%C3", 400, "key-undecodable"),
    ("GET", "/messages/_w?encoding=base64url", 400, "key-undecodable"),
    ("GET", "/messages/!!?encoding=base64url", 400, "key-undecodable"),
    ("GET", "/messages/abcde?encoding=base64url", 400, "key-undecodable"),
    ("GET", "/views/integers/keys/abc", 400, "key-undecodable"),
    ("GET", "/views/integers/keys/1.5", 400, "key-undecodable"),
    ("GET", "/views/integers/keys/%31_000", 400, "key-undecodable"),
    ("GET", f"/views/integers/keys/{2**63}", 400, "key-undecodable"),
    ("GET", "/views/integers/keys/AAAA?encoding=base64url", 400, "key-undecodable"),
    ("GET", "/views/integers/keys/", 400, "key-undecodable"),
    ("GET", "/views/uuids/keys/no-uuid", 400, "key-undecodable"),
    ("GET", "/views/floats/keys/one", 400, "key-undecodable"),
    ("GET", f"/messages/{LONG}", 414, "key-too-long"),
    ("GET", f"/messages/{quote('é' * 4097)}", 414, "key-too-long"),
    ("GET", f"/messages/{encoded(LONG.encode())}?encoding=base64url", 414, "key-too-long"),
    ("GET", "/messages/a?min=1", 400, "unknown-parameter"),
    ("GET", "/messages/a?encoding=base64url&encoding=text", 400, "repeated-parameter"),
    ("GET", "/messages/a?encoding=hex", 400, "bad-parameter"),
    ("GET", "/messages/a?stale=perhaps", 400, "bad-parameter"),
    ("POST", "/messages/a", 405, "method-not-allowed"),
    ("DELETE", "/views/v/keys/a", 405, "method-not-allowed"),
    ("POST", "/processors", 405, "method-not-allowed"),
    ("GET", "/messages/a/windows", 404, "no-such-resource"),
    ("GET", "/messages", 404, "no-such-resource"),
    ("GET", "/nothing/here", 404, "no-such-resource"),
    ("GET", "/", 404, "no-such-resource"),
    ("GET", "/%FF", 404, "no-such-resource"),
    # nginx takes neither
    ("GET", "/%FF%00", 400, "bad-request"),
    ("GET", "/messages/a%00", 400, "bad-request"),
    ("GET", "/messages/%", 400, "bad-request"),
    ("GET", "/views/v/keys/a%4", 400, "bad-request"),
    ("GET", "/views/%zz", 400, "bad-request"),
]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"), REFUSED, ids=[f"{r[0]} {r[1][:48]}" for r in REFUSED]
)
def test_errors_are_problem_documents_with_a_code(
    clients: list[Client], method: str, path: str, status: int, code: str
) -> None:
    for client in clients:
        answer = client.request(method, path)
        assert (answer.status, answer.code) == (status, code)
        assert b"Traceback" not in answer.body
        assert answer.headers["Topology-Epoch"]
        if status == 405:
            assert "GET" in answer.headers["Allow"]


def wire(port: int, path: str, *headers: str) -> bytes:
    """The bytes of the response, without the headers that vary with time: Date and Staleness."""
    lines = [f"GET {path} HTTP/1.1", "Host: t", *headers]
    answer = exchange(port, "\r\n".join([*lines, "", ""]).encode())
    return re.sub(rb"(?i)(date|staleness): [^\r]+", rb"\1", answer)


def test_the_fast_path_returns_the_bytes_of_the_ordinary_path(
    running: Running,
) -> None:
    # requests that end the connection, have a body or a condition take the ordinary path
    ordinary = "Accept: text/html, */*;q=0.1"
    for backend in running.backends:
        for key in ("key 1", "key 2", "key 3", "missing 1", "東京", "a/b"):
            path = key_path("v", key)
            last = f"GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"
            short = wire(backend.port, path, "\r\n" + last[:-4])
            assert short.count(b"HTTP/1.1") == 2, short
            assert short == wire(backend.port, path, ordinary, "\r\n" + last[:-4])


def test_pipelined_requests_are_answered_in_order(running: Running) -> None:
    keys = [f"key {n}" for n in range(40)]
    requests = [f"GET {key_path('v', key)} HTTP/1.1\r\nHost: t\r\n" for key in keys]
    requests[-1] += "Connection: close\r\n"
    answers = exchange(running.backends[0].port, "\r\n".join([*requests, ""]).encode())
    assert re.findall(rb'"key":"(key \d+)"', answers) == [key.encode() for key in keys]


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        ("GET /messages/Zürich HTTP/1.1\r\nHost: t\r\n\r\n".encode(), 400, "bad-request"),
        (b"GET /views?name=\xff HTTP/1.1\r\nHost: t\r\n\r\n", 400, "bad-request"),
        (b"GET /api/v1/kv/v?from=\xc3\xa9 HTTP/1.1\r\nHost: t\r\n\r\n", 400, "bad-request"),
        (b"GET /views/v\x01 HTTP/1.1\r\nHost: t\r\n\r\n", 400, "bad-request"),
        (b"GET /views\r\n\r\n", 400, "bad-request"),
        (b"GET /views HTTP/1.1\r\nno header\r\n\r\n", 400, "bad-request"),
        (b"GET /messages/%b HTTP/1.1\r\nHost: t\r\n\r\n" % (b"x" * 40_000), 414, "uri-too-long"),
        (b"GET / HTTP/1.1\r\nX: %b\r\n\r\n" % (b"x" * 10_000), 431, "headers-too-large"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: x\r\n\r\n", 400, "bad-request"),
    ],
)
def test_invalid_http_requests_get_problem_documents(
    running: Running, request_bytes: bytes, status: int, code: str
) -> None:
    [backend, *_] = running.backends
    answer = raw(backend.port, request_bytes)
    assert (answer.status, answer.code) == (status, code), answer
    assert answer.headers["Connection"] == "close"
    assert backend.get("/messages/a").status == 200


def test_a_forwarded_request_is_never_forwarded_again(running: Running) -> None:
    path = key_path("v", "key 1")
    owner = running.backends[0].get(path).headers["Served-By"].partition(";")[0]
    name = "queryable_point_reads_total"
    for backend in running.backends:
        before = backend.samples(name)
        answer = backend.get(path, Queryable_Forwarded="somebody")
        after = backend.samples(name)
        if backend.id == owner:
            assert answer.status == 200
            assert after["found", "v"] == before["found", "v"] + 1
        else:
            assert (answer.status, answer.code) == (503, "not-here")
            assert answer.headers["Retry-After"] == "1"
            assert after["unavailable", "v"] == before["unavailable", "v"] + 1
        assert after["forwarded", "v"] == before["forwarded", "v"]


def test_metrics_have_position_lag_and_size_of_each_partition(running: Running) -> None:
    positions: dict[tuple[str, ...], float] = {}
    for backend in running.backends:
        assert backend.get("/metrics").headers["Content-Type"].startswith("text/plain")
        positions |= backend.samples("queryable_position_offset")
        assert set(backend.samples("queryable_lag_records").values()) == {0}
        assert set(backend.samples("queryable_answerable").values()) == {1}
        assert backend.samples("process_resident_memory_bytes")[()] > 1e6
    assert {p: positions[str(p), "v"] for p in range(PARTITIONS)} == running.ends


def test_views_and_health(running: Running) -> None:
    for backend in running.backends:
        listed = {view["name"]: view for view in backend.get("/views").json()["views"]}
        assert listed["v"]["partitions"] == PARTITIONS
        assert listed["v"]["path"] == "/messages"
        assert listed["v"]["routed_encodings"] == ["text", "base64url"]
        described = backend.get("/views/v").json()
        held = len(backend.partitions("v"))
        assert described.pop("unreadable") == {"values": 0, "keys": 0, "partitions": held}
        assert described == listed["v"]
        assert backend.get("/health/live").json()["alive"] is True
        assert backend.get("/health/ready").json()["ready"] is True
        described = backend.processors()["views"]["integers"]
        assert (described["key"], described["partitioner"]) == ("int64", "murmur2")
