"""All clients, through the proxy and direct, return what plain HTTP returns."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.formats.registry import KEY_CODECS
from queryable import BadRequest, BadUse, Raw, UnexpectedValue
from tests.support.clients.both_clients import (
    exact,
    plain,
    plain_items,
    plain_key,
    python_key,
    python_value,
)
from tests.support.in_process import protobuf_examples as protobuf
from tests.support.reference.tables import base64url
from tests.system.queryable.client.deployed import FORMATS, MINUTE, NAMES, NOW, SEEDED, Deployed

few = settings(max_examples=12, suppress_health_check=list(HealthCheck))


def numbers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["", ".", "..", "a/b", "%2F", "a\0b", "東京", "a b+c&d=e?f#g"]
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXT
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
PYTHON: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "bytes": st.binary(max_size=12) | st.sampled_from([b"", b".", b"..", b"\0"]),
    "int32": numbers(32),
    "int64": numbers(64),
    "float64": st.floats(),
    "uuid": st.uuids(),
    "json": DOCUMENTS,
}


def record_bytes(form: str, key: Any) -> bytes:
    """A key as Kafka's serializers write it."""
    if form == "bytes":
        return bytes(key)
    if form in ("string", "uuid"):
        return str(key).encode()
    if form == "json":
        return json.dumps(key, ensure_ascii=False, separators=(",", ":")).encode()
    if key != key:
        key = float("nan")  # one of the many bit patterns: the one that "NaN" means
    return struct.pack({"int32": ">i", "int64": ">q", "float64": ">d"}[form], key)


def bound_text(form: str, key: Any) -> str:
    """A bound: numbers as text, others as record bytes."""
    if form in ("int32", "int64"):
        return str(key)
    if form == "float64":
        names = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
        return quote(names.get(repr(key), repr(key)))
    return quote(record_bytes(form, key), safe="")


@pytest.mark.parametrize("form", FORMATS)
def test_raw_keys(deployed: Deployed, form: str) -> None:
    for key in SEEDED[form]:
        plain_rows = plain_key(deployed.port, form, key)
        result = deployed.call("get", form, Raw(key)).value
        assert exact(result) == exact(python_value(plain_rows.json()["value"], form))
    # a key that has a Python value can be read by that too
    rows = plain_items(deployed.port, f"/views/{form}/keys")
    for row in rows:
        key = python_key(row["key"], form)
        if isinstance(key, Raw) or record_bytes(form, key) in SEEDED[form]:
            value = python_value(row["value"], form)
            assert exact(deployed.call("get", form, key).value) == exact(value)


@pytest.mark.parametrize("form", FORMATS)
def test_session_reads_what_it_appended(deployed: Deployed, form: str) -> None:
    turns = itertools.count()

    @few
    @given(key=PYTHON[form], value=PYTHON[form])
    def round_trip(key: Any, value: Any) -> None:
        client = deployed.clients[next(turns) % len(deployed.clients)]
        with client.session():
            written = client.append(form, key, value)
            result = client.get(form, key)
            assert result, (client, key)
            assert exact(result.value) == exact(value)
            assert result.partition == written.partition
            assert result.position > written.offset
            [many] = client.get_many(form, [key])
            assert exact(many.value) == exact(value)
        [many] = client.get_many(form, [key])
        assert exact(many.value) == exact(value)
        raw = plain_key(deployed.port, form, record_bytes(form, key))
        assert exact(python_value(raw.json()["value"], form)) == exact(value)

    round_trip()


@pytest.mark.parametrize("form", FORMATS)
def test_scans(deployed: Deployed, form: str) -> None:
    rows = plain_items(deployed.port, f"/views/{form}/keys")
    every = [(python_key(row["key"], form), python_value(row["value"], form)) for row in rows]
    assert len(every) >= len(SEEDED[form])
    assert exact(deployed.call("scan", form)) == exact(every)
    to_store = KEY_CODECS[form].to_store

    bounds = st.none() | PYTHON[form].filter(lambda key: key is not None)

    @few
    @given(
        bounds, bounds, st.sampled_from(["asc", "desc"]), st.none() | st.integers(0, 12),
        st.sampled_from([5, 1000]), st.booleans(),
    )  # fmt: skip
    def scan(first: Any, last: Any, order: str, limit: int | None, page: int, stream: bool) -> None:
        query = f"/views/{form}/keys?order={order}"
        query += "" if first is None else f"&from={bound_text(form, first)}"
        query += "" if last is None else f"&to={bound_text(form, last)}"
        plain_rows = plain_items(deployed.port, query)[:limit]
        result = deployed.call(
            "scan", form, from_=first, to=last, order=order, limit=limit, page=page, stream=stream
        )
        assert exact(result) == exact(
            [(python_key(row["key"], form), python_value(row["value"], form)) for row in plain_rows]
        )
        if form != "json" and limit is None:
            low = None if first is None else to_store(record_bytes(form, first))
            high = None if last is None else to_store(record_bytes(form, last))
            # NaN has many bit patterns, which are not adjacent in the order; those that "NaN" does
            # not mean are listed by their bytes
            keys = [row.key for row in result if row.key == row.key]
            keys = [key for key in keys if not isinstance(key, Raw)]
            stored = [to_store(record_bytes(form, key)) for key in keys]
            assert stored == sorted(stored, reverse=order == "desc")
            assert all(low is None or low <= key for key in stored)
            assert all(high is None or key <= high for key in stored)

    scan()


