"""KIQR's REST dialect as its Java client speaks it, to two instances: every route and store."""

from __future__ import annotations

import base64
import json
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from local.kafka.broker import Broker
from local.waiting import stretch
from model.partitioner import partition_of
from tests.support.backends import Backend
from tests.support.client import Response
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

PARTITIONS = 3
KAFKA = "org.apache.kafka.common.serialization.Serdes$"
STRINGS = {"keySerde": f"{KAFKA}StringSerde", "valueSerde": f"{KAFKA}StringSerde"}
LONGS = {"keySerde": f"{KAFKA}LongSerde", "valueSerde": f"{KAFKA}DoubleSerde"}
# their base64 has "/" and "+"
KEYS = ["", "a", "ü?~?", "???", "~~~>", "東京", "\U0010ffff", *map(str, range(30))]
NUMBERS = [-5, -1, 0, 7, 2**62]
NOW = int(time.time() * 1000) - 3_600_000


def b64(raw: bytes | str) -> str:
    return base64.b64encode(raw.encode() if isinstance(raw, str) else raw).decode()


def long(number: int) -> bytes:
    return struct.pack(">q", number)


def double(number: float) -> bytes:
    return struct.pack(">d", number)


def place(key: bytes) -> int:
    return partition_of("murmur2")(key, PARTITIONS)


