"""Every kind of store on real instances, read through each of them."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from local.kafka.broker import Broker
from local.waiting import wait_until
from model.partitioner import partition_of
from tests.support.backends import Backend
from tests.support.client import Client, Response, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

PARTITIONS = 3
KEYS = [f"aircraft {n}" for n in range(12)] + ["a/b", "東京", "a\x01b"]
MINUTE = 60_000
# brokers delete by record time, so it must not be too long ago
NOW = int(time.time() * 1000) // MINUTE * MINUTE - 60 * MINUTE

partition = partition_of("murmur2")


def place(key: str) -> int:
    return partition(key.encode(), PARTITIONS)


def windowed(key: str, minute: int, sequence: int = 0) -> bytes:
    return key.encode() + struct.pack(">qi", NOW + minute * MINUTE, sequence)


def session(key: str, start: int, end: int) -> bytes:
    return key.encode() + struct.pack(">qq", NOW + end * MINUTE, NOW + start * MINUTE)


@pytest.fixture(scope="module")
def backends(
    module_deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> Iterator[list[Backend]]:
    topics = [make_topic(PARTITIONS) for _ in range(5)]
    windows, series, sessions, versions, plain = topics
    for key in KEYS:
        at = place(key)
        writer.send_timed(
            windows, [(windowed(key, m), b"%d" % m, NOW + m * MINUTE, at) for m in range(10)]
        )
        writer.send_timed(
            series, [(windowed(key, m, n), b"%d" % n, NOW, at) for m in (1, 2) for n in (1, 2)]
        )
        writer.send_timed(
            sessions,
            [
                (session(key, 1, 2), b"1", NOW, at),
                (session(key, 1, 2), None, NOW, at),
                (session(key, 1, 4), b"2", NOW, at),
                (session(key, 6, 6), b"3", NOW, at),
            ],
        )
        written = ((1, b"1"), (5, b"5"), (3, b"3"), (7, None), (8, b"8"))
        writer.send_timed(
            versions, [(key.encode(), value, NOW + m * MINUTE, at) for m, value in written]
        )
        writer.table(plain, {key: key})
    timed = {"value": "json"}
    deployment = module_deploy(
        views_toml(
            windows={"topic": windows, "store": "window", "window_size": "1m", **timed},
            short={"topic": windows, "store": "window", "window_size": "1m", "retention": "3m"},
            series={"topic": series, "store": "window", **timed},
            sessions={"topic": sessions, "store": "session", **timed},
            versions={"topic": versions, "store": "versioned", **timed},
            memory={"topic": plain, "persistence": "memory"},
            member={
                "topic": plain,
                "store": "backend.storage.bloom_filter:BloomFilter",
                "persistence": "memory",
            },
        )
    )
    backends = deployment.start(2)
    yield backends
    for backend in backends:
        assert "Traceback" not in backend.log()


def ask(backends: list[Backend], path: str) -> Response:
    """The answer, which must be the same from all instances."""
    answers = [backend.get(path) for backend in backends]
    assert len({(answer.status, answer.body) for answer in answers}) == 1, path
    return answers[0]


def items(backends: list[Backend], view: str, key: str, resource: str) -> list[Any]:
    answer = ask(backends, f"{key_path(view, key)}/{resource}")
    assert answer.status == 200, answer.body
    document = answer.json()
    assert (document["key"], document["next"]) == (key, None)
    found: list[Any] = document["items"]
    return found


def at(minute: int) -> int:
    return NOW + minute * MINUTE


def test_windows_of_a_key(backends: list[Backend]) -> None:
    for key in KEYS:
        expected = [
            {"start": at(m), "end": at(m + 1), "sequence": 0, "value": m} for m in range(10)
        ]
        assert items(backends, "windows", key, "windows") == expected
        bounds = f"windows?from={at(3)}&to={at(5)}"
        assert items(backends, "windows", key, bounds) == expected[3:6]
        assert items(backends, "windows", key, f"{bounds}&order=desc") == expected[5:2:-1]
        # exactly 3 minutes before the newest start
        assert items(backends, "short", key, "windows") == expected[7:]
        assert items(backends, "series", key, "windows") == [
            {"start": at(m), "end": None, "sequence": n, "value": n} for m in (1, 2) for n in (1, 2)
        ]
    iso = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at(8) / 1000))
    assert items(backends, "windows", KEYS[0], f"windows?from={iso}") == expected[8:]
    assert items(backends, "windows", "nobody", "windows") == []


def test_pages_of_the_windows_of_a_key(backends: list[Backend]) -> None:
    found: list[int] = []
    cursor = ""
    for turn in range(4):
        path = f"{key_path('windows', 'a/b')}/windows?limit=3{cursor}"
        # each page from another instance
        page = backends[turn % 2].get(path).json()
        found += [item["value"] for item in page["items"]]
        cursor = f"&cursor={page['next']}"
    assert (found, page["next"]) == (list(range(10)), None)
    stranger = backends[0].get(f"{key_path('windows', 'a/b')}/windows?limit=3&cursor=AAAA")
    assert (stranger.status, stranger.code) == (400, "cursor-invalid")


def test_sessions_of_a_key(backends: list[Backend]) -> None:
    first = {"start": at(1), "end": at(4), "value": 2}
    second = {"start": at(6), "end": at(6), "value": 3}
    for key in KEYS:
        assert items(backends, "sessions", key, "sessions") == [first, second]
        assert items(backends, "sessions", key, f"sessions?from={at(4)}&to={at(5)}") == [first]
        assert items(backends, "sessions", key, f"sessions?from={at(5)}") == [second]


def test_versions_of_a_key(backends: list[Backend]) -> None:
    def version(start: int, end: int | None, value: int) -> dict[str, Any]:
        until = None if end is None else at(end)
        return {"valid_from": at(start), "valid_to": until, "value": value}

    for key in KEYS:
        expected = [version(1, 3, 1), version(3, 5, 3), version(5, 7, 5), version(8, None, 8)]
        assert items(backends, "versions", key, "versions") == expected
        assert items(backends, "versions", key, "versions?order=desc") == expected[::-1]
        assert (
            items(backends, "versions", key, f"versions?from={at(4)}&to={at(6)}") == expected[1:3]
        )
        path = key_path("versions", key)
        assert ask(backends, path).json() == {"key": key, "value": 8}
        assert ask(backends, f"{path}?as_of={at(4)}").json() == {"key": key, **expected[1]}
        for minute in (0, 7):
            missing = ask(backends, f"{path}?as_of={at(minute)}")
            assert (missing.status, missing.code) == (404, "key-not-found")


def test_memory_and_custom_stores(backends: list[Backend]) -> None:
    for key in KEYS:
        assert ask(backends, key_path("memory", key)).json() == {"key": key, "value": key}
        assert ask(backends, key_path("member", key)).json() == {"key": key, "value": True}
    for backend in backends:
        assert not list(backend.data_dir.glob("memory/*/CURRENT"))
    others = [ask(backends, key_path("member", f"other {n}")).json()["value"] for n in range(200)]
    assert others.count(True) < 20
    assert ask(backends, key_path("memory", "other")).status == 404


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/views/windows/keys/a", 400, "wrong-store"),
        ("/views/sessions/keys/a", 400, "wrong-store"),
        ("/views/windows/keys/a/sessions", 404, "no-such-resource"),
        ("/views/memory/keys/a/windows", 404, "no-such-resource"),
        ("/views/windows/keys/a/windows?from=yesterday", 400, "bad-parameter"),
        ("/views/windows/keys/a/windows?from=2013-01-01T10:00:00", 400, "bad-parameter"),
        ("/views/windows/keys/a/windows?limit=0", 400, "bad-parameter"),
        ("/views/windows/keys/a/windows?since=1", 400, "unknown-parameter"),
        ("/views/memory/keys/a?as_of=1", 400, "unknown-parameter"),
        ("/views/memory/keys/a?min_offset=x", 400, "bad-parameter"),
        ("/views/windows/keys/a/changes", 400, "wrong-store"),
        ("/views/member/keys", 400, "wrong-store"),
        ("/views/member/top?by=a", 400, "wrong-store"),
        ("/views/windows/keys", 400, "wrong-store"),
        ("/views/memory/windows", 400, "wrong-store"),
    ],
)
def test_bad_requests(backends: list[Backend], path: str, status: int, code: str) -> None:
    for backend in backends:
        answer = backend.get(path)
        assert (answer.status, answer.code) == (status, code)


def search(backend: Backend, view: str, body: bytes, kind: str = "application/json") -> Response:
    with Client(backend.port) as client:
        return client.request("POST", f"/views/{view}/search", body, Content_Type=kind)


def test_a_key_in_the_body_gets_the_same_answer_as_in_the_path(backends: list[Backend]) -> None:
    for key in [*KEYS, "missing"]:
        expected = ask(backends, key_path("memory", key))
        for backend in backends:
            answer = search(backend, "memory", json.dumps({"query": key}).encode())
            assert (answer.status, answer.body) == (expected.status, expected.body)
            raw = search(backend, "memory", key.encode(), "application/octet-stream")
            assert (raw.status, raw.body) == (expected.status, expected.body)
    for body in (b"", b"{", b"[]", b'{"query":1}', b'{"query":"a","b":1}', b'{"query":"a"} x'):
        answer = search(backends[0], "memory", body)
        assert answer.status == 400, body
        assert answer.code in ("bad-request", "key-undecodable")
    refused = backends[0].get("/views/memory/search")
    assert (refused.status, refused.headers["Allow"]) == (405, "POST")
    asked_of_windows = search(backends[0], "windows", b'{"query":"a"}')
    assert (asked_of_windows.status, asked_of_windows.code) == (400, "wrong-store")


def test_freshness_bounds(backends: list[Backend]) -> None:
    path = key_path("memory", KEYS[0])
    answer = ask(backends, path)
    at_, position = int(answer.headers["Partition"]), int(answer.headers["Offset"])
    assert ask(backends, f"{path}?min_offset={at_}:{position - 1}&max_lag=0").status == 200
    assert ask(backends, f"{path}?min_offset={at_ + 1}:{position + 9}").status == 200
    for backend in backends:
        refused = backend.get(f"{path}?min_offset={at_}:{position}")
        assert (refused.status, refused.code) == (503, "not-up-to-offset")
        assert refused.headers["Retry-After"] == "1"
    wait_until(lambda: ask(backends, f"{path}?max_staleness=30s").status == 200, 10, "a fresh end")


def test_a_matching_etag_is_304_and_redirects_lead_to_the_owner(
    backends: list[Backend],
) -> None:
    statuses = []
    for key in KEYS:
        path = key_path("memory", key)
        etag = ask(backends, path).headers["ETag"]
        for backend in backends:
            same = backend.get(path, If_None_Match=f'"x", W/{etag}')
            assert (same.status, same.body, same.headers["ETag"]) == (304, b"", etag)
            assert backend.get(path, If_None_Match='"x"').status == 200
            redirect = backend.get(f"{path}?route=redirect")
            statuses.append(redirect.status)
            own = backend.get(f"{path}?route=local")
            assert own.status == (503 if redirect.status == 307 else 200), own
            if own.status == 503:
                assert (own.code, own.headers["Retry-After"]) == ("not-here", "1")
            if redirect.status == 307:
                [owner] = [b for b in backends if b is not backend]
                expected = f"http://127.0.0.1:{owner.port}{path}?route=redirect"
                assert redirect.headers["Location"] == expected
    assert set(statuses) == {200, 307}


def test_expired_entries_are_deleted_from_disk(
    deploy: Deploy, make_topic: MakeTopic, broker: Broker, writer: Writer
) -> None:
    topic = make_topic(1)
    noise = [json.dumps(str(n) * 200).encode() for n in range(3000)]
    writer.send_timed(topic, ((b"k%d" % n, v, NOW, 0) for n, v in enumerate(noise)))
    [backend] = deploy(views_toml(v={"topic": topic, "retention": "1m"})).start(1)
    assert backend.get(key_path("v", "k7")).status == 200

    def entries() -> int:
        return int(backend.get("/instance").json()["partitions"][0]["entries"])

    def on_disk() -> int:
        backend_files = (backend.data_dir / "v" / "0").glob("*.sst")
        return sum(file.stat().st_size for file in backend_files)

    backend.stop()
    before = on_disk()
    assert before > 100_000
    backend.start()
    writer.send_timed(topic, [(b"later", b"1", NOW + 2 * MINUTE, 0)])
    wait_until(lambda: backend.get(key_path("v", "k7")).status == 404, 10, "the clock to advance")
    wait_until(lambda: entries() < 100, 20, "the entries to be deleted")
    backend.stop()
    settle([backend.start()])
    wait_until(lambda: on_disk() < before / 10, 20, "RocksDB to drop them")
    assert backend.get(key_path("v", "later")).status == 200
