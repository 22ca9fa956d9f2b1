"""KIQR's dialect in process: serdes, requests to other instances, counts."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from backend.http.kiqr import raw_reads
from backend.http.kiqr.routes import FITS, KAFKA
from model.views import View
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import context
from tests.support.in_process.pages import flask_pages
from tests.support.in_process.world import world
from tests.unit.backend.http.kiqr.client import asking

STRINGS = {"keySerde": f"{KAFKA}Serdes$StringSerde", "valueSerde": f"{KAFKA}Serdes$StringSerde"}


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def value(client: FlaskClient, key: bytes) -> Any:
    return client.get(f"/api/v1/kv/orders/values/{b64(key)}", query_string=STRINGS)


def test_only_the_owner_of_a_key_is_asked(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS) as made, asking(made) as client:
        keys = [b"%d" % n for n in range(20)]
        made.put_all({key: b'"%b"' % key for key in keys})
        for key in keys:
            made.peers.asked.clear()
            assert value(client, key).json == {"value": b64(b'"%b"' % key)}
            elsewhere = made.partition(key) % 2
            assert [id_ for id_, _ in made.peers.asked] == ["b2"] * elsewhere
        here, there = (
            made.instances[id_].context.telemetry.counts["orders"] for id_ in ("b1", "b2")
        )
        forwarded = sum(made.partition(key) % 2 for key in keys)
        assert (here.found, here.forwarded, there.found) == (20 - forwarded, forwarded, forwarded)
        assert value(client, b"x").status_code == 404
        assert here.missed + there.missed == 1


def test_the_newest_entry_of_a_mispartitioned_key_is_found(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS) as made, asking(made) as client:
        home = made.partition(b"k")
        made.put(b"k", b"1", timestamp=5, partition=home)
        made.put(b"k", b"2", timestamp=6, partition=(home + 1) % 4)
        assert value(client, b"k").json == {"value": b64(b"1")}
        made.place(0, 1, 0, 1, mispartitioned=True)
        assert value(client, b"k").json == {"value": b64(b"2")}


def test_the_serde_of_unwrapped_rows_is_that_of_json(tmp_path: Path) -> None:
    of = replace(view(value="protobuf", value_schema="confluent"), unwrap="debezium")
    with world(tmp_path, of) as made, asking(made) as client:
        made.put(b"k", b'{"id":1}', timestamp=5)
        assert value(client, b"k").json == {"value": b64(b'{"id":1}')}


def test_views_that_name_keys_by_fields_have_no_lists(tmp_path: Path) -> None:
    of = replace(view(key="json"), key_fields=("id",), partitioner="none")
    with world(tmp_path, of) as made, asking(made) as client:
        made.put(b'{"id":4711}', b"1", timestamp=5, partition=0)
        assert value(client, b'{ "id": 4711 }').json == {"value": b64(b"1")}
        answer = client.get("/api/v1/kv/orders", query_string=STRINGS)
        assert (answer.status_code, answer.json["code"]) == (500, "wrong-store")
        assert client.get("/api/v1/kv/orders/count").json == {"count": 1}


def test_an_instance_that_does_not_answer_makes_the_query_unavailable(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS) as made, asking(made) as client:
        made.put_all({b"%d" % n: b"1" for n in range(9)})
        made.peers.down.add("b2")
        statuses = {made.partition(b"%d" % n) % 2: value(client, b"%d" % n) for n in range(9)}
        assert statuses[0].status_code == 200
        assert (statuses[1].status_code, statuses[1].json["code"]) == (503, "owner-unreachable")
        assert statuses[1].headers["Retry-After"] == "1"
        assert client.get("/api/v1/kv/orders", query_string=STRINGS).status_code == 503
        assert client.get("/api/v1/kv/orders/count").status_code == 503


def test_reads_before_the_event_loop_runs_are_unavailable() -> None:
    served = context()
    with flask_pages(served).test_client() as client:
        answer = value(client, b"k")
        assert (answer.status_code, answer.json["code"]) == (503, "no-topology")


@pytest.mark.parametrize("bound", ["MAX_ENTRIES", "MAX_ENTRIES_BYTES"])
def test_a_list_of_all_entries_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    with world(tmp_path, ORDERS) as made, asking(made) as client:
        made.put_all({b"%d" % n: b"1" for n in range(9)})
        whole = client.get("/api/v1/kv/orders", query_string=STRINGS)
        assert len(whole.json["results"]) == 9
        monkeypatch.setattr(raw_reads, bound, 8)
        refused = client.get("/api/v1/kv/orders", query_string=STRINGS)
        assert (refused.status_code, refused.json["code"]) == (400, "too-many-entries")


def count(client: FlaskClient) -> Any:
    return client.get("/api/v1/kv/orders/count").json


def test_the_count_of_many_entries_is_marked_as_an_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path, ORDERS) as made, asking(made) as client:
        made.put_all({b"%d" % n: b"1" for n in range(9)})
        assert count(client) == {"count": 9}
        monkeypatch.setattr(raw_reads, "MAX_COUNTED", 0)
        answer = count(client)
        assert answer.pop("estimate") is True
        assert answer.pop("count") >= 9
        assert not answer


def test_a_count_that_takes_too_long_is_an_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path, ORDERS) as made, asking(made) as client:
        made.put_all({b"%d" % n: b"1" for n in range(9)})
        monkeypatch.setattr(raw_reads, "COUNTING_SECONDS", -1.0)
        assert count(client)["estimate"] is True


def test_overwritten_and_deleted_entries_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB counts each write of a key until it compacts them."""
    monkeypatch.setattr(raw_reads, "MAX_COUNTED", 300)
    with world(tmp_path, ORDERS) as made, asking(made) as client:
        for n in range(20):
            made.put_all({b"%d" % key: b"%d" % n for key in range(100)})
        assert (
            sum(
                store_partition.store.entries()
                for store_partition in made.store_partitions.values()
            )
            > 300
        )
        assert count(client) == {"count": 100}
        made.put_all({b"%d" % key: None for key in range(70)})
        assert count(client) == {"count": 30}


