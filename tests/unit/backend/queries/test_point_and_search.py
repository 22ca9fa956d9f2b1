"""A point read and a search give the same, wherever the key is: here, at another instance, or in
one of all partitions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.reference.questions import Answer
from tests.support.reference.tables import Record

ROWS = {f"key-{n}": b'{ "n": %d }' % n for n in range(12)}
ACCEPTS = (
    None,
    "*/*",
    "application/json",
    "application/octet-stream",
    "application/json;q=0.5, application/octet-stream",
    "text/html",
    "application/avro",
)
PLACES = ("here", "elsewhere", "anywhere")
# of this moment, of this instance, and of one partition
DIFFERING = {"staleness", "served-by", "topology-epoch", "etag", "partition", "offset"}


def filled(folder: Path, store: str = "key-value") -> Cluster:
    cluster = Cluster(folder, replace(ORDERS, store=store))  # type: ignore[arg-type]
    for time, (key, value) in enumerate(ROWS.items()):
        partition = cluster.home(key.encode())
        offset = len(cluster.logs[partition])
        at = (time,) if store == "versioned" else ()
        cluster.write(Record(offset, key.encode(), at, value, time), partition)
    cluster.settle()
    return cluster


@pytest.fixture(scope="module", params=["key-value", "versioned"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    made = filled(tmp_path_factory.mktemp("data"), request.param)
    yield made
    made.close()


def asked_at(cluster: Cluster, key: str, place: str) -> str:
    """The instance to ask so that the key is `place`."""
    cluster.mispartitioned = place == "anywhere"
    cluster.place(cluster.active)
    home = cluster.active[cluster.home(key.encode())]
    return f"b{1 + (home + (place == 'elsewhere')) % 3}"


def ask(
    cluster: Cluster, how: str, key: str, place: str, query: str = "", **headers: str | None
) -> Answer:
    asked = asked_at(cluster, key, place)
    named = {name.replace("_", "-"): text for name, text in headers.items() if text is not None}
    if how == "search":
        body = json.dumps({"query": key}).encode()
        return cluster.ask(asked, "POST", f"/views/orders/search?{query}", body, named)
    return cluster.ask(asked, how, f"/views/orders/keys/{key}?{query}", b"", named)


def compared(answer: Answer) -> tuple[int, dict[str, str], set[str], bytes]:
    """Status, headers, names of headers, and body; of a miss without its sentence."""
    alike = {name: text for name, text in answer.headers.items() if name not in DIFFERING}
    names = set(answer.headers) - {"partition", "offset"}
    if answer.status == 404:
        del alike["content-length"]
        return answer.status, alike, names, json.loads(answer.body)["code"].encode()
    return answer.status, alike, names, answer.body


@pytest.mark.parametrize("key", ["key-3", "key-4", "nobody"])
@pytest.mark.parametrize("accept", ACCEPTS)
def test_the_same_wherever_the_key_is(cluster: Cluster, key: str, accept: str | None) -> None:
    first = compared(ask(cluster, "GET", key, "here", accept=accept))
    expected = 404 if key == "nobody" else 200
    assert first[0] == (406 if accept in ("text/html", "application/avro") else expected)
    for how, place in itertools.product(("GET", "search"), PLACES):
        answer = ask(cluster, how, key, place, accept=accept)
        assert compared(answer) == first, (how, place)


@pytest.mark.parametrize("accept", [None, "application/octet-stream"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", ["GET", "HEAD", "search"])
def test_what_the_reader_has_already(
    cluster: Cluster, how: str, place: str, accept: str | None
) -> None:
    found = ask(cluster, how, "key-5", place, accept=accept)
    etag = found.headers["etag"]
    assert (found.status, found.headers["vary"]) == (200, "accept")
    known = ask(cluster, how, "key-5", place, accept=accept, if_none_match=f'"x", {etag}')
    assert (known.status, known.body, known.headers["etag"]) == (304, b"", etag)
    assert known.headers["vary"] == "accept"
    assert "content-type" not in known.headers
    unknown = ask(cluster, how, "key-5", place, accept=accept, if_none_match='"x"')
    assert (unknown.status, unknown.body) == (200, found.body)
    # another form, another key, another value: another ETag
    other = "application/octet-stream" if accept is None else None
    assert ask(cluster, how, "key-5", place, accept=other).headers["etag"] != etag
    missed = ask(cluster, how, "nobody", place, accept=accept, if_none_match="*")
    assert missed.status == 404


@pytest.mark.parametrize("place", PLACES)
def test_the_etag_is_of_the_value(tmp_path: Path, place: str) -> None:
    cluster = filled(tmp_path)
    try:
        etag = ask(cluster, "search", "key-5", place).headers["etag"]
        partition = cluster.home(b"key-5")
        log = cluster.logs[partition]
        cluster.write(Record(len(log), b"key-5", (), b'{"n":-5}', 100), partition)
        cluster.settle()
        again = ask(cluster, "search", "key-5", place, if_none_match=etag)
        assert (again.status, again.json()["value"]) == (200, {"n": -5})
    finally:
        cluster.close()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("how", "query", "code"),
    [
        ("GET", "x=1", "unknown-parameter"),
        ("search", "x=1", "unknown-parameter"),
        ("GET", "stale=x", "bad-parameter"),
        ("search", "stale=x", "bad-parameter"),
        # of a search the key is in the body
        ("search", "encoding=base64url", "unknown-parameter"),
        ("search", "route=redirect", "unknown-parameter"),
    ],
)
def test_the_same_parameters(cluster: Cluster, how: str, query: str, code: str, place: str) -> None:
    answer = ask(cluster, how, "key-5", place, query)
    assert (answer.status, answer.json()["code"]) == (400, code)


@pytest.mark.parametrize("place", PLACES)
def test_a_version_is_known_as_long_as_it_and_its_end_are_the_same(
    tmp_path: Path, place: str
) -> None:
    cluster = filled(tmp_path, "versioned")
    try:
        found = ask(cluster, "GET", "key-5", place, "as_of=7")
        assert found.json()["valid_to"] is None
        etag = found.headers["etag"]
        assert ask(cluster, "GET", "key-5", place, "as_of=7", if_none_match=etag).status == 304
        partition = cluster.home(b"key-5")
        log = cluster.logs[partition]
        cluster.write(Record(len(log), b"key-5", (100,), b"{}", 100), partition)
        cluster.settle()
        again = ask(cluster, "GET", "key-5", place, "as_of=7", if_none_match=etag)
        assert (again.status, again.json()["valid_to"]) == (200, 100)
    finally:
        cluster.close()


@pytest.mark.parametrize("place", PLACES)
def test_an_item_of_a_batch_says_the_same(cluster: Cluster, place: str) -> None:
    for key in (*ROWS, "nobody"):
        alone = ask(cluster, "GET", key, place)
        body = json.dumps({"keys": [key]}).encode()
        asked = asked_at(cluster, key, place)
        batch = cluster.ask(asked, "POST", "/views/orders/batch", body)
        expected = {"key": key, "status": alone.status}
        if alone.status == 200:
            expected["value"] = alone.json()["value"]
        assert batch.json() == {"items": [expected]}
