"""A new view needs two files: its module and its entry in views.toml."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from local.errors import LocalError
from local.kafka.broker import Broker
from local.settings import REPOSITORY, StackSettings
from local.spark_views import derived_views
from spark.discovery import select_views, views_at
from spark.errors import JobError
from spark.formats import registry
from spark.options import parse
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from spark.views import VIEWS
from tests.support.deployment import Deployment
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer

MODULE = '''
"""cities-by-length: names of cities, by their length in words. Its Python code runs in workers."""

import pyarrow as pa
from pyspark.sql import functions as F

from spark.raw_topics.texts import TEXTS
from spark.view import View

MARK = "city"


def in_python(batches):
    for batch in batches:
        names = batch.column("text").to_pylist()
        keys = [f"{{MARK}}-{{len(name.split())}}" for name in names]
        yield pa.RecordBatch.from_pydict({{"length": keys, "name": names}})


def cities(texts):
    rows = texts.mapInArrow(in_python, "length string, name string")
    longest = rows.groupBy("length").agg(F.max("name").alias("last"))
    return longest.select(F.col("length").alias("key"), F.to_json(F.struct("last")).alias("value"))


VIEW = View(
    name="cities-by-length",
    description="the last city in the alphabet of each length",
    source="{source}",
    topic="{topic}",
    decoder=TEXTS,
    derive=cities,
)
'''

ENTRY = """
[views.cities]
topic = "{topic}"
key = "string"
value = "json"
pipeline = "queryable-spark-cities-by-length"
"""


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.system
def test_a_users_view_is_derived_and_served(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(), make_topic(partitions=2, cleanup_policy="compact")
    module = tmp_path / "cities.py"
    module.write_text(MODULE.format(source=source, topic=topic))
    views_toml = tmp_path / "views.toml"
    views_toml.write_text(ENTRY.format(topic=topic))
    Writer(broker.bootstrap_servers).send(
        source, [(b"k", b"New York"), (b"k", b"Newark"), (b"k", b"Oslo"), (b"k", b"\xff")]
    )

    servers = ["--bootstrap-servers", broker.bootstrap_servers]
    checkpoints = ["--checkpoint-dir", str(tmp_path / "checkpoints")]
    settings = parse(
        [str(module), "--once", "--views-toml", str(views_toml), *servers, *checkpoints]
    )
    supervise(session, settings, StopSignal())

    with Deployment(
        tmp_path / "backends", broker.bootstrap_servers, views_toml.read_text()
    ) as all_:
        [backend] = all_.start(1)
        for key, last in (("city-1", "Oslo"), ("city-2", "New York")):
            backend.wait(
                lambda key=key: backend.get(f"/views/cities/keys/{key}").status == 200, "a view", 30
            )
            answer = backend.get(f"/views/cities/keys/{key}")
            assert json.loads(answer.body)["value"] == {"last": last}


def test_each_module_of_the_package_is_a_view_with_an_entry() -> None:
    modules = {path.stem for path in (REPOSITORY / "spark" / "views").glob("*.py")} - {"__init__"}
    assert {name.replace("-", "_") for name in VIEWS} == modules
    settings = StackSettings(bootstrap_servers="")
    assert derived_views(settings).keys() == VIEWS.keys()


def test_a_folder_of_views_is_found_without_a_list(tmp_path: Path) -> None:
    for name in ("b", "a", "_shared"):
        text = MODULE.format(source="raw", topic=f"topic-{name}")
        (tmp_path / f"{name}.py").write_text(text.replace("cities-by-length", f"view-{name}"))
    assert list(views_at(tmp_path)) == ["view-a", "view-b"]
    chosen = select_views(["word-count", f"{tmp_path}/b.py"], VIEWS)
    assert list(chosen) == ["word-count", "view-b"]
    settings = StackSettings(bootstrap_servers="", spark_views=f"word-count, {tmp_path}")
    found = derived_views(settings)
    assert list(found) == ["word-count", "view-a", "view-b"]
    assert found["view-a"].topic == "topic-a"
    assert found["view-a"].argument == found["view-b"].argument == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "mine.py: no VIEW. Add VIEW = View"),
        ("import no_such_module", "mine.py: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def", "mine.py: SyntaxError"),
        (None, "mine.py: FileNotFoundError"),
    ],
)
def test_a_file_without_a_view_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(JobError, match=message):
        views_at(file)
    with pytest.raises(LocalError, match=f"QUERYABLE_SPARK_VIEWS: .*{message}"):
        derived_views(StackSettings(spark_views=str(file)))


def test_an_empty_folder_and_two_views_of_one_name_are_errors(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="the folder has no view"):
        views_at(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(MODULE.format(source="raw", topic=name))
    with pytest.raises(JobError, match="two views have the name cities-by-length"):
        views_at(tmp_path)


def test_views_start_in_the_order_of_their_entries(tmp_path: Path) -> None:
    file = tmp_path / "views.toml"
    entry = '[views.{0}]\ntopic = "{0}"\nkey = "string"\nvalue = "json"\n'
    file.write_text("".join(map(entry.format, ("word-count", "orders", "airports"))))
    given = parse(["--checkpoint-dir", "x", "--views-toml", str(file)])
    assert [view.name for view in given.views] == ["word-count", "airports"]
    named = parse(["visits", "airports", "--checkpoint-dir", "x", "--views-toml", str(file)])
    assert [view.name for view in named.views] == ["visits", "airports"]


def test_a_deployment_without_a_derived_view_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "views.toml"
    file.write_text('[views.orders]\ntopic = "orders"\nkey = "string"\nvalue = "json"\n')
    with pytest.raises(SystemExit):
        parse(["--checkpoint-dir", "x", "--views-toml", str(file)])
    assert "no entry for the topic of a view" in capfd.readouterr().err


def test_a_views_toml_with_schemas_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYABLE_SCHEMA_REGISTRY_AUTH", "${env:REGISTRY_USER}:secret")
    monkeypatch.setenv("REGISTRY_USER", "me")
    (tmp_path / "order.avsc").write_text('"string"')
    file = tmp_path / "views.toml"
    file.write_text(
        '[views.orders]\ntopic = "orders"\nkey = "string"\nvalue = "avro"\n'
        'value_schema = "order.avsc"\n[kafka]\n"security.protocol" = "SSL"\n'
        '[schemas]\nregistry = "http://127.0.0.1:8081"\n'
    )
    given = parse(["word-count", "--checkpoint-dir", "x", "--views-toml", str(file)])
    assert given.kafka.client()["security.protocol"] == "SSL"
    assert given.conf[registry.URL] == "http://127.0.0.1:8081"
    assert given.conf[registry.AUTH] == "me:secret"
