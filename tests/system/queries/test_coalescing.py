"""Coalesced reads from nginx, and from one backend to another: each answer has the same bytes as
that of a single read."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.client import TIMEOUT, key_path
from tests.support.deployment import Deployment, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

PARTITIONS = 6
ODD_KEYS = ["a/b", "100%", "%61", " ", "a+b", "a?b", "a#b", "Zürich", "東京", "'\"\\", "a\nb"]
FLOATS = [0.0, -0.0, 1.5, -1e300, 5e-324, float("inf"), float("-inf"), float("nan")]
UUIDS = ["0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e1a", "AB4B7E36-7E2D-4D5C-9A0F-3B1F0A7C9E1A"]
BYTES = [b"a", b"\n", b"a\n\nb", b"\xff\x01", b'"', "ä".encode()]
DOCUMENTS = ["1", "null", '"a/b"', '{"id":1}', '{"id": 1}', '["日"]', "[1.0]", "{}"]
ROUNDS = 4
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.fixture(scope="module")
def deployment(
    module_deploy: Deploy,
    make_topic: MakeTopic,
    writer: Writer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Deployment]:
    """Two backends, each with half of the keys."""
    words, numbers = make_topic(PARTITIONS), make_topic(PARTITIONS)
    floats, documents, longs = (make_topic(PARTITIONS) for _ in range(3))
    ints, raw, uuids, texts = (make_topic(PARTITIONS) for _ in range(4))
    writer.table(words, {key: {"is": key} for key in [f"k{n}" for n in range(40)] + ODD_KEYS})
    writer.table(words, {"large": "x" * 100_000, "gone": 1})
    writer.table(words, {"gone": None})
    writer.send(numbers, ((struct.pack(">q", n), str(n).encode()) for n in range(-5, 5)))
    writer.send(floats, ((struct.pack(">d", x), repr(x).encode()) for x in FLOATS))
    writer.send(documents, ((text.encode(), text.encode()) for text in DOCUMENTS))
    # a zigzag varint of one byte
    writer.send(longs, ((bytes([n * 2 ^ n >> 63]), str(n).encode()) for n in range(-5, 5)))
    writer.send(ints, ((struct.pack(">i", n), str(n).encode()) for n in (-5, 0, 10, 2**31 - 1)))
    writer.send(raw, ((key, str(n).encode()) for n, key in enumerate(BYTES)))
    writer.send(uuids, ((key.encode(), key.encode()) for key in UUIDS))
    # a length, and UTF-8
    writer.send(texts, ((bytes([2 * len(t)]) + t, t) for t in (b"", b"a", b"\xc3\xa9", b"12345")))
    schemas = tmp_path_factory.mktemp("schema")
    schema, text_schema = schemas / "long.avsc", schemas / "string.avsc"
    schema.write_text('"long"')
    text_schema.write_text('"string"')
    views = views_toml(
        v={"topic": words, "path": "/messages"},
        n={"topic": numbers, "key": "int64", "value": "string"},
        f={"topic": floats, "key": "float64", "value": "string"},
        d={"topic": documents, "key": "json", "value": "string"},
        a={"topic": longs, "key": "avro", "key_schema": str(schema), "value": "string"},
        i={"topic": ints, "key": "int32", "value": "string"},
        b={"topic": raw, "key": "bytes", "value": "string"},
        u={"topic": uuids, "key": "uuid", "value": "string"},
        s={"topic": texts, "key": "avro", "key_schema": str(text_schema), "value": "string"},
        g={"topic": words, "store": "global"},
        h={"topic": numbers, "key": "int64", "value": "string", "store": "versioned",
           "retention": "1d"},
        # most of the values cannot be read
        r={"topic": ints, "key": "int32", "value": "int32"},
    )  # fmt: skip
    # with it, answers have more headers
    deployment = module_deploy(views, cors_origins="https://app.example.com")
    backends = deployment.start(2)
    yield deployment
    for backend in backends:
        assert "Traceback" not in backend.log()


@pytest.fixture(scope="module")
def proxies(deployment: Deployment) -> tuple[Nginx, Nginx]:
    """One nginx that coalesces reads, and one that does not; each with one worker."""

    def proxy(batches: str) -> Nginx:
        settings = {"QUERYABLE_PROXY_BATCHES": batches, "QUERYABLE_PROXY_READ_TIMEOUT": "10"}
        return deployment.proxy(environment=settings, workers=1)

    return proxy("1"), proxy("0")


def targets() -> list[str]:
    names = [f"k{n}" for n in range(60)] + ODD_KEYS + ["large", "gone"]
    return [
        *(key_path("v", name) for name in names),
        *(f"/messages/k{n}" for n in range(20)),
        *(f"/views/n/keys/{n}" for n in range(-7, 7)),
        *(f"/views/f/keys/{x}" for x in ("0", "-0", "1.5", "15e-1", "-1e300", "NaN", "Infinity")),
        *(key_path("d", text) for text in [*DOCUMENTS, "2", "["]),
        *(f"/views/a/keys/{n}" for n in (*range(-7, 7), "-0", "1.0")),
        "/views/n/keys/x",
        "/views/n/keys/007",
        *(f"/views/i/keys/{n}" for n in (-5, 0, 10, 2**31 - 1, 2**31, 7, "%31%30")),
        *(f"/views/r/keys/{n}" for n in (-5, 0, 10, 2**31 - 1, 7)),
        *(f"/views/b/keys/{quote(key, safe='')}" for key in [*BYTES, b"none", b"\r\n"]),
        *(f"/views/u/keys/{case}" for text in UUIDS for case in (text, text.lower(), text.upper())),
        "/views/u/keys/0",
        *(key_path("s", f'"{text}"') for text in ("", "a", "é", "12345", "none")),
        "/views/s/keys/%22%FF%22", "/views/v/keys/%FF", "/views/v/keys/a%C3", "/views/d/keys/%FF",
        *(key_path("g", name) for name in ["k1", "none", *ODD_KEYS]),
        *(f"/views/h/keys/{n}" for n in range(-7, 7)),
    ]  # fmt: skip


def variants(answer: bytes) -> list[tuple[str, str]]:
    """Methods, and headers that change the answer to a plain GET, which is `answer`."""
    etag = re.search(rb"(?mi)^etag: ([^\r\n]*)", answer)
    known = etag[1].decode() if etag else '"none"'
    return [
        ("HEAD", ""),
        ("GET", f"If-None-Match: {known}\r\n"),
        ("GET", f"If-Match: {known}\r\n"),
        *(("GET", f"Accept: {kind}\r\n") for kind in ("application/json", "text/html",
                                                     "application/octet-stream")),
    ]  # fmt: skip


def exchange_all(port: int, requests: list[bytes]) -> list[bytes]:
    """The answers, each on its own connection. All requests are sent before any answer is read."""
    with ExitStack() as opened:
        connections = []
        for _ in requests:
            connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
            connections.append(opened.enter_context(connection))
        for connection, request in zip(connections, requests, strict=True):
            connection.sendall(request)
        return [b"".join(iter(lambda c=c: c.recv(65536), b"")) for c in connections]


def answers(port: int, paths: list[str], more: str = "") -> list[bytes]:
    """`more`: further lines of each request."""
    line = f"GET {{}} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n{more}\r\n"
    return exchange_all(port, [line.format(path).encode() for path in paths])


def plain_answers(port: int, paths: list[str]) -> list[tuple[list[bytes], bytes]]:
    """The `parts` of answers to requests of the simplest form, without `Connection: close`."""
    found = []
    with ExitStack() as opened:
        connections = []
        for path in paths:
            connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
            connections.append(opened.enter_context(connection))
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: t\r\n\r\n".encode())
        for connection in connections:
            answer = HTTPResponse(connection)
            answer.begin()
            lines = [f"{name}: {value}" for name, value in answer.getheaders()]
            head = "\r\n".join((f"HTTP/1.1 {answer.status} {answer.reason}", *lines))
            found.append(parts(b"%b\r\n\r\n%b" % (head.encode("latin-1"), answer.read())))
    return found


Parts = tuple[list[bytes], bytes]


def parts(answer: bytes) -> Parts:
    """Status line and headers, and the body. The values of headers that vary with time are removed,
    and the headers are sorted."""
    head, _, body = answer.removeprefix(_CONTINUE).partition(b"\r\n\r\n")
    head = re.sub(rb"(?m)^(Date|staleness): .*$", rb"\1:", head)
    status, *headers = head.split(b"\r\n")
    return [status, *sorted(headers)], body


class PeerRequests(NamedTuple):
    """How many requests a backend has sent to others: with several reads, and with one."""

    batches: float
    single: float


def requests_to_peers(backend: Backend) -> PeerRequests:
    values = backend.samples("queryable_peer_requests_total")
    counts = (values.get(("answered", route), 0.0) for route in ("internal/reads", "forward"))
    return PeerRequests(*counts)


def test_reads_that_are_forwarded_together_get_the_answers_of_single_ones(
    deployment: Deployment,
) -> None:
    paths = targets()
    for backend in deployment.all:
        singly = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n"
        before = requests_to_peers(backend)
        expected = [parts(answer) for answer in answers(backend.port, paths, singly)]
        separately = requests_to_peers(backend)
        assert separately.batches == before.batches
        forwards = separately.single - before.single
        assert forwards > 40
        asked = partial(are_forwarded_together, backend, paths, expected, forwards)
        for _ in range(ROUNDS):
            wait_until(asked, 60, "reads that are forwarded together")


def are_forwarded_together(
    backend: Backend, paths: list[str], expected: list[Parts], forwards: float
) -> bool:
    """Sends both forms of requests, and compares the answers. On a busy machine, each read may be
    forwarded alone."""
    before = requests_to_peers(backend)
    together = [parts(answer) for answer in answers(backend.port, paths)]
    for path, ours, theirs in zip(paths, together, expected, strict=True):
        assert ours == theirs, path
    unsaid = b"connection: close"
    without = [([line for line in head if line != unsaid], body) for head, body in expected]
    for path, ours, theirs in zip(paths, plain_answers(backend.port, paths), without, strict=True):
        assert ours == theirs, path
    after = requests_to_peers(backend)
    # alone: the large value, and keys that an HTTP parser might refuse
    few_are_alone = after.single - before.single < 2 * forwards / 4
    return few_are_alone and 0 < after.batches - before.batches < forwards


def test_coalesced_reads_get_the_answers_of_single_reads(proxies: tuple[Nginx, Nginx]) -> None:
    coalescing, alone = proxies
    paths = targets()
    expected = [parts(answer) for answer in answers(alone.port, paths)]
    statuses = {lines[0] for lines, _ in expected}
    assert {line.split()[1] for line in statuses} == {b"200", b"404", b"400", b"406"}
    for _ in range(ROUNDS):
        for path, coalesced, single in zip(
            paths, answers(coalescing.port, paths), expected, strict=True
        ):
            assert parts(coalesced) == single, path
    entries = coalescing.access_log(ROUNDS * len(paths))
    in_batches = [entry for entry in entries if entry["batch"] is not None]
    # except the large value, what is not a key or not readable, and text that JSON escapes
    assert len(in_batches) > 0.75 * len(entries)
    views = {re.sub("/keys/.*", "", entry["uri"]) for entry in in_batches}
    assert views >= {f"/views/{name}" for name in "vnfdaiubsgh"}
    assert max(entry["batch"] for entry in in_batches) > 1
    assert {entry["status"] for entry in in_batches} == {200, 404}
    assert all(entry["batch"] is None for entry in alone.access_log(len(paths)))


def test_other_forms_of_a_read_get_the_same_answers(proxies: tuple[Nginx, Nginx]) -> None:
    """Also next to plain reads of the same keys, which are coalesced."""
    coalescing, alone = proxies
    line = "{} {} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n{}\r\n"
    paths = targets()[::3]
    requests = [
        line.format(method, path, more).encode()
        for path, answer in zip(paths, answers(alone.port, paths), strict=True)
        for method, more in variants(answer)
    ]
    plain = [line.format("GET", path, "").encode() for path in paths]
    statuses = set()
    for start in range(0, len(requests), 100):
        some = requests[start : start + 100]
        together = exchange_all(coalescing.port, [*some, *plain[:30]])
        singly = exchange_all(alone.port, some)
        for request, ours, theirs in zip(some, together[: len(some)], singly, strict=True):
            assert parts(ours) == parts(theirs), request
            statuses.add(theirs.split(b" ", 2)[1])
    assert statuses >= {b"200", b"304", b"404", b"406"}


_PATH = "/messages/Z%C3%BCrich"
_CLOSE = "Host: t\r\nConnection: close\r\n"


def odd_requests() -> list[bytes]:
    """Requests for existing keys that a parser may reject or read differently."""
    targets = [
        "/messages/Z\xc3\xbcrich", "/messages/Z\xfcrich", "/messages/k1\xff", "/messages/k1#",
        "/messages/k1#x", "/messages/k1?",
        "/messages/k1??", "/messages/k1?#", "/messages/k1?stale=allow", "//messages/k1",
        "/messages//k1",
        "/messages/k1/", "/messages/./k1", "/messages/../messages/k1", "/messages/x/../k1",
        "/messages/k%31",
        "/%6Dessages/k1", "/messages%2Fk1", "/messages/k1%", "/messages/k1%zz", "/messages/k1 ",
        "/messages/k\t1",
        "/messages/k1\x01", "/messages/k1\x7f", "/messages/", "/messages", "/views/v/keys/",
        "http://t/messages/k1",
        "http://other:1/messages/k1", "http://t", "http://t?x", "*", "/views/v/keys/k1;a=b",
        "/messages/'\"\\",
        "/messages/k1?encoding=base64ur%6c", "/messages/azE?encoding=base64ur%6c",
        "/messages/azE=?encoding=base64url",
        "/messages/azE?encoding=text&encoding=base64url", "/views/n/keys/+1", "/views/n/keys/%31",
        "/messages/" + "k" * 8193, "/messages/" + "k" * 9000,
    ]  # fmt: skip
    lines = [f"GET {target} HTTP/1.1" for target in targets]
    lines += [f"{method} {_PATH} HTTP/1.1" for method in ("HEAD", "POST", "PUT", "get", "OPTIONS")]
    lines += [f"GET {_PATH} HTTP/1.0", f"GET {_PATH} HTTP/1.2", f"GET  {_PATH} HTTP/1.1"]
    requests = [f"{line}\r\n{_CLOSE}\r\n" for line in lines]
    headers = [
        "Expect: 100-continue", "X-A: \x01", "X-A: \x7f", "X-A: é", "X-A: a\tb", "X-A:", "X A: 1",
        "X-A : 1",
        "Accept: */*", "Accept: text/html", "Accept: */*\r\nAccept: text/html", "Accept: ;",
        "Accept: application/json",
        "Content-Type: a\r\nContent-Type: b", "Upgrade: websocket",
        "Upgrade: h2c\r\nHTTP2-Settings: AAA",
        "X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off",
        "X-Forwarded-Proto: http\r\nX-Forwarded-Proto: https",
        "X-Forwarded-Protocol: ssl\r\nX-Forwarded-Proto: http", "Queryable-Forwarded: x",
        "Queryable-Final-Status: 200", "Trailer: x", "TE: trailers", "Content-Length: 0",
        "Content-Length: 1\r\n\r\nx",
        "Host: u", "If-None-Match: *", "If-Match: *", "Range: bytes=0-0",
        "Authorization: Basic YTpi",
        "Cookie: a=b\r\nCookie: c=d", "X-A: " + "x" * 8_100, "X-A: " + "x" * 9_000,
        "\r\n".join(f"X-{number}: 1" for number in range(70)),
        "\r\n".join(f"X-{number}: 1" for number in range(120)),
    ]  # fmt: skip
    requests += [f"GET {_PATH} HTTP/1.1\r\n{_CLOSE}{header}\r\n\r\n" for header in headers]
    return [request.encode("latin-1") for request in requests]


def test_odd_requests_get_the_same_answers_alone_and_coalesced(
    proxies: tuple[Nginx, Nginx],
) -> None:
    """The answer of a read must not depend on concurrent reads."""
    coalescing, alone = proxies
    odd = odd_requests()
    crowd = [f"GET /messages/k{n} HTTP/1.1\r\n{_CLOSE}\r\n".encode() for n in range(20)]
    expected = exchange_all(alone.port, odd)
    assert {parts(answer)[0][0].split()[1] for answer in expected} >= {b"200", b"400", b"404"}
    before = len(coalescing.access_log(0))
    for _ in range(2):
        # each of them several times, so that some wait for others
        mixed = [request for request in odd for _ in range(3)] + crowd * 2
        coalesced = exchange_all(coalescing.port, mixed)
        wrong = [
            (request[:120], answer[:300], expected[place][:300])
            for place, request in enumerate(odd)
            for answer in coalesced[3 * place : 3 * place + 3]
            if parts(answer) != parts(expected[place])
        ]
        assert wrong == []
    entries = coalescing.access_log(before + 2 * len(mixed) - 2 * len(odd))[before:]
    assert sum(entry["batch"] is not None for entry in entries) >= len(crowd)


def test_values_are_correct(proxies: tuple[Nginx, Nginx]) -> None:
    coalescing, _ = proxies
    names = [f"k{n}" for n in range(40)] + ODD_KEYS
    coalesced = answers(coalescing.port, [key_path("v", name) for name in names])
    bodies = [json.loads(answer.partition(b"\r\n\r\n")[2]) for answer in coalesced]
    assert bodies == [{"key": name, "value": {"is": name}} for name in names]


def test_keys_of_all_formats_are_routed_to_the_partition_that_has_them(
    proxies: tuple[Nginx, Nginx],
) -> None:
    _, alone = proxies
    texts = {"0": 0.0, "-0": -0.0, "15e-1": 1.5, "-1e300": -1e300, "5e-324": 5e-324, "NaN": "nan"}
    expected = {f"/views/f/keys/{text}": str(x) for text, x in texts.items()}
    expected |= {key_path("d", text): text for text in DOCUMENTS}
    expected |= {f"/views/a/keys/{n}": str(n) for n in range(-5, 5)}
    partitions = {}
    with alone.client() as client:
        for path, value in expected.items():
            response = client.get(path)
            assert (response.status, response.json()["value"]) == (200, value), path
            partitions[path] = int(response.headers["Partition"])

    def computed() -> dict[str, int | None]:
        entries = alone.access_log(0, "/views/")
        return {e["uri"]: e["partition"] for e in entries if e["uri"] in expected}

    wait_until(lambda: computed().keys() == expected.keys(), 10, "the access log")
    assert computed() == partitions


def test_clients_cannot_use_the_coalesced_route(proxies: tuple[Nginx, Nginx]) -> None:
    for nginx in proxies:
        with nginx.client() as client:
            assert client.request("POST", "/internal/reads", b"/messages/k1").status == 404


def test_memory_of_nginx_does_not_grow_with_batches(proxies: tuple[Nginx, Nginx]) -> None:
    """nginx's memory is the same after many batches as after some."""
    coalescing, _ = proxies

    def resident() -> int:
        [worker] = coalescing.workers()
        status = Path(f"/proc/{worker}/status").read_text()
        [kilobytes] = re.findall(r"VmRSS:\s+(\d+) kB", status)
        return int(kilobytes)

    paths = [key_path("v", f"k{n}") for n in range(40)] * 2
    for _ in range(10):
        answers(coalescing.port, paths)
    before = resident()
    for _ in range(60):
        answers(coalescing.port, paths)
    assert resident() - before < 8_000