@pytest.mark.parametrize("form", ["string", "int32", "int64"])
def test_conditions_on_keys(deployed: Deployed, form: str) -> None:
    """Those whose order is that of the store read a range of it."""
    every = deployed.call("scan", form)
    keys = [row.key for row in every]

    def literal(key: Any) -> str:
        return "'" + key.replace("'", "''") + "'" if form == "string" else str(key)

    for key in keys[:6]:
        meets: dict[str, Callable[[Any], bool]] = {
            "key = {}": lambda k, key=key: k == key,
            "key > {}": lambda k, key=key: k > key,
            "{} >= key": lambda k, key=key: k <= key,
            "not key <= {}": lambda k, key=key: k > key,
        }
        for where, meet in meets.items():
            text = where.format(literal(key))
            rows = [row for row in every if meet(row.key)]
            for stream in (False, True):
                assert deployed.call("scan", form, where=text, stream=stream) == rows, text
            counts = [int(client.count(form, where=text)) for client in deployed.clients]
            assert set(counts) == {len(rows)}


def test_conditions_and_fields(deployed: Deployed) -> None:
    rows = deployed.call("scan", "avro", where="price > 0.25 and note is null", select=["id"])
    assert rows == [("a", {"id": 2**60})]
    assert deployed.call("scan", "avro", where="id = 1152921504606846977") == []
    assert deployed.call("scan", "protobuf", where="key.id > 2", select="orderId") == [
        ({"id": n}, {"orderId": str(n)}) for n in (3, 4)
    ]
    assert [group.entries for group in deployed.call("aggregate", "avro", where="id > 0")] == [1]
    assert list(deployed.call("top", "avro", "price", where="price < 0")) == []
    for call in ("count", "aggregate"):
        with pytest.raises(BadRequest, match="max_examined"):
            getattr(deployed.clients[0], call)("string", where="true", max_examined=1)


@pytest.mark.parametrize("form", ["string", "bytes"])
def test_prefixes(deployed: Deployed, form: str) -> None:
    every = deployed.call("scan", form)
    for prefix in ("", "a", ".", "é", "a\0", "%", "nothing"):
        given_ = prefix if form == "string" else prefix.encode()
        for stream in (False, True):
            result = deployed.call("scan", form, prefix=given_, stream=stream)
            assert result == [row for row in every if row.key.startswith(given_)]


def test_avro_and_none_values(deployed: Deployed) -> None:
    order = {"id": 2**60, "price": 0.5, "note": None}
    assert deployed.call("get", "avro", "a").value == order
    assert deployed.call("scan", "avro") == [("a", order)]
    none = deployed.call("get", "none", "a")
    assert (none.found, none.value) == (True, None)
    assert not deployed.call("get", "none", "b")


def test_protobuf_keys_and_values(deployed: Deployed) -> None:
    """Keys are given by their bytes: there is more than one encoding of a message."""
    for number in range(5):
        answer = deployed.call("get", "protobuf", Raw(protobuf.key(number)))
        assert answer.found
        assert answer.value["orderId"] == str(number)
    rows = deployed.call("scan", "protobuf")
    assert [row.key for row in rows] == [{"id": n} for n in range(5)]
    assert deployed.call("scan", "protobuf", stream=True) == rows
    keys = [Raw(protobuf.key(number)) for number in (3, 9)]
    answers = deployed.call("get_many", "protobuf", keys)
    assert [answer.found for answer in answers] == [True, False]
    with pytest.raises(BadUse, match=r"Raw\(message"):
        deployed.clients[0].get("protobuf", {"id": 1})
    for number, client in enumerate(deployed.clients, 100):
        document = {"orderId": str(number), "tags": ["a"]}
        client.append("protobuf", {"id": number}, document)


KINDS = {
    "windows": ("windows", ("start", "end", "sequence"), "json"),
    "series": ("windows", ("start", "end", "sequence"), "int64"),
    "sessions": ("sessions", ("start", "end"), "json"),
}
TIMES = st.none() | st.integers(-1, 7).map(lambda minute: NOW + minute * MINUTE)


