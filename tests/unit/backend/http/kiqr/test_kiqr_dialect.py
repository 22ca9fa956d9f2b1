"""KIQR's dialect compared with KIQR: the same statuses, and the same exceptions in its client.

The facts are read from the sources of KIQR at commit 7165059 (0.0.2-SNAPSHOT) and of Kafka Streams
0.10.2.0: the server's routes (`RestKiqrServerVerticle`), what its workers make of exceptions
(`AbstractQueryVerticle`), and what its Java client makes of statuses
(`GenericBlockingRestKiqrClientImpl`). What its routes answer was seen on the routes themselves, and
the exceptions in its client. Neither is whole in a package registry: this is the table of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from backend.http.kiqr import raw_reads
from backend.http.kiqr.routes import FITS, KAFKA
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import world
from tests.unit.backend.http.kiqr.client import asking
from tests.unit.backend.http.kiqr.stores import GREATEST, LEAST, Stores, b64, long, serdes

DOCS = (Path(__file__).parents[5] / "docs" / "kiqr.md").read_text()


def in_its_client(status: int) -> str:
    """The result of KIQR's Java client for a status."""
    if status in (200, 404):
        return "an answer" if status == 200 else "empty"
    return "IllegalArgumentException" if status == 400 else "QueryExecutionException"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    with ExitStack() as stack:
        yield Stores(tmp_path_factory.mktemp("kiqr"), stack)


class Case(NamedTuple):
    path: str
    parameters: dict[str, str]
    status: int  # KIQR's
    code: str = ""  # our problem code


MISSING = f"{KAFKA}MissingSerde"
TEXT, NUMBERS, TIMED = serdes(), serdes("Long", "Long"), serdes("String", "Long")
SPAN = {**TIMED, "from": "0", "to": "60000"}


def without(parameters: dict[str, str], name: str) -> dict[str, str]:
    return {each: value for each, value in parameters.items() if each != name}


