"""`queryable init` with a schema registry: what it writes is right for `check` and `serve`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner, Result

from local import http
from local.kafka.broker import Broker
from local.ports import free_ports
from local.settings import REPOSITORY
from local.waiting import wait_until
from model.views_file import parse_views
from queryable.cli.app import app
from queryable.cli.check.deployment import check_deployment
from tests.support.in_process.avro_examples import ORDER, framed, registry
from tests.support.in_process.protobuf_examples import SHOP, order, serialized
from tests.support.in_process.protobuf_examples import framed as framed_message
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer, history
from tests.system.queryable.cli.start.apicurio import Apicurio, apicurio
from tests.system.queryable.terminal import Terminal

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
CHANGE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", {**ORDER, "name": "Row"}]},
        {"name": "after", "type": ["null", "shop.Row"]},
        {"name": "op", "type": "string"},
    ],
}
JSON_SCHEMA = '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}'
FIRST_ID = 9_000  # as an Avro varint it has 3 bytes, so that a framed key has 8, as an int64
RECORDS = 60


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with apicurio(tmp_path_factory.mktemp("apicurio")) as running:
        yield running


@pytest.fixture
def topics(real: Apicurio, broker: Broker, make_topic: MakeTopic) -> dict[str, str]:
    """A topic for each type of schema, and one with Debezium's changes in Avro: with the records
    that Confluent's serializers write."""
    names = {kind: make_topic(2) for kind in ("avro", "protobuf", "json", "changes")}
    writer = Writer(broker.bootstrap_servers)

    def register(kind: str, what: str, schema_type: str, text: str) -> int:
        return real.register(f"{names[kind]}-{what}", schema_type, text)

    avro = register("avro", "value", "AVRO", json.dumps(ORDER))
    protobuf = register("protobuf", "value", "PROTOBUF", serialized(SHOP))
    of_json = register("json", "value", "JSON", JSON_SCHEMA)
    key = register("changes", "key", "AVRO", json.dumps(KEY))
    change = register("changes", "value", "AVRO", json.dumps(CHANGE))
    head = b"\0" + of_json.to_bytes(4, "big")
    for n in range(RECORDS):
        text, row = b"order-%d" % n, {"id": n, "price": n / 4, "note": None}
        changed = {"before": None, "after": row, "op": "c"}
        writer.send(names["avro"], [(text, framed(avro, ORDER, row))])
        message = order(order_id=2**40 + n, price=n / 4)
        writer.send(names["protobuf"], [(text, framed_message(protobuf, message))])
        writer.send(names["json"], [(text, head + json.dumps(row).encode())])
        framed_key = framed(key, KEY, {"id": FIRST_ID + n})
        assert len(framed_key) == 8
        writer.send(names["changes"], [(framed_key, framed(change, CHANGE, changed))])
    return names


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [each for each in os.environ if each.startswith("QUERYABLE_")]:
        if name != "QUERYABLE_CACHE":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(broker: Broker, *arguments: str, **environment: str) -> Result:
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    done = CliRunner().invoke(app, ["init", *arguments, *servers], env=environment)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def command(folder: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """`queryable` in the folder, and its environment."""
    env = {name: value for name, value in os.environ.items() if name[:10] != "QUERYABLE_"}
    env["PYTHONPATH"] = str(REPOSITORY)
    return ["env", f"--chdir={folder}", sys.executable, "-m", "queryable", *arguments], env


def test_what_it_writes_is_checked_and_served(
    real: Apicurio, topics: dict[str, str], broker: Broker, folder: Path
) -> None:
    done = init(broker, *topics.values(), "--schema-registry", real.url)
    assert done.exit_code == 0, done.stderr
    assert "warning" not in done.stderr
    assert "wrong" not in done.stderr
    views = parse_views((folder / "views.toml").read_text(), "views.toml")
    assert views.registry == real.url
    assert [(view.value, view.value_schema, view.unwrap) for view in views.views] == [
        ("avro", "confluent", None),
        ("protobuf", "confluent", None),
        ("json", "confluent", None),
        ("avro", "confluent", "debezium"),
    ]
    assert [view.key for view in views.views] == ["string", "string", "string", "avro"]
    assert views.views[3].key_fields == ("id",)
    checked = list(check_deployment(Path("views.toml"), broker.bootstrap_servers, 500, 10.0))
    assert [each.message for each in checked if each.status != "ok"] == []
    assert sum("have schema" in each.message for each in checked) == 4  # JSON needs none

    proxy, backend = free_ports(2)
    servers = ("--bootstrap-servers", broker.bootstrap_servers, "--instances", "1")
    ports = ("--port", str(proxy), "--backend-port", str(backend))
    words, env = command(folder, "serve", *servers, *ports)
    row = {"id": 7, "price": 1.75, "note": None}
    with Terminal(words, env, columns=80) as terminal:
        terminal.wait_for(lambda text: "Ctrl-C stops everything" in text, 90)

        def value(kind: str, key: str) -> object:
            url = f"http://127.0.0.1:{proxy}/{topics[kind]}/{quote(key, safe='')}"
            wait_until(lambda: http.get(url).status == 200, 60, f"an answer of {url}")
            return json.loads(http.get(url).body)["value"]

        assert value("avro", "order-7") == value("json", "order-7") == row
        assert value("changes", str(FIRST_ID + 7)) == row
        message = value("protobuf", "order-7")
        assert isinstance(message, dict)
        assert (message["orderId"], message["price"]) == (str(2**40 + 7), 1.75)
        terminal.interrupt()
        assert terminal.wait() == 0, terminal.text


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json", "changes"])
def test_it_is_asked_for_on_a_terminal(
    kind: str, real: Apicurio, topics: dict[str, str], broker: Broker, folder: Path
) -> None:
    [unused] = free_ports(1)
    topic = topics[kind]
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    words, env = command(folder, "init", topic, *servers, "--views", "typed.toml")
    with Terminal(words, env, columns=200) as terminal:
        if kind != "json":  # whose frame is enough
            terminal.wait_for(lambda text: "Schema registry (URL, or - for none): " in text)
            terminal.send_keys(f"http://127.0.0.1:{unused}\n")
            terminal.wait_for(lambda text: "does not answer" in text and f"{unused}]: " in text)
            terminal.send_keys(f"{real.url}\n")
        assert terminal.wait() == 0, terminal.text
        assert "typed.toml" in terminal.text
    done = init(broker, topic, "--schema-registry", real.url)
    assert done.exit_code == 0
    assert ("no record needs a schema" in done.stderr) == (kind == "json")
    assert (folder / "typed.toml").read_text() == (folder / "views.toml").read_text()
    assert ("[schemas]" in (folder / "typed.toml").read_text()) == (kind != "json")


def test_without_the_schemas_no_file_is_written(
    topics: dict[str, str], broker: Broker, folder: Path
) -> None:
    """Regression: the values were `bytes`, which `serve` served as base64."""
    done = init(broker, topics["avro"])
    assert done.exit_code == 2
    assert f"The values of {topics['avro']} are framed by Confluent's serializers" in done.stderr
    assert "--schema-registry" in done.stderr
    [unused] = free_ports(1)
    done = init(broker, topics["avro"], "--schema-registry", f"http://127.0.0.1:{unused}")
    assert done.exit_code == 3
    assert "does not answer" in done.stderr
    with registry() as other:
        done = init(broker, topics["avro"], "--schema-registry", other.url)
        assert done.exit_code == 2
        assert "the registry has no schema with this id" in done.stderr
    assert list(folder.iterdir()) == []
    assert init(broker, topics["avro"], "--schema-registry", "-").exit_code == 0
    assert 'value = "bytes"  # TODO?' in (folder / "views.toml").read_text()


def test_the_password_stays_where_it_is(
    broker: Broker, make_topic: MakeTopic, folder: Path
) -> None:
    topic, name = make_topic(1), "QUERYABLE_SCHEMA_REGISTRY_AUTH"
    row = {"id": 1, "price": 2.5, "note": None}
    Writer(broker.bootstrap_servers).send(topic, [(b"a", framed(7, ORDER, row))])
    with registry() as running:
        running.add(7, ORDER)
        running.accepted.add("me:s3cret")
        arguments = (topic, "--schema-registry", running.url)
        done = init(broker, *arguments)
        assert done.exit_code == 3
        assert f"answers 401: set user:password in {name}" in done.stderr
        done = init(broker, *arguments, **{name: "me:wr0ng"})
        assert done.exit_code == 3
        assert f"it refuses the user or the password in {name}" in done.stderr
        assert "wr0ng" not in done.output
        (folder / "password").write_text("s3cret\n")
        done = init(broker, *arguments, **{name: f"me:${{file:{folder}/password}}"})
        assert done.exit_code == 0, done.stderr
        assert "s3cret" not in done.output + (folder / "views.toml").read_text()
        # a view is added with the registry that the file has
        done = init(broker, topic, "--add", **{name: "me:s3cret"})
        assert done.exit_code == 2
        assert "It cannot be added" in done.stderr, "it is there already"
        other = make_topic(1)
        Writer(broker.bootstrap_servers).send(other, [(b"a", framed(7, ORDER, row))])
        done = init(broker, other, "--add", **{name: "me:s3cret"})
        assert done.exit_code == 0, done.stderr
    text = (folder / "views.toml").read_text()
    assert text.count("[schemas]") == 1
    assert [view.value for view in parse_views(text).views] == ["avro", "avro"]


def test_adopt_asks_the_registry_about_changelogs(
    real: Apicurio, broker: Broker, make_topic: MakeTopic, folder: Path
) -> None:
    application = make_topic(1)  # a unique name
    topic = make_topic(1, name=f"{application}-orders-changelog", cleanup_policy="compact")
    schema_id = real.register(f"{topic}-value", "AVRO", json.dumps(ORDER))
    row = {"id": 1, "price": 2.5, "note": None}
    values = [(b"k%d" % n, framed(schema_id, ORDER, row)) for n in range(RECORDS)]
    Writer(broker.bootstrap_servers).send(topic, values)
    words = ["adopt", application, "--yes", "--bootstrap-servers", broker.bootstrap_servers]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "--schema-registry" in done.stderr
    done = CliRunner().invoke(app, [*words, "--schema-registry", real.url])
    assert done.exit_code == 0, done.stderr
    deployment = parse_views(done.stdout)
    assert deployment.registry == real.url
    [view] = deployment.views
    assert (view.value, view.value_schema) == ("avro", "confluent")


VIEW = """
[views.notes-of-{topic}.derive]
from = "{topic}"
key = "id"
where = "price > 10"
select = "id"
"""


def test_from_a_registry_to_a_derived_view(
    real: Apicurio, topics: dict[str, str], broker: Broker, folder: Path
) -> None:
    """`init --source`, a view of four lines, and the job. Then a version with another field."""
    topic = topics["avro"]
    done = init(broker, topic, "--source", "--schema-registry", real.url)
    assert done.exit_code == 0, done.stderr
    assert f"wrote views.toml, {topic}.avsc: {topic}" in done.stdout
    done = init(broker, topics["protobuf"], topics["changes"], "--source", "--add")
    assert done.exit_code == 0, done.stderr
    file = folder / "views.toml"
    file.write_text(file.read_text() + VIEW.format(topic=topic))
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    job = ("-m", "spark.run", "--once", "--checkpoint-dir", "checkpoints", "--views-toml", file)
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([sys.executable, *job, *servers], cwd=folder, env=env, check=True, timeout=300)
    logs = history(broker.bootstrap_servers, f"notes-of-{topic}", 3)
    found = {key: value for log in logs for _, _, key, value in log.records if value is not None}
    assert found == {
        n.to_bytes(8, "big"): n.to_bytes(8, "big") for n in range(RECORDS) if n / 4 > 10
    }
    discount = {"name": "discount", "type": ["null", "double"], "default": None}
    newer = {**ORDER, "fields": [*ORDER["fields"], discount]}
    real.register(f"{topic}-value", "AVRO", json.dumps(newer))
    checked = check_deployment(file, broker.bootstrap_servers, 500, 10.0)
    by_subject = {each.subject: each for each in checked if each.subject.startswith("source ")}
    finding = by_subject[f"source {topic}"]
    assert finding.action == f"to use it: queryable sources {topic} --save"
    assert "adds discount (double?)" in finding.message
    assert [each.status for each in by_subject.values()].count("ok") == 2
    done = CliRunner().invoke(app, ["sources", topic, "--save"])
    assert done.stdout == (
        f"wrote {topic}.avsc, version 2 of {topic}-value: adds discount (double?)\n"
    )