@pytest.mark.parametrize("view", KINDS)
def test_windows_and_sessions(deployed: Deployed, view: str) -> None:
    kind, fields, form = KINDS[view]
    keys: list[Any] = [-1, 0, 7, 8] if view == "series" else [*NAMES, "nobody"]

    def expected(rows: list[dict[str, Any]], key: Any = None) -> list[Any]:
        return [
            (row.get("key", key), *(row[f] for f in fields), python_value(row["value"], form))
            for row in rows
        ]

    @few
    @given(
        st.sampled_from(keys), TIMES, TIMES, st.sampled_from(["asc", "desc"]),
        st.none() | st.integers(0, 5), st.sampled_from([2, 1000]), st.booleans(), st.booleans(),
    )  # fmt: skip
    def ask(
        key: Any, first: Any, last: Any, order: str, limit: int | None, page: int, stream: bool,
        is_session: bool,
    ) -> None:  # fmt: skip
        query = f"order={order}"
        query += "" if first is None else f"&from={first}"
        query += "" if last is None else f"&to={last}"
        how = {"from_": first, "to": last, "order": order, "limit": limit, "page": page}
        raw = key.encode() if isinstance(key, str) else struct.pack(">i", key)
        of_key = f"/views/{view}/keys/{base64url(raw)}/{kind}?encoding=base64url&{query}"
        if is_session:
            for client in deployed.clients:
                with client.session():
                    # later pages must be at least as new as the first one
                    result = getattr(client, kind)(view, key, **how)
                    assert result == expected(plain_items(deployed.port, of_key)[:limit], key)
            return
        result = deployed.call(kind, view, key, **how)
        assert result == expected(plain_items(deployed.port, of_key)[:limit], key)
        bounds = f"key_from={quote(raw) if isinstance(key, str) else key}&{query}"
        plain_rows = plain_items(deployed.port, f"/views/{view}/{kind}?{bounds}")[:limit]
        result = deployed.call(kind, view, key_from=key, stream=stream, **how)
        assert result == expected(plain_rows)

    ask()


def test_versions(deployed: Deployed) -> None:
    for name in NAMES:
        path = f"/views/versions/keys/{base64url(name.encode())}"
        plain_rows = plain_items(deployed.port, f"{path}/versions?encoding=base64url")
        assert len(plain_rows) == 5
        rows = [(name, row["valid_from"], row["valid_to"], row["value"]) for row in plain_rows]
        for page in (1, 1000):
            assert deployed.call("versions", "versions", name, page=page) == rows
            assert (
                deployed.call("versions", "versions", name, page=page, order="desc") == rows[::-1]
            )
        for minute in range(6):
            moment = NOW + minute * MINUTE + 1
            result = deployed.call("get", "versions", name, as_of=moment)
            there = [row for row in rows if row[1] <= moment and (row[2] or moment + 1) > moment]
            assert bool(result) == bool(there)
            if there:
                assert (name, result.valid_from, result.valid_to, result.value) == there[0]


def test_top_and_count(deployed: Deployed) -> None:
    span = f"from={NOW}&to={NOW + 2 * MINUTE}"
    times = {"from_": NOW, "to": NOW + 2 * MINUTE}
    for view, query, given_ in (
        ("ranked", "by=n&limit=9", {"by": "n", "limit": 9}),
        ("ranked", "by=x.y&order=asc&limit=3", {"by": "x.y", "order": "asc", "limit": 3}),
        (
            "series",
            "order_by=avg&order=asc&limit=3",
            {"order_by": "avg", "order": "asc", "limit": 3},
        ),
        ("windows", f"order_by=entries&{span}", {"order_by": "entries", **times}),
    ):
        plain_rows = plain(deployed.port, f"/views/{view}/top?{query}").json()["items"]
        assert plain_rows
        result = deployed.call("top", view, **given_)
        assert [row._asdict() for row in result] == plain_rows
    assert {int(a.count("ranked", exact=True)) for a in deployed.clients} == {30}
    assert deployed.clients[0].count("ranked").is_exact


def test_aggregate(deployed: Deployed) -> None:
    for view, query, given_ in (
        ("ranked", "by=n&value=x.y", {"by": "n", "value": "x.y"}),
        ("ranked", "by=n", {"by": "n"}),
        ("ranked", "by=n&order=asc&limit=2", {"by": "n", "order": "asc", "limit": 2}),
        ("ranked", "by=n&value=x.y&order_by=max", {"by": "n", "value": "x.y", "order_by": "max"}),
        (
            "ranked",
            "by=n,key&value=n,x.y&non_null=n&order_by=avg(n)",
            {"by": ["n", "key"], "value": ["n", "x.y"], "non_null": ["n"], "order_by": "avg(n)"},
        ),
        ("int64", "", {}),
        ("float64", "", {}),
        ("windows", f"from={NOW}&to={NOW + 2 * MINUTE}", {"from_": NOW, "to": NOW + 2 * MINUTE}),
    ):
        plain_rows = plain(deployed.port, f"/views/{view}/aggregate?{query}").json()["items"]
        assert plain_rows
        result = deployed.call("aggregate", view, **given_)
        rows = [
            {name: cell for name, cell in asdict(row).items() if name in plain_rows[0]}
            for row in result
        ]
        expected = json.dumps(plain_rows)
        for name in ("NaN", "Infinity", "-Infinity"):
            expected = expected.replace(f'"{name}"', name)
        assert json.dumps(rows) == expected
        assert result.source.served_by