KEY = "kv/text/values/YQ=="
WINDOW = "window/windows/YQ=="
SESSION = "session/sessions/YQ=="
ALIKE = [
    # found, and not found
    Case(KEY, TEXT, 200),
    Case("kv/text/values/YQ", TEXT, 200),  # Java's decoder needs no padding
    Case("kv/text/values/eA==", TEXT, 404, "key-not-found"),
    Case("kv/nothing/values/YQ==", TEXT, 404, "view-not-found"),
    Case("kv/nothing", TEXT, 404, "view-not-found"),
    Case("kv/nothing/count", {}, 404, "view-not-found"),
    Case("window/nothing/YQ==", SPAN, 404, "view-not-found"),
    Case("session/nothing/YQ==", TIMED, 404, "view-not-found"),
    Case("kv/text/other", TEXT, 404, "no-such-resource"),
    Case("kv/text/count", {}, 200),
    Case(SESSION, TIMED, 200),
    # a serde that is missing or unknown
    *[
        Case(path, without(given, name), 400, "missing-parameter")
        for path, given in ((KEY, TEXT), ("kv/text", TEXT), (WINDOW, SPAN), (SESSION, TIMED))
        for name in ("keySerde", "valueSerde")
    ],
    Case("kv/nothing", {}, 400, "missing-parameter"),
    Case("kv/text", serdes(MISSING), 400, "unknown-serde"),
    Case("kv/text", {**TEXT, "keySerde": "StringSerde"}, 400, "unknown-serde"),
    Case(KEY, {**TEXT, "valueSerde": f"{KAFKA}XSerde"}, 400, "unknown-serde"),
    # a serde that does not fit
    Case(KEY, serdes("Long"), 500, "unfit-serde"),
    Case(KEY, serdes("String", "Long"), 500, "unfit-serde"),
    Case("kv/text", serdes("String", "Long"), 500, "unfit-serde"),
    Case(WINDOW, {**SPAN, **TEXT}, 500, "unfit-serde"),
    Case(SESSION, TEXT, 500, "unfit-serde"),
    # a key that is not base64, which is checked first
    *[
        Case(path, {}, 500, "key-undecodable")
        for path in ("kv/text/values/Y*==", "window/windows/Y", "session/sessions/YQ=",
                     "kv/text/values/YWFh=", "kv/text/values/%20YQ=", "kv/nothing/values/Y*")
    ],
    # bounds of keys
    Case("kv/text", {**TEXT, "from": "YQ==", "to": "Yg=="}, 200),
    Case("kv/text", {**TEXT, "from": "YQ==", "to": "YQ=="}, 200),
    Case("kv/text", {**TEXT, "from": "Yg==", "to": "YQ=="}, 500, "bad-parameter"),
    Case("kv/numbers", {**NUMBERS, "from": b64(long(7)), "to": b64(long(0))}, 500,
         "bad-parameter"),
    Case("kv/text", {**TEXT, "from": "YQ=="}, 500, "bad-parameter"),
    Case("kv/text", {**TEXT, "to": "YQ=="}, 500, "bad-parameter"),
    Case("kv/text", {**TEXT, "from": "?", "to": "YQ=="}, 500, "key-undecodable"),
    Case("kv/text", {**TEXT, "from": "YQ==", "to": "?"}, 500, "key-undecodable"),
    Case("kv/numbers", {**NUMBERS, "from": "YQ==", "to": "YQ=="}, 500, "key-undecodable"),
    # bounds of times
    Case(WINDOW, SPAN, 200),
    Case(WINDOW, {**SPAN, "to": str(GREATEST)}, 200),
    Case(WINDOW, {**SPAN, "from": "00000000000000000000000000"}, 200),
    Case(WINDOW, {**SPAN, "from": "+0"}, 200),
    Case(WINDOW, {**SPAN, "to": str(GREATEST + 1)}, 500, "bad-parameter"),
    Case(WINDOW, {**SPAN, "to": "9" * 5000}, 500, "bad-parameter"),
    Case(WINDOW, {**SPAN, "from": str(LEAST - 1)}, 500, "bad-parameter"),
    Case(WINDOW, {**SPAN, "from": "60001"}, 500, "bad-parameter"),
    Case(WINDOW, {**SPAN, "from": ""}, 500, "bad-parameter"),
    Case(WINDOW, {**SPAN, "from": "1.5"}, 500, "bad-parameter"),
    Case(WINDOW, {**SPAN, "to": "now"}, 500, "bad-parameter"),
    Case(WINDOW, without(SPAN, "from"), 400, "missing-parameter"),
    Case(WINDOW, without(SPAN, "to"), 400, "missing-parameter"),
    # a store of another kind
    Case("kv/windows/values/YQ==", TIMED, 500, "wrong-store"),
    Case("kv/sessions", TIMED, 500, "wrong-store"),
    Case("kv/windows/count", {}, 500, "wrong-store"),
    Case("window/text/YQ==", {**SPAN, **TEXT}, 500, "wrong-store"),
    Case("session/windows/YQ==", TIMED, 500, "wrong-store"),
    Case("session/windows/YQ==", serdes(MISSING), 400, "unknown-serde"),
]  # fmt: skip


@pytest.mark.parametrize("case", ALIKE, ids=lambda case: f"{case.path}-{case.code}")
def test_statuses_are_those_of_kiqr(stores: Stores, case: Case) -> None:
    answer = stores.ask(case.path, case.parameters)
    code = "" if answer.status_code == 200 else answer.json["code"]
    assert (answer.status_code, code) == (case.status, case.code)
    if case.code:
        assert answer.content_type == "application/problem+json"


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize(
    ("path", "parameters"),
    [(KEY, TEXT), ("kv/text", TEXT), ("kv/text/count", {}), (WINDOW, SPAN), (SESSION, TIMED)],
)
def test_its_routes_ignore_the_method(
    stores: Stores, method: str, path: str, parameters: dict[str, str]
) -> None:
    answer = stores.ask(path, parameters, method)
    assert answer.status_code == 200
    assert answer.json == stores.ask(path, parameters).json


def test_bounds_of_a_java_program_without_an_end(stores: Stores) -> None:
    for first, last, starts in (
        (0, GREATEST, {"0", "60000", "120000"}),
        (LEAST, 0, {"0"}),
        (LEAST, GREATEST, {"0", "60000", "120000"}),
        (GREATEST, GREATEST, set()),
        (60_000, GREATEST, {"60000", "120000"}),
    ):
        bounds = {**TIMED, "from": str(first), "to": str(last)}
        assert set(stores.ask(WINDOW, bounds).json["values"]) == starts
    bounds = {**NUMBERS, "from": b64(long(LEAST)), "to": b64(long(GREATEST))}
    assert len(stores.ask("kv/numbers", bounds).json["results"]) == 5