@pytest.mark.parametrize("known_to", [(), ("b1", "b2"), ("b2",)])
def test_a_key_in_several_partitions_counts_once(tmp_path: Path, known_to: tuple[str, ...]) -> None:
    """`known_to`: the instances that know of mispartitioned records; none: the view says it."""
    anywhere = view("orders", partitioner="murmur2" if known_to else "none")
    with world(tmp_path, anywhere) as made, asking(made) as client:
        for partition in range(4):
            made.put_all({b"%d" % n: b"1" for n in range(60)}, partition=partition)
        for id_ in known_to:
            made.instances[id_].place(0, 1, 0, 1, mispartitioned=True)
        assert count(client) == {"count": 60}


def test_an_estimate_of_keys_in_several_partitions_is_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_reads, "MAX_COUNTED", 200)
    monkeypatch.setattr(raw_reads, "_PAGE", 40)
    with world(tmp_path, view("orders", partitioner="none")) as made, asking(made) as client:
        for partition in range(4):
            made.put_all({b"%04d" % n: b"1" for n in range(600)}, partition=partition)
        answer = count(client)
        assert answer["estimate"] is True
        assert 500 <= answer["count"] <= 700


def test_a_count_of_keys_in_several_partitions_sends_no_values(tmp_path: Path) -> None:
    with world(tmp_path, view("orders", partitioner="none")) as made, asking(made) as client:
        made.put_all({b"%d" % n: b"x" * 10_000 for n in range(20)}, partition=1)
        sizes: list[int] = []
        forward = made.peers.forward

        async def weighed(*args: Any, **options: Any) -> Any:
            answer = await forward(*args, **options)
            sizes.append(len(answer.body))
            return answer

        made.peers.forward = weighed  # type: ignore[method-assign]
        assert count(client) == {"count": 20}
        assert 0 < sum(sizes) < 10_000


def test_a_query_that_takes_too_long_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, ORDERS) as made, asking(made) as client:

        async def forever(*_: Any, **__: Any) -> Any:
            await asyncio.Event().wait()

        monkeypatch.setattr(made.peers, "forward", forever)
        monkeypatch.setattr(raw_reads, "_TIMEOUT", 0.05)
        answer = client.get("/api/v1/kv/orders", query_string=STRINGS)
        assert (answer.status_code, answer.json["code"]) == (503, "took-too-long")


@pytest.mark.parametrize(
    ("of", "fit"),
    [
        ("string", {"String"}), ("json", {"String"}), ("uuid", {"UUID", "String"}),
        ("int32", {"Integer"}), ("int64", {"Long"}), ("float64", {"Double"}),
        ("none", {"Void"}),
        ("bytes", {"String", "UUID", "Integer", "Long", "Double", "Short", "Float", "Boolean"}),
    ],
)  # fmt: skip
def test_serdes_that_fit_a_format(of: str, fit: set[str]) -> None:
    fitting = {name for name, formats in FITS.items() if of in formats}
    always = {"ByteArray", "Bytes", "ByteBuffer"}
    assert fitting == {f"Serdes${name}Serde" for name in fit | always}


@pytest.mark.parametrize(
    ("serde", "of", "code"),
    [
        ("com.acme.OrderSerde", "json", ""),
        ("com.acme.Serdes$Order", "bytes", ""),
        ("com.acme.OrderSerde", "string", "unfit-serde"),
        ("OrderSerde", "json", "unknown-serde"),
        (f"{KAFKA}OrderSerde", "json", "unknown-serde"),
        ("", "json", "missing-parameter"),
    ],
)
def test_serdes_of_other_packages(tmp_path: Path, serde: str, of: str, code: str) -> None:
    of_view: View = view("orders", value=of)
    with world(tmp_path, of_view) as made, asking(made) as client:
        made.put(b"k", b"1")
        given = {**STRINGS, "valueSerde": serde}
        answer = client.get(f"/api/v1/kv/orders/values/{b64(b'k')}", query_string=given)
        if code:
            status = 500 if code == "unfit-serde" else 400
            assert (answer.status_code, answer.json["code"]) == (status, code)
        else:
            assert answer.json == {"value": b64(b"1")}