def test_statements(deployed: Deployed) -> None:
    rows = deployed.call("sql", "select key, n, x.y from ranked where n > ? order by key", 0)
    scanned = deployed.call("scan", "ranked", where="n > 0", select="n,x.y")
    assert rows
    assert rows == [{"key": key, "n": v["n"], "x.y": v["x.y"]} for key, v in scanned]
    [count] = deployed.call("sql", "select count(*) as entries from int64")
    assert count["entries"] == deployed.clients[0].count("int64", exact=True).count
    with pytest.raises(BadRequest, match="A statement begins with select"):
        list(deployed.clients[0].sql("delete from ranked"))


def test_get_many(deployed: Deployed) -> None:
    wanted = [f"k{n % 40}" for n in range(1500)]
    plain_rows = [plain(deployed.port, f"/views/ranked/keys/k{n}") for n in range(40)]
    values = [each.json().get("value") for each in plain_rows]
    for result in (client.get_many("ranked", wanted) for client in deployed.clients):
        assert [a.key for a in result] == wanted
        assert [a.value for a in result] == [values[n % 40] for n in range(1500)]
        assert [bool(a) for a in result] == [n % 40 < 30 for n in range(1500)]


def test_views_and_topology(deployed: Deployed) -> None:
    names = {view.name for view in deployed.call("views")}
    assert {"string", "windows", "avro"} <= names
    assert deployed.call("view", "windows").store == "window"
    for client in deployed.clients:
        assert client.topology() == plain(deployed.port, "/processors").json()


@dataclass
class Ranked:
    n: int
    x: dict[str, int]


def test_views_with_types(deployed: Deployed) -> None:
    values = {f"k{n}": Ranked(n % 7, {"y": n}) for n in range(30)}
    for client in deployed.clients:
        ranked = client.bound("ranked", key=str, value=Ranked)
        assert ranked.get("k8") == values["k8"]
        assert ranked.get("nobody") is None
        assert ranked.get_many(["k1", "nobody", "k2"]) == {n: values[n] for n in ("k1", "k2")}
        assert {row.key: row.value for row in ranked.scan()} == values
        assert [row.key for row in ranked.scan(from_="k8", to="k9")] == ["k8", "k9"]
        assert ranked.count(exact=True).count == 30
        windows = client.bound("windows", key=str, value=int)
        assert [(row.key, row.start, row.value) for row in windows.windows("anna", limit=2)] == [
            ("anna", NOW, 0), ("anna", NOW + MINUTE, 1),
        ]  # fmt: skip
        assert len(windows.windows()) == 6 * len(NAMES)
        assert len(client.bound("sessions", value=dict[str, int]).sessions("anna")) == 6
        versions = client.bound("versions", key=str, value=int)
        assert [row.value for row in versions.versions("anna")][:2] == [0, 1]
        assert versions.get("anna", as_of=NOW + MINUTE) == 1
        strings = client.bound("string", key=str, value=str)
        written = strings.append("typed", "a value")
        changed = client.first(strings.client.changes("typed"), 1)
        assert changed[0].key == "typed"
        assert strings.delete("typed").offset > written.offset
        wrong = client.bound("ranked", key=str, value=dict[str, int])
        with pytest.raises(UnexpectedValue, match=r"ranked, value of key 'k1': \.x: expected int"):
            wrong.get("k1")
        with pytest.raises(BadUse, match="7 is not a valid string"):
            client.bound("ranked", key=int, value=Ranked).get(7)


def test_one_instances_own_answer(deployed: Deployed) -> None:
    """Without a standby's copy an instance says that it does not have the key."""
    found = [
        (member, plain(member["port"], f"/views/ranked/keys/k{n}?route=local"))
        for member in plain(deployed.port, "/processors").json()["processors"]
        for n in range(10)
    ]
    assert {answer.status for _, answer in found} <= {200, 503}
    for member, answer in found:
        if answer.status == 200:
            assert answer.headers["served-by"].startswith(member["id"])
        else:
            assert "retry-after" in answer.headers
    for client in deployed.clients:
        assert client.get("ranked", "k1", route="local").value == {"n": 1, "x": {"y": 1}}