@pytest.fixture(scope="module")
def backends(
    module_deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> Iterator[list[Backend]]:
    text, numbers, window, session, versions = (make_topic(PARTITIONS) for _ in range(5))
    strewn = make_topic(PARTITIONS)
    for n in range(PARTITIONS):
        # each key is in all partitions
        writer.send_timed(strewn, [(key.encode(), b"%d" % n, NOW + n, n) for key in KEYS])
    writer.send(text, ((key.encode(), json.dumps(key).encode()) for key in KEYS))
    writer.send(text, [(b"gone", b"1"), (b"gone", None)])
    writer.send(numbers, ((long(n), double(n / 2)) for n in NUMBERS))
    for key in KEYS:
        raw = key.encode()
        for n in range(4):
            entry = raw + struct.pack(">qi", NOW + n, 0)
            writer.send_timed(window, [(entry, long(n), NOW, place(raw))])
            entry = raw + struct.pack(">qq", NOW + 10 * n + 5, NOW + 10 * n)
            writer.send_timed(session, [(entry, long(n), NOW, place(raw))])
            writer.send_timed(versions, [(raw, long(n), NOW + n, place(raw))])
    views = views_toml(
        text={"topic": text, "value": "string"},
        strewn={"topic": strewn, "value": "string", "partitioner": "none"},
        numbers={"topic": numbers, "key": "int64", "value": "float64"},
        windows={"topic": window, "store": "window", "window_size": "1m", "value": "int64"},
        sessions={"topic": session, "store": "session", "value": "int64"},
        versions={"topic": versions, "store": "versioned", "value": "int64"},
    )
    backends = module_deploy(views).start(2)
    settle(backends)
    yield backends
    for backend in backends:
        assert "Traceback" not in backend.log()


def ask(backends: list[Backend], path: str, **parameters: Any) -> Response:
    """The answer, which must be the same from all instances."""
    query = f"?{urlencode(parameters)}" if parameters else ""
    answers = [backend.get(f"/api/v1/{path}{query}") for backend in backends]
    assert len({(answer.status, answer.body) for answer in answers}) == 1, path
    return answers[0]


def test_every_instance_returns_the_value_of_a_key(backends: list[Backend]) -> None:
    assert {place(key.encode()) for key in KEYS} == {0, 1, 2}
    encoded = [b64(key) for key in KEYS]
    assert any("/" in key for key in encoded)
    assert any("+" in key for key in encoded)
    assert b64(long(-1)).startswith("//")
    for key, text in zip(KEYS, encoded, strict=True):
        # Java's client does not encode slashes, others do
        for path in {quote(text, safe="/+="), quote(text, safe=""), text.rstrip("=")}:
            answer = ask(backends, f"kv/text/values/{path}", **STRINGS)
            assert answer.json() == {"value": b64(json.dumps(key))}, (key, path)
            assert answer.headers["Content-Type"] == "application/json"
    for n in NUMBERS:
        for path in (quote(b64(long(n)), safe=""), b64(long(n))):
            answer = ask(backends, f"kv/numbers/values/{path}", **LONGS)
            assert answer.json() == {"value": b64(double(n / 2))}
    for path in (quote(b64(long(-2)), safe=""), b64(long(-2))):
        missing = ask(backends, f"kv/numbers/values/{path}", **LONGS)
        assert (missing.status, missing.code) == (404, "key-not-found")
    latest = {**STRINGS, "valueSerde": f"{KAFKA}LongSerde"}
    assert ask(backends, f"kv/versions/values/{b64('a')}", **latest).json() == {
        "value": b64(long(3))
    }
    assert ask(backends, f"kv/text/values/{b64('gone')}", **STRINGS).status == 404


def test_all_values_and_ranges(backends: list[Backend]) -> None:
    results = ask(backends, "kv/text", **STRINGS).json()["results"]
    assert results == {b64(key): b64(json.dumps(key)) for key in KEYS}
    some = {b64(key): b64(json.dumps(key)) for key in KEYS if "10" <= key <= "19"}
    assert len(some) == 10
    bounds = {"from": b64("10"), "to": b64("19")}
    assert ask(backends, "kv/text", **STRINGS, **bounds).json() == {"results": some}
    numbers = ask(backends, "kv/numbers", **LONGS, **{"from": b64(long(-5)), "to": b64(long(0))})
    assert list(numbers.json()["results"]) == [b64(long(-5)), b64(long(-1)), b64(long(0))]
    latest = {**STRINGS, "valueSerde": f"{KAFKA}LongSerde"}
    versions = ask(backends, "kv/versions", **latest).json()["results"]
    assert versions == {b64(key): b64(long(3)) for key in KEYS}
    assert ask(backends, "kv/numbers/count").json() == {"count": len(NUMBERS)}


def test_keys_in_several_partitions(backends: list[Backend]) -> None:
    for _ in range(3):
        assert ask(backends, "kv/strewn/count").json() == {"count": len(KEYS)}
    newest = {b64(key): b64(b"%d" % (PARTITIONS - 1)) for key in KEYS}
    assert ask(backends, "kv/strewn", **STRINGS).json() == {"results": newest}
    answer = ask(backends, f"kv/strewn/values/{b64('a')}", **STRINGS)
    assert answer.json() == {"value": newest[b64("a")]}


def test_windows_and_sessions_of_a_key(backends: list[Backend]) -> None:
    serdes = {**STRINGS, "valueSerde": f"{KAFKA}LongSerde"}
    for key in KEYS:
        path = quote(b64(key), safe="")
        bounds = {"from": NOW + 1, "to": NOW + 2}
        windows = ask(backends, f"window/windows/{path}", **serdes, **bounds)
        assert windows.json() == {"values": {str(NOW + n): b64(long(n)) for n in (1, 2)}}
        sessions = ask(backends, f"session/sessions/{path}", **serdes)
        assert sessions.json() == {
            "values": [
                {"startMs": NOW + 10 * n, "endMs": NOW + 10 * n + 5, "value": b64(long(n))}
                for n in range(4)
            ]
        }
    open_end = ask(
        backends, f"window/windows/{b64('a')}", **serdes, **{"from": NOW + 1, "to": 2**63 - 1}
    )
    assert set(open_end.json()["values"]) == {str(NOW + n) for n in (1, 2, 3)}
    never = ask(backends, f"window/windows/{b64('a')}", **serdes, **{"from": 1, "to": 2})
    assert never.json() == {"values": {}}
    assert ask(backends, f"session/sessions/{b64('x')}", **serdes).json() == {"values": []}


WINDOW = {**STRINGS, "valueSerde": f"{KAFKA}LongSerde", "from": "1", "to": "2"}
REFUSED: list[tuple[str, dict[str, str], int, str]] = [
    ("kv/text/values/YQ==", {}, 400, "missing-parameter"),
    ("kv/text/values/YQ==", {"keySerde": STRINGS["keySerde"]}, 400, "missing-parameter"),
    ("kv/text", {"valueSerde": STRINGS["valueSerde"]}, 400, "missing-parameter"),
    ("kv/text/values/YQ==", {**STRINGS, "keySerde": "StringSerde"}, 400, "unknown-serde"),
    ("kv/text/values/YQ==", {**STRINGS, "keySerde": f"{KAFKA}XSerde"}, 400, "unknown-serde"),
    ("kv/text/values/YQ==", {**STRINGS, "keySerde": f"{KAFKA}LongSerde"}, 500, "unfit-serde"),
    ("kv/text/values/YQ==", {**STRINGS, "valueSerde": f"{KAFKA}LongSerde"}, 500, "unfit-serde"),
    ("kv/text/values/Y*==", STRINGS, 500, "key-undecodable"),
    ("kv/text/values/%FF", STRINGS, 500, "key-undecodable"),
    ("kv/text/values//w==", STRINGS, 500, "key-undecodable"),  # the byte FF is no text
    ("kv/numbers/values/YQ==", LONGS, 500, "key-undecodable"),
    (f"kv/text/values/{'YWFh' * 3000}", STRINGS, 414, "key-too-long"),
    ("kv/text", {**STRINGS, "from": "YQ=="}, 500, "bad-parameter"),
    ("kv/text", {**STRINGS, "to": "YQ=="}, 500, "bad-parameter"),
    ("kv/text", {**STRINGS, "from": "?", "to": "YQ=="}, 500, "key-undecodable"),
    ("window/windows/YQ==", {**WINDOW, "from": ""}, 500, "bad-parameter"),
    ("window/windows/YQ==", {**WINDOW, "to": "9" * 19}, 500, "bad-parameter"),
    ("window/windows/YQ==", STRINGS, 400, "missing-parameter"),
    ("window/windows/YQ==", {**WINDOW, **STRINGS}, 500, "unfit-serde"),
    ("window/windows/YQ==", {**WINDOW, "from": "3"}, 500, "bad-parameter"),
    ("kv/text", {**STRINGS, "from": "Yg==", "to": "YQ=="}, 500, "bad-parameter"),
    (
        "window/windows/YQ==",
        {name: WINDOW[name] for name in WINDOW if name != "to"},
        400,
        "missing-parameter",
    ),
    ("kv/nothing/values/YQ==", STRINGS, 404, "view-not-found"),
    ("kv/nothing", STRINGS, 404, "view-not-found"),
    ("kv/nothing/count", {}, 404, "view-not-found"),
    ("window/nothing/YQ==", WINDOW, 404, "view-not-found"),
    ("session/nothing/YQ==", STRINGS, 404, "view-not-found"),
    ("kv/text/other", STRINGS, 404, "no-such-resource"),
    ("kv/windows/values/YQ==", STRINGS, 500, "wrong-store"),
    ("kv/sessions", STRINGS, 500, "wrong-store"),
    ("kv/windows/count", {}, 500, "wrong-store"),
    ("window/text/YQ==", WINDOW, 500, "wrong-store"),
    ("session/windows/YQ==", STRINGS, 500, "wrong-store"),
]


@pytest.mark.parametrize(("path", "parameters", "status", "code"), REFUSED)
def test_rejected_requests(
    backends: list[Backend], path: str, parameters: dict[str, str], status: int, code: str
) -> None:
    answer = ask(backends, path, **parameters)
    assert (answer.status, answer.code) == (status, code)


def test_too_many_entries_unavailable_views_and_disabled_dialect(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer, broker: Broker
) -> None:
    many = make_topic(PARTITIONS)
    writer.send(many, ((b"%d" % n, b"x") for n in range(10_001)))
    views = views_toml(
        many={"topic": many, "value": "string"}, missing={"topic": f"{many}-not-there"}
    )
    deployment = deploy(views, wait_timeout="0")
    first, second = deployment.start(2)
    refused = ask([first, second], "kv/many", **STRINGS)
    assert (refused.status, refused.code) == (400, "too-many-entries")
    assert "/views/many/keys with Accept: application/x-ndjson" in refused.json()["detail"]
    bounds = {"from": b64("1"), "to": b64("2")}
    some = ask([first, second], "kv/many", **STRINGS, **bounds).json()["results"]
    assert len(some) == 1112 + 1
    for path in ("kv/missing/values/YQ==", "kv/missing", "kv/missing/count"):
        nobody = ask([first, second], path, **STRINGS)
        assert (nobody.status, nobody.code) == (503, "topic-missing")
        assert nobody.headers["Retry-After"] == "1"
    # in the topology it still has its partitions
    with second.paused():
        codes: list[tuple[int, str]] = []

        def one(n: int) -> None:
            answer = first.get(f"/api/v1/kv/many/values/{b64(str(n))}?{urlencode(STRINGS)}")
            codes.append((answer.status, answer.code if answer.status != 200 else ""))

        threads = [threading.Thread(target=one, args=(n,)) for n in range(24)]
        for thread in threads:
            thread.start()
        # requests that wait for another instance do not block others
        begun = time.monotonic()
        assert first.get("/health/live").status == 200
        assert time.monotonic() - begun < 1 * stretch()
        for thread in threads:
            thread.join()
    assert {status for status, _ in codes} == {200, 503}, codes
