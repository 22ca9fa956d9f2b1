"""A new view needs two files: its module and its entry in views.toml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from local.errors import LocalError
from local.kafka.connection import deployment_of
from local.settings import StackSettings
from local.spark_views import derived_views
from spark.discovery import find_view, select_views, views_at
from spark.errors import JobError
from spark.formats import registry
from spark.formats.decoders import JsonDecoder
from spark.options import parse
from spark.raw_topics.flights import FLIGHTS
from spark.raw_topics.texts import TEXTS
from spark.view import Source
from spark.views import VIEWS

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


def test_the_demos_views_are_found_by_their_entries() -> None:
    settings = StackSettings(bootstrap_servers="")
    assert derived_views(settings).keys() == VIEWS.keys()
    entries = deployment_of(settings.views).views
    assert {entry.pipeline for entry in entries if entry.spark_view} == {
        f"queryable-spark-{name}" for name in VIEWS
    }


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
        find_view(str(file))
    with pytest.raises(LocalError, match=f"QUERYABLE_SPARK_VIEWS: .*{message}"):
        derived_views(StackSettings(spark_views=str(file)))


def test_an_empty_folder_and_two_views_of_one_name_are_errors(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="the folder has no view"):
        views_at(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(MODULE.format(source="raw", topic=name))
    with pytest.raises(JobError, match="two views have the name cities-by-length"):
        views_at(tmp_path)


def test_a_view_does_not_write_into_its_own_source(tmp_path: Path) -> None:
    text = MODULE.format(source="orders", topic="").replace('name="cities-by-length"', 'name=""')
    file = tmp_path / "orders.py"  # the name of the file is that of the topic
    file.write_text(text)
    with pytest.raises(JobError, match="orders would write its results into orders, its source"):
        select_views([str(file)], VIEWS)
    with pytest.raises(JobError, match="orders would write its results into orders, its source"):
        views_at(tmp_path)
    toml = tmp_path / "views.toml"
    entry = f'key = "string"\nvalue = "json"\nspark_view = "{file}"\n'
    toml.write_text(f'[views.cities]\ntopic = "orders"\n{entry}')
    with pytest.raises(LocalError, match="cities would write its results into orders"):
        derived_views(StackSettings(views=toml))
    toml.write_text(f'[views.orders]\ntopic = "cities"\n{entry}')
    assert derived_views(StackSettings(views=toml))["orders"].topic == "cities"


def test_views_start_in_the_order_of_their_entries(tmp_path: Path) -> None:
    file = tmp_path / "views.toml"
    (tmp_path / "mine.py").write_text(MODULE.format(source="raw", topic="other"))
    entry = '[views.{0}]\ntopic = "{0}"\nkey = "string"\nvalue = "json"\n'
    packaged = [
        f'{entry.format(name)}spark_view = "spark.views.{module}:VIEW"\n'
        for name, module in (("words", "word_count"), ("airports", "airports"))
    ]
    mine = f'{entry.format("mine")}spark_view = "mine.py"\npartitions = 7\n'
    file.write_text("".join([packaged[0], entry.format("orders"), mine, packaged[1]]))
    common = ["--checkpoint-dir", "x", "--views-toml", str(file)]
    given = parse(common).views
    # the entry gives the name and the topic
    assert [view.name for view in given] == ["words", "mine", "airports"]
    assert [view.topic for view in given] == ["words", "mine", "airports"]
    assert [view.partitions for view in given] == [6, 7, 3]
    named = parse(["visits", "mine", *common]).views
    assert [view.name for view in named] == ["visits", "mine"]
    assert list(derived_views(StackSettings(views=file))) == ["words", "mine", "airports"]
    own = StackSettings(views=file, bootstrap_servers="broker:9092")
    assert list(derived_views(own)) == ["words", "mine", "airports"]


def test_a_view_is_a_module_and_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    text = MODULE.format(source="raw", topic="").replace("VIEW =", "ORDERS =")
    (tmp_path / "my_shop.py").write_text(text.replace('name="cities-by-length"', 'name=""'))
    arguments = ["--checkpoint-dir", "x", "--view"]
    [view] = parse([*arguments, "my_shop:ORDERS"]).views
    assert (view.name, view.topic, view.source) == ("my-shop", "my-shop", "raw")
    [same] = parse([*arguments, f"{tmp_path}/my_shop.py:ORDERS"]).views
    assert (same.name, same.topic) == ("my-shop", "my-shop")
    with pytest.raises(JobError, match=r"my_shop\.py: no VIEW\. Add VIEW = View"):
        find_view("my_shop:VIEW")
    with pytest.raises(JobError, match="no_such_module:VIEW: ModuleNotFoundError"):
        find_view("no_such_module:VIEW")
    entry = '[views.a]\ntopic = "a"\nkey = "string"\nvalue = "json"\nspark_view = "gone.py"\n'
    (tmp_path / "views.toml").write_text(entry)
    with pytest.raises(LocalError, match=r"\[views.a\] spark_view: .*gone.py: FileNotFoundError"):
        derived_views(StackSettings(views=tmp_path / "views.toml"))


def test_a_deployment_without_a_derived_view_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "views.toml"
    # the demo's view of this topic is not meant
    file.write_text('[views.airports]\ntopic = "airports"\nkey = "string"\nvalue = "json"\n')
    with pytest.raises(SystemExit):
        parse(["--checkpoint-dir", "x", "--views-toml", str(file)])
    assert 'has no entry with a view: add spark_view = "my_view.py"' in capfd.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": ""}, "either source and decoder, or sources"),
        ({"sources": (Source("b", TEXTS),)}, "either source and decoder, or sources"),
        ({"output_mode": "complete"}, "use update or append"),
        ({"source": "", "sources": (Source("b", TEXTS), Source("b", FLIGHTS))}, "the same topic"),
        ({"source": "", "sources": (Source("b", TEXTS, static=True),)}, "all sources are static"),
    ],
)
def test_a_wrong_description_of_a_view_is_an_error(changes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(VIEWS["word-count"], **changes)


def test_a_field_with_the_name_of_a_record_column_is_an_error() -> None:
    schema = StructType([StructField("timestamp", StringType()), StructField("x", StringType())])
    with pytest.raises(ValueError, match=r"timestamp is a field of the schema and a column") as e:
        JsonDecoder(schema)
    assert "record=('key', 'headers', 'partition', 'offset')" in str(e.value)
    assert JsonDecoder(schema, record=("key", "offset")).record == ("key", "offset")


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
    assert given.conf[registry.AUTH] == "${env:REGISTRY_USER}:secret"