# Each row of the tables in docs/kiqr.md has a query here.


def rows(heading: str) -> list[str]:
    """The first column of the table with this heading."""
    at = DOCS.index(f"| {heading} |")
    lines = DOCS[at:].split("\n\n")[0].splitlines()[2:]
    return [line.split("|")[1].strip() for line in lines]


def test_each_request_in_the_docs(stores: Stores) -> None:
    a, b = b64(b"a"), b64(b"b")
    windows = {"0": b64(long(0)), "60000": b64(long(1))}
    all_ = {b64(b"%c" % n): b64(b'"%c"' % n) for n in range(97, 107)}
    asked: dict[str, tuple[str, dict[str, str], Any]] = {
        "`GET /api/v1/kv/{store}/values/{key}`": (KEY, TEXT, {"value": b64(b'"a"')}),
        "`GET /api/v1/kv/{store}`": ("kv/text", TEXT, {"results": all_}),
        "`GET /api/v1/kv/{store}?from=&to=`": (
            "kv/text",
            {**TEXT, "from": a, "to": b},
            {"results": {a: b64(b'"a"'), b: b64(b'"b"')}},
        ),
        "`GET /api/v1/kv/{store}/count`": ("kv/text/count", {}, {"count": 10}),
        "`GET /api/v1/window/{store}/{key}?from=&to=`": (WINDOW, SPAN, {"values": windows}),
        "`GET /api/v1/session/{store}/{key}`": (
            SESSION,
            TIMED,
            {"values": [{"startMs": 10, "endMs": 20, "value": b64(long(1))}]},
        ),
    }
    assert rows("request") == list(asked)
    for path, parameters, expected in asked.values():
        assert stores.ask(path, parameters).json == expected


def test_each_serde_in_the_docs() -> None:
    documented: dict[str, set[str]] = {}
    every = set().union(*FITS.values())
    table = DOCS[DOCS.index("| serde | formats |") :].split("\n\n")[0]
    for line in table.splitlines()[2:]:
        names = re.findall(r"`([^`]+)`", line.split("|")[1])
        formats = line.split("|")[2].strip().split(", ")
        for number, name in enumerate(names):
            # several serdes, each with its format
            documented[name] = {formats[number]} if len(formats) == len(names) > 1 else set(formats)
    for name, of_serde in documented.items():
        assert FITS[name] - {"bytes"} == (every if of_serde == {"all"} else of_serde) - {"bytes"}
        assert ("bytes" in FITS[name]) is (name != "Serdes$VoidSerde")
    assert all(FITS[name] == {"bytes"} for name in set(FITS) - set(documented))


def test_each_status_in_the_docs(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        *((case.status, case.path, case.parameters) for case in ALIKE if case.code),
        (414, f"kv/text/values/{'YWFh' * 3000}", TEXT),
    ]
    down = stores.worlds["text"].peers.down
    down.add("b2")
    try:
        statuses = {503: stores.ask("kv/text", TEXT).status_code}
    finally:
        down.clear()
    monkeypatch.setattr(raw_reads, "MAX_ENTRIES", 8)
    cases.append((400, "kv/text", TEXT))
    statuses.update(
        {expected: stores.ask(path, given).status_code for expected, path, given in cases}
    )
    assert all(expected == status for expected, status in statuses.items())
    assert sorted(rows("status")) == [str(status) for status in sorted(statuses)]
    for status in statuses:
        row = re.search(rf"^\| {status} \| ([^|]*) \|", DOCS, re.MULTILINE)
        assert row is not None
        assert row[1].strip("`") == in_its_client(status)


