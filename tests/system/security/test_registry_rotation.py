"""The password of the schema registry is replaced while clients read, and no read fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.client import key_path
from tests.support.deployment import views_toml
from tests.support.in_process.avro_examples import FakeRegistry, basic, framed, registry
from tests.support.topics import Writer
from tests.system.security.rotating_world import (
    KEYS,
    PASSWORDS,
    TABLE,
    World,
    compacted_topic,
    load,
    reference_in,
    restart_all,
    world_with_pem_keys,
    write_password,
)

OLD, NEW = (f"queryable:{password}" for password in PASSWORDS)
SCHEMAS = {7: "long", 8: "int"}  # both have the values of the table


def write_table(broker: Broker, topic: str, schema_id: int) -> None:
    schema = SCHEMAS[schema_id]
    records = [(key.encode(), framed(schema_id, schema, n)) for key, n in TABLE.items()]
    Writer(broker.bootstrap_servers).send(topic, records)


@contextmanager
def avro_world(
    broker: Broker, topic: str, schemas: FakeRegistry, folder: Path, credentials: str
) -> Iterator[World]:
    """`credentials`: the setting of the instances."""
    schemas.accepted = {OLD}
    for schema_id, schema in SCHEMAS.items():
        schemas.add(schema_id, schema)
    write_table(broker, compacted_topic(broker, topic), 7)
    views = views_toml(v={"topic": topic, "value": "avro", "value_schema": "confluent"})
    views += f'[schemas]\nregistry = "{schemas.url}"\n'
    with world_with_pem_keys(
        folder, broker.bootstrap_servers, views, schema_registry_auth=credentials
    ) as world:
        yield world


def asked(schemas: FakeRegistry) -> Mapping[str, int]:
    """How often each schema was asked for with the new password."""
    paths = [path for path, header in schemas.asked if header == basic(NEW)]
    return {path: paths.count(path) for path in paths}


def waits_for_the_registry(backend: Backend) -> bool:
    waiting = [p.get("waiting_for") or "" for p in backend.partitions("v")]
    return any("401" in each for each in waiting)


def schema_ids(backend: Backend) -> set[str | None]:
    answers = [backend.get(key_path("v", key), accept="application/avro") for key in KEYS]
    return {answer.headers["Schema-Id"] for answer in answers}


def test_a_password_in_a_file(broker: Broker, tmp_path: Path) -> None:
    """Without a restart. Between the steps, records with a new schema wait, and reads do not."""
    topic = "registry-file"
    write_password(tmp_path, PASSWORDS[0])
    credentials = f"queryable:{reference_in(tmp_path)}"
    with (
        registry() as schemas,
        avro_world(broker, topic, schemas, tmp_path, credentials) as world,
        load(world, at_instances=True) as reads,
    ):
        schemas.accepted = {NEW}
        write_table(broker, topic, 8)
        for backend in world.backends:
            backend.wait(lambda b=backend: waits_for_the_registry(b), "a partition that waits")
        reads.all_again()
        assert {each for b in world.backends for each in schema_ids(b)} == {"7"}
        write_password(tmp_path, PASSWORDS[1])
        for backend in world.backends:
            backend.wait(lambda b=backend: schema_ids(b) == {"8"}, "the records that waited")
            assert not waits_for_the_registry(backend)
        reads.all_again()
        assert asked(schemas) == {"/schemas/ids/8": len(world.backends)}


def test_a_password_in_the_setting(broker: Broker, tmp_path: Path) -> None:
    """The instances are restarted one after the other, and fetch their schemas again."""
    topic = "registry-setting"
    with (
        registry() as schemas,
        avro_world(broker, topic, schemas, tmp_path, OLD) as world,
        load(world, at_instances=False) as reads,
    ):
        schemas.accepted = {NEW}
        for backend in world.backends:
            backend.settings["QUERYABLE_SCHEMA_REGISTRY_AUTH"] = NEW
        reads.all_again()
        restart_all(world, reads)
        write_table(broker, topic, 8)
        for backend in world.backends:
            backend.wait(lambda b=backend: schema_ids(b) == {"8"}, "the new records")
        wait_until(lambda: len(asked(schemas)) == 2, 10, "both schemas to be fetched")
