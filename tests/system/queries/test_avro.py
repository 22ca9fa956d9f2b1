"""Avro in the frame of Confluent's serializers, with a registry that is sometimes unavailable."""

from __future__ import annotations

from local.kafka.broker import Broker
from local.ports import free_ports
from tests.support.backends import Backend
from tests.support.client import key_path
from tests.support.deployment import settle, views_toml
from tests.support.in_process.avro_examples import ORDER, framed, registry
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer, ends_of, history
from tests.system.ingest.test_dead_letters import letters

NEWER = {**ORDER, "fields": [*ORDER["fields"][:2], {"name": "by", "type": "string"}]}  # type: ignore[misc]


def order(number: int) -> dict[str, object]:
    return {"id": 2**60 + number, "price": number / 4, "note": None}


def waiting(backend: Backend) -> list[str]:
    return [p["waiting_for"] for p in backend.partitions("v") if p.get("waiting_for")]


def values(backend: Backend, keys: int) -> list[object]:
    """The answer for each key: the value or the code."""
    answers = [backend.get(key_path("v", str(i))) for i in range(keys)]
    return [a.json()["value"] if a.status == 200 else a.code for a in answers]


def test_records_wait_while_the_registry_is_unavailable(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(2)
    [port] = free_ports(1)
    writer.send(topic, [(str(i).encode(), framed(7, ORDER, order(i))) for i in range(20)])
    # an id that the registry does not know, and bytes that do not fit the schema
    writer.send(topic, [(b"0", framed(9, ORDER, order(0))), (b"1", framed(7, "int", 1))])
    views = views_toml(
        v={"topic": topic, "value": "avro", "value_schema": "confluent"},
        other={"topic": topic, "value": "bytes"},
    )
    deployment = deploy(f'{views}[schemas]\nregistry = "http://127.0.0.1:{port}"\n')
    # the id that the registry does not know delays no test for long
    first, second = started = [deployment.new(schema_missing_after="0.5") for _ in range(2)]
    for backend in started:
        backend.launch()
    ends = ends_of(history(broker.bootstrap_servers, topic, 2))

    # the other view of the topic is read; this one waits, and reports it
    for backend in started:
        backend.wait_listening()
        backend.wait(
            lambda backend=backend: any("does not answer" in w for w in waiting(backend)),
            "a waiting partition",
        )

    def other_is_there() -> bool:
        held = [p for b in started for p in b.partitions("other")]
        return {p["partition"]: p.get("position") for p in held} == ends

    first.wait(other_is_there, "the other view")
    assert set(values(first, 20)) == {"catching-up"}
    assert sum(p["dead_letters"] for b in started for p in b.partitions("v")) == 0
    assert all(p["position"] == 0 for b in started for p in b.partitions("v"))

    with registry(port) as running:
        running.add(7, ORDER)
        settle(started)
        known = ["value-unreadable"] * 2 + [order(i) for i in range(2, 20)]
        assert values(first, 20) == values(second, 20) == known
        found = letters(broker, f"{topic}.dead-letter", 2)
        reasons = sorted(dict(letter.headers() or [])["reason"].decode() for letter in found)
        assert "has no schema with" in reasons[1]
        assert "schema 7: " in reasons[0]
        for backend in started:
            answer = backend.get(key_path("v", "3"), accept="application/avro")
            assert answer.body == framed(7, ORDER, order(3))[5:]
            assert answer.headers["Schema-Id"] == "7"
            assert len(answer.headers["Schema-Fingerprint"]) == 16
            answer = backend.get(key_path("v", "3"), accept="application/octet-stream")
            assert answer.body == framed(7, ORDER, order(3))
            assert backend.get(key_path("v", "3"), accept="text/html").code == "not-acceptable"

    # unavailable again: known data is served, and records with a new schema wait
    changed = [(str(i).encode(), framed(7, ORDER, order(100 + i))) for i in range(10)]
    new = {"id": 1, "price": 0.5, "by": "me"}
    writer.send(topic, changed)
    writer.send(topic, [(str(i).encode(), framed(8, NEWER, new)) for i in range(20)])
    writer.send(topic, [(b"0", framed(7, ORDER, order(500)))])
    expected = [order(100 + i) for i in range(10)] + [order(i) for i in range(10, 20)]
    for backend in started:
        backend.wait(lambda backend=backend: waiting(backend), "a partition that waits")
    first.wait(lambda: values(first, 20) == expected, "all earlier records")
    with registry(port) as running:
        running.add(8, NEWER)
        running.add(7, ORDER)
        expected = [order(500)] + [new] * 19
        first.wait(lambda: values(second, 20) == expected, "the rest")
        assert not [w for b in started for w in waiting(b)]
        second.stop()
        first.wait_ready(1)

    # a restart without the registry: the bytes are there, but their schema is not known yet
    first.stop()
    first.start()
    assert set(values(first, 20)) == {"schema-unavailable"}
    assert first.get(key_path("v", "0"), accept="application/octet-stream").status == 200
    assert first.get(key_path("v", "missing")).status == 404
    with registry(port) as running:
        running.add(7, ORDER)
        running.add(8, NEWER)
        first.wait(lambda: values(first, 20) == expected, "all values again")
    assert first.log().count("cannot fetch schema") == 1
    assert sum(p["dead_letters"] for p in first.partitions("v")) == 2


def test_a_registry_that_is_restored(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    """It answers before it has its schemas: no record may be lost, and none be an older value."""
    topic = make_topic(1)
    with registry() as running:
        running.add(7, ORDER)
        running.add(8, NEWER)
        writer.send(topic, [(str(i).encode(), framed(7, ORDER, order(i))) for i in range(5)])
        of_view = {"topic": topic, "value": "avro", "value_schema": "confluent"}
        views = f'{views_toml(v=of_view)}[schemas]\nregistry = "{running.url}"\n'
        backend = deploy(views).new(schema_missing_after="600").launch()
        settle([backend])
        new = {"id": 1, "price": 0.5, "by": "me"}
        del running.answers["/schemas/ids/8"]
        writer.send(topic, [(b"0", framed(8, NEWER, new)), (b"1", framed(7, ORDER, order(9)))])
        backend.wait(
            lambda: any("has had no such" in each for each in waiting(backend)), "the wait"
        )
        assert values(backend, 5) == [order(i) for i in range(5)], "as of the stated position"
        running.add(8, NEWER)
        expected = [new, order(9), *map(order, range(2, 5))]
        backend.wait(lambda: values(backend, 5) == expected, "the rest")
        assert sum(p["dead_letters"] for p in backend.partitions("v")) == 0

        # missing for longer than what is set: unreadable, until the schema is back
        backend.stop()
        del running.answers["/schemas/ids/8"]
        backend.settings["QUERYABLE_SCHEMA_MISSING_AFTER"] = "0.2"
        writer.send(topic, [(b"2", framed(8, NEWER, new))])
        backend.start()
        backend.wait(lambda: values(backend, 3)[2] == "value-unreadable", "that it is unreadable")
        running.add(8, NEWER)
        backend.wait(lambda: values(backend, 3)[2] == new, "the value, without a rebuild")
        assert not backend.get("/instance").json()["rebuilds"]