@pytest.mark.slow
def test_each_difference_in_the_docs(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The docs have KIQR's answer and the reason."""

    def status(path: str, parameters: dict[str, str], method: str = "GET") -> int:
        return int(stores.ask(path, parameters, method).status_code)

    def partitions() -> None:
        stores.worlds["text"].peers.down.add("b2")
        try:
            assert status("kv/text", TEXT) == 503
        finally:
            stores.worlds["text"].peers.down.clear()

    def ambiguous() -> None:
        of = view(topic="totals-changelog", partitioner="none")
        with world(tmp_path / "partial", of) as made, asking(made) as client:
            for partition in range(2):
                made.put(b"a", b"%d" % partition, partition=partition)
            made.put(b"b", b"1", partition=1)
            for path in (f"values/{b64(b'a')}", "", "count"):
                refused = client.get(f"/api/v1/kv/orders/{path}".rstrip("/"), query_string=TEXT)
                assert (refused.status_code, refused.json["code"]) == (503, "ambiguous-key"), path
            found = client.get(f"/api/v1/kv/orders/values/{b64(b'b')}", query_string=TEXT)
            assert found.json == {"value": b64(b"1")}

    def expired() -> None:
        of = view(retention=10)  # type: ignore[arg-type]
        with world(tmp_path / "expiring", of) as made, asking(made) as client:
            made.put(b"old", b"1", timestamp=1)
            made.put(b"new", b"1", timestamp=100)
            for store_partition in made.store_partitions.values():
                store_partition.store.stream_time = 100
            found = client.get("/api/v1/kv/orders", query_string=TEXT).json
            assert list(found["results"]) == [b64(b"new")]

    def counted() -> None:
        with world(tmp_path / "counted", ORDERS) as made, asking(made) as client:
            for _ in range(5):
                made.put_all({b"%d" % n: b"1" for n in range(20)})
            assert client.get("/api/v1/kv/orders/count").json == {"count": 20}

    def slashes() -> None:
        assert status(f"kv/numbers/values/{b64(long(-1))}", NUMBERS) == 200
        assert b64(long(-1)).startswith("//")
        assert status("kv/text/values/", TEXT) == 404
        stores.worlds["text"].put(b"", b"1")
        assert status("kv/text/values/", TEXT) == 200
        stores.worlds["text"].put(b"", None)

    def hanging() -> None:
        assert status(KEY, serdes(MISSING)) == 400
        assert status("kv/numbers/values/YQ==", NUMBERS) == 500

    def no_text() -> None:
        assert status("kv/text/values//w==", TEXT) == 500

    def nothing_to_write() -> None:
        assert status("kv/text/values/eA==", serdes("String", "Long")) == 500

    def any_bytes() -> None:
        assert status(KEY, serdes("ByteArray", "Bytes")) == 200

    def classes() -> None:
        assert status(KEY, serdes("String", "com.acme.OrderSerde")) == 200

    def order() -> None:
        bounds = {**NUMBERS, "from": b64(long(-5)), "to": b64(long(0))}
        assert len(stores.ask("kv/numbers", bounds).json["results"]) == 3
        assert status(WINDOW, {**SPAN, "from": "-1"}) == 200

    def unescaped() -> None:
        made = stores.worlds["text"]
        made.put(b"~~~>", b"1")
        assert "+" in b64(b"~~~>")
        spaced = b64(b"~~~>").replace("+", " ")
        found = stores.ask("kv/text", {**TEXT, "from": spaced, "to": spaced}).json
        assert found["results"] == {b64(b"~~~>"): b64(b"1")}
        made.put(b"~~~>", None)

    def deleting() -> None:
        assert {status(KEY, TEXT, method) for method in ("DELETE", "PATCH")} == {405}
        assert status(KEY, TEXT) == 200

    def bounded() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(raw_reads, "MAX_ENTRIES", 8)
            assert status("kv/text", TEXT) == 400

    def bodies() -> None:
        assert stores.ask("kv/nothing", TEXT).json["code"] == "view-not-found"

    differences = {
        "a partition that no instance answers for": partitions,
        "a key of a changelog with values in several partitions": ambiguous,
        "expired entries": expired,
        "`count`": counted,
        "a key whose base64 has a `/`, or of no bytes": slashes,
        "a read by key whose serde is unknown, or cannot read the key": hanging,
        "a text key that is not UTF-8": no_text,
        "a serde that does not fit, where nothing is found": nothing_to_write,
        "serdes of plain bytes": any_bytes,
        "a serde of another package": classes,
        "the order of bounds": order,
        "a `+` in a query, unescaped": unescaped,
        "`DELETE`, `PATCH`, `OPTIONS`": deleting,
        "large answers": bounded,
        "the body of an error": bodies,
    }
    assert rows("what") == list(differences)
    for check in differences.values():
        check()
