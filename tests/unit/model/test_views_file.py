"""Tests of views.toml: valid files, and errors with line, field and remedy."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from model.formats.avro.codecs import parsed
from model.formats.listed_keys import ListedKeys
from model.formats.schemas import ConfluentCodec, NoSchemas
from model.problems import ConfigurationError
from model.views import View
from model.views_file import RESERVED_SEGMENTS, parse_views
from tests.support.in_process.examples import ORDERS

ROOT = Path(__file__).parents[3]
VALID = """\
[views.orders]
topic = "orders"
path = "/orders"
key = "string"
value = "json"
"""


def with_line(number: int, line: str) -> str:
    lines = VALID.splitlines()
    lines[number - 1] = line
    return "\n".join(lines)


def second(name: str, path: str) -> str:
    return f'{VALID}\n[views.{name}]\ntopic="t"\nkey="string"\nvalue="json"\npath="{path}"\n'


def test_a_view() -> None:
    assert parse_views(VALID).views == (View("orders", "orders", "/orders", "string", "json",
                                            "murmur2"),)  # fmt: skip


def test_the_pipeline_is_not_part_of_the_definition() -> None:
    """A change of the pipeline must not rebuild the stores."""
    [named] = parse_views(f'{VALID}pipeline = "job 1"').views
    [plain] = parse_views(VALID).views
    assert (named.pipeline, plain.pipeline) == ("job 1", None)
    assert (named.hash, named.description()) == (plain.hash, plain.description())
    for invalid in ("x" * 250, "a\\u0000b"):
        with pytest.raises(ConfigurationError, match=r"line 6.*consumer group"):
            parse_views(f'{VALID}pipeline = "{invalid}"')


def test_all_fields_and_kafka_settings() -> None:
    text = """
        [views."a.b"]   # a comment
        topic = "t.1_x-Y"
        key = "bytes"
        value = "none"
        partitioner = "crc32"
        store = "key-value"
        persistence = "rocksdb"
        [kafka]
        "security.protocol" = "SASL_SSL"
        "socket.keepalive.enable" = true
        "session.timeout.ms" = 6000
    """
    deployment = parse_views(text)
    assert deployment.views == (View("a.b", "t.1_x-Y", None, "bytes", "none", "crc32"),)
    assert deployment.kafka == {
        "security.protocol": "SASL_SSL",
        "socket.keepalive.enable": "true",
        "session.timeout.ms": "6000",
    }


def test_the_shipped_file() -> None:
    views = {view.name: view for view in parse_views((ROOT / "views.toml").read_text()).views}
    paths = {"latest-departure": "/messages", "word-count": "/words", "flights": "/flights"}
    assert {name: views[name].path for name in paths} == paths
    assert views["word-count"].value == "int64"


# text; line, table and field in the error; a part of the remedy in the error
INVALID = {
    "no TOML": ("[views.orders\n", "not TOML", "line 1, column 14"),
    "no TOML at its end": ("[views.orders", "not TOML", "at end of document"),
    "empty": ("", "no views are declared", "[views.orders]"),
    "views is no table": ("views = 3", "no views are declared", "add a table"),
    "unknown table": (
        VALID + "[view.x]\n",
        "line 6, [view]",
        "[views.*], [sources.*], [kafka], [schemas]",
    ),
    "a view is no table": ("[views]\n\norders = 3", "line 3, [views], orders", "[views.orders]"),
    "view's name": (VALID + '[views."a/b"]\n', 'line 6, [views."a/b"]', "letters, digits"),
    "view named ..": (VALID + '[views.".."]\n', 'line 6, [views.".."]', "letters, digits"),
    "misspelt field": (with_line(4, 'keys = "string"'), "line 4, [views.orders], keys", "key,"),
    "no text": (
        VALID + "append = true",
        "line 6, [views.orders], append",
        'true is not a string; write append = "off" or "on"',
    ),
    "a number": (
        VALID + "quota = 5",
        "line 6, [views.orders], quota",
        "5 is not a string: the req",
    ),
    "retention of 0": (
        VALID + 'retention = "0s"',
        "line 6, [views.orders], retention",
        '"0s" is not longer than 0; omit retention to keep all entries',
    ),
    "window size of 0": (
        VALID + 'store = "window"\nwindow_size = "0h"',
        "line 7, [views.orders], window_size",
        '"0h" is not longer than 0; omit window_size for points in time',
    ),
    "retention": (VALID + 'retention = "7 days"', "line 6, [views.orders], retention", '"7d"'),
    "windows of several months": (
        VALID + 'store = "window"\nwindow_size = "3 months"',
        "line 7, [views.orders], window_size",
        '"3 months" is not a window of the calendar: use "1 day", "1 week", "1 month", "1 year"',
    ),
    "time zone": (
        VALID + 'store = "window"\nwindow_size = "1 month"\nwindow_zone = "Berlin"',
        "line 8, [views.orders], window_zone",
        '"Berlin" is not a time zone such as "Europe/Berlin"',
    ),
    "time zone without a calendar": (
        VALID + 'store = "window"\nwindow_size = "30d"\nwindow_zone = "Europe/Berlin"',
        "line 8, [views.orders], window_zone",
        'only with windows of the calendar: window_size = "1 month"',
    ),
    "window size of others": (
        VALID + 'window_size = "1h"',
        "line 6, [views.orders], window_size",
        'store = "window"',
    ),
    "custom store on disk": (
        VALID + 'store = "a.b:C"',
        "line 1, [views.orders], persistence",
        'persistence = "memory"',
    ),
    "custom store with retention": (
        VALID + 'store = "a.b:C"\npersistence = "memory"\nretention = "1d"',
        "line 8, [views.orders], retention",
        "rebuilt from the topic",
    ),
    "unknown field": (VALID + 'standby = "1"', "line 6, [views.orders], standby", "path"),
    "no topic": (with_line(2, ""), "line 1, [views.orders]", 'topic = "…"'),
    "no key": (with_line(4, ""), "line 1, [views.orders]", 'key = "…"'),
    "no value": (with_line(5, ""), "line 1, [views.orders]", 'value = "…"'),
    "number for text": (with_line(2, "topic = 7"), "line 2, [views.orders], topic", "not a string"),
    "key format": (with_line(4, 'key = "text"'), "line 4, [views.orders], key", "string, bytes"),
    "key of format none": (with_line(4, 'key = "none"'), "line 4, [views.orders], key", "int32"),
    "value format": (with_line(5, 'value = ""'), "line 5, [views.orders], value", "none"),
    "partitioner": (
        VALID + 'partitioner = "murmur3"',
        "line 6, [views.orders], partition",
        "crc32",
    ),
    "store": (VALID + 'store = "windows"', "line 6, [views.orders], store", "key-value"),
    "persistence": (VALID + 'persistence = "disk"', "line 6, [views.orders], persist", "rocksdb"),
    "topic's name": (
        with_line(2, 'topic = "a b"'),
        "line 2, [views.orders], topic",
        "not a valid topic name",
    ),
    "topic ..": (
        with_line(2, 'topic = ".."'),
        "line 2, [views.orders], topic",
        "not a valid topic name",
    ),
    "long topic": (with_line(2, f'topic = "{"a" * 250}"'), "line 2, [views.orders], topic", "name"),
    "path without /": (with_line(3, 'path = "orders"'), "line 3, [views.orders], path", '"/'),
    "path with / last": (with_line(3, 'path = "/a/"'), "line 3, [views.orders], path", '"/'),
    "path /": (with_line(3, 'path = "/"'), "line 3, [views.orders], path", '"/'),
    "path with ..": (with_line(3, 'path = "/a/.."'), "line 3, [views.orders], path", '"/'),
    "path with %": (with_line(3, 'path = "/a%2F"'), "line 3, [views.orders], path", "letters"),
    "path with a line": (with_line(3, 'path = "/a\\n"'), "line 3, [views.orders], path", "letters"),
    "same path": (second("b", "/orders"), "line 11, [views.b], path", "[views.orders]"),
    "path below": (second("b", "/orders/x"), "line 11, [views.b], path", "[views.orders]"),
    "path above": (
        second("b", "/a").replace('"/orders"', '"/a/x"'),
        "line 11, [views.b], path",
        "[views.orders]",
    ),
    "kafka is no table": ("kafka = 1\n" + VALID, "[kafka]", "a table"),
    "kafka's dotted name": (
        VALID + '[kafka]\nsasl.username = "a"',
        "line 7, [kafka], sasl",
        "quote the name",
    ),
    "kafka's brokers": (
        VALID + '[kafka]\n"bootstrap.servers" = "broker:9092"',
        "line 7, [kafka], bootstrap.servers",
        "set QUERYABLE_BOOTSTRAP_SERVERS or --bootstrap-servers instead",
    ),
    "kafka's brokers by their old name": (
        VALID + '[kafka]\n"metadata.broker.list" = "broker:9092"',
        "line 7, [kafka], metadata.broker.list",
        "set QUERYABLE_BOOTSTRAP_SERVERS or --bootstrap-servers instead",
    ),
    "kafka's group": (
        VALID + '[kafka]\n"group.id" = "mine"',
        "line 7, [kafka], group.id",
        "set QUERYABLE_APPLICATION_ID instead",
    ),
    "kafka's commits": (
        VALID + '[kafka]\n"enable.auto.commit" = true',
        "line 7, [kafka], enable.auto.commit",
        "remove it",
    ),
}


_AVRO = VALID.replace('"json"', '"avro"')
INVALID |= {
    "avro without a schema": (_AVRO, "line 5, [views.orders], value", "value_schema is missing"),
    "schema of no avro": (VALID + 'key_schema = "a"', "line 6, [views.orders], key_schema", "avro"),
    "schema file": (
        _AVRO + 'value_schema = "missing.avsc"',
        "line 6, [views.orders], value_schema",
        '"missing.avsc": cannot read',
    ),
    "schema that is none": (
        _AVRO + 'value_schema = "bad.avsc"',
        "line 6, [views.orders], value_schema",
        "not a supported Avro schema",
    ),
    "framed without a registry": (
        _AVRO + 'value_schema = "confluent"',
        "line 6, [views.orders], value_schema",
        "[schemas] is missing",
    ),
    "schemas is no table": ("schemas = 3\n" + VALID, "[schemas]", "registry ="),
    "empty schemas": (VALID + "[schemas]", "line 6, [schemas]", "registry ="),
    "registry and folder": (
        VALID + '[schemas]\nregistry = "http://a"\nfolder = "b"',
        "line 6, [schemas]",
        "exactly one of",
    ),
    "schemas' field": (VALID + '[schemas]\nurl = "http://a"', "line 7, [schemas], url", "folder ="),
    "registry's password": (
        VALID + '[schemas]\nregistry = "http://me:secret@a"',
        "line 7, [schemas], registry: a URL",
        "set user:password in QUERYABLE_SCHEMA_REGISTRY_AUTH",
    ),
    "registry's scheme": (VALID + '[schemas]\nregistry = "a:80"', "line 7, [schemas], reg", "URL"),
}


def _read(name: str) -> str:
    if name == "missing.avsc":
        raise ValueError("cannot read the file")
    return '{"type": "what"}' if name == "bad.avsc" else '{ "type": "long" }'


def test_avro_views() -> None:
    text = _AVRO.replace('key = "string"', 'key = "avro"\nkey_schema = "k.avsc"')
    framed = text + 'value_schema = "confluent"\n[schemas]\nregistry = "http://a:1/x/"'
    deployment = parse_views(framed, read=_read)
    assert (deployment.registry, deployment.schema_folder) == ("http://a:1/x", None)
    [view] = deployment.views
    assert (view.key_schema, view.value_schema) == ('{"type":"long"}', "confluent")
    assert isinstance(view.key_codec, ListedKeys)
    assert isinstance(view.value_codec, ConfluentCodec)
    description = view.description()
    assert description["key_schema"] == parsed('"long"').fingerprint
    assert description["value_schema"] == "confluent"
    bare = parse_views(text + 'value_schema = "v.avsc"\n', read=_read).views[0]
    assert bare.value_codec.to_json(b"\x02") == b"1"
    assert bare.hash != view.hash
    folder = parse_views(VALID + '[schemas]\nfolder = "schemas"')
    assert (folder.registry, folder.schema_folder) == (None, "schemas")


@pytest.mark.parametrize(("text", "where", "remedy"), INVALID.values(), ids=INVALID)
def test_an_invalid_file(text: str, where: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_views(text, "some/views.toml", _read)
    message = str(error.value)
    assert message.startswith("some/views.toml")
    assert where in message
    assert remedy in message


def test_a_description_is_one_line_and_no_part_of_the_definition() -> None:
    [plain] = parse_views(with_line(3, 'path = "/a"')).views
    [described] = parse_views(with_line(3, 'path = "/a"\ndescription = "Orders, by number"')).views
    assert (plain.meaning, described.meaning) == ("", "Orders, by number")
    assert plain.hash == described.hash
    for text in ("two\\nlines", "x" * 501):
        with pytest.raises(ConfigurationError, match=r"description.*one line of up to 500"):
            parse_views(with_line(3, f'description = "{text}"'))


@pytest.mark.parametrize("segment", sorted(RESERVED_SEGMENTS))
def test_a_reserved_path_is_refused(segment: str) -> None:
    for path in (f"/{segment}", f"/{segment}/x"):
        with pytest.raises(ConfigurationError, match=rf"line 3.*path.*/{segment} is reserved"):
            parse_views(with_line(3, f'path = "{path}"'))


def test_the_paths_of_all_routes_are_reserved() -> None:
    from tests.support.in_process.instance import context
    from tests.support.in_process.pages import flask_pages

    flask_app = flask_pages(context())
    segments = {rule.rule.split("/")[1] for rule in flask_app.url_map.iter_rules()} - {"static"}
    assert segments
    assert segments <= RESERVED_SEGMENTS


def test_paths_that_do_not_overlap() -> None:
    views = parse_views(second("b", "/orders2")).views
    assert [view.path for view in views] == ["/orders", "/orders2"]


@pytest.mark.parametrize("field", [field.name for field in fields(View) if field.compare])
def test_the_hash_depends_on_each_field_of_the_definition(field: str) -> None:
    assert ORDERS.hash == replace(ORDERS).hash == replace(ORDERS, schemas=NoSchemas()).hash
    assert replace(ORDERS, **{field: "other"}).hash != ORDERS.hash


def test_the_hash_does_not_change() -> None:
    """It is stored in every store partition, so another hash would rebuild all of them."""
    assert ORDERS.hash == "7d062347497a48e3"


def test_same_key() -> None:
    text = '[views.v]\ntopic = "{}"\nkey = "string"\nvalue = "json"\n{}'

    def declared(topic: str, more: str = "") -> View:
        [view] = parse_views(text.format(topic, more)).views
        return view

    changelog = declared("shop-v-changelog")
    assert (changelog.is_partial, declared("orders").is_partial) == (True, False)
    newest = declared("shop-v-changelog", 'same_key = "newest"')
    assert (newest.is_partial, newest.description()["same_key"]) == (False, "newest")
    assert declared("orders", 'same_key = "partial"').is_partial
    # an unset field is not part of the hash, so that existing stores are not rebuilt
    assert "same_key" not in changelog.description()
    assert changelog.hash != newest.hash
    with pytest.raises(ConfigurationError, match=r"line 5.*allowed: newest, partial"):
        declared("orders", 'same_key = "first"')


def test_views_that_spark_derives() -> None:
    text = '[views.{0}]\ntopic = "t"\nkey = "string"\nvalue = "json"\n{1}\n'
    lines = ('spark_view = "my_view.py"\npartitions = 12', 'spark_view = "a.b:VIEW"',
             'spark_view = "x/a b.py:OTHER"\npipeline = "mine"', "")  # fmt: skip
    views = parse_views("".join(text.format(f"v{n}", line) for n, line in enumerate(lines))).views
    assert [(view.spark_view, view.partitions, view.pipeline) for view in views] == [
        ("my_view.py", 12, "queryable-spark-v0"),
        ("a.b:VIEW", None, "queryable-spark-v1"),
        ("x/a b.py:OTHER", None, "mine"),
        (None, None, None),
    ]
    assert len({replace(view, name="v").hash for view in views}) == 1, "the data stay the same"
    for line, remedy in (
        ('spark_view = "my_view"', 'neither a Python file, such as "my_view.py", nor'),
        ("partitions = 3", "only with spark_view"),
        ('spark_view = "a.py"\npartitions = 0', "0 is not a number from 1 to 99999"),
        ('trigger = "real-time"', "only with spark_view"),
        ('spark_view = "a.py"\ntrigger = "realtime"', "realtime"),
        ('spark_view = "a.py"\npartitions = 1.5', "1.5 is not a string"),
    ):
        with pytest.raises(ConfigurationError, match=rf"views.toml, line \d.*{remedy}"):
            parse_views(text.format("v", line))


def test_deletions_in_values() -> None:
    entry = '[views.t]\ntopic = "t"\nkey = "string"\nvalue = "json"\n'
    plain, nulls, unwrapped = (
        parse_views(entry + line).views[0]
        for line in ("", "null_deletes = true", 'unwrap = "debezium"')
    )
    assert (nulls.null_deletes, unwrapped.unwrap) == (True, "debezium")
    assert parse_views(entry + "null_deletes = false").views == (plain,)
    # the stores must be rebuilt
    assert len({plain.hash, nulls.hash, unwrapped.hash}) == 3
    assert nulls.description()["null_deletes"] is True
    assert "null_deletes" not in plain.description()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ('value = "json"\nnull_deletes = "true"', "'true' is not true or false"),
        ('value = "json"\nunwrap = "maxwell"', 'unknown value "maxwell"; allowed: debezium'),
        ('value = "string"\nnull_deletes = true', 'only with value = "json" or "avro" or'),
        ('value = "bytes"\nunwrap = "debezium"', 'only with value = "json" or "avro" or'),
        ('value = "json"\nunwrap = "debezium"\nappend = "on"', "changes, not rows"),
        ('value = "json"\nunwrap = "debezium"\nnull_deletes = true', "omit it"),
        ('value = "json"\nnull_deletes = true\npush = "f"', "a push has rows"),
    ],
)
def test_rules_of_deletions_that_are_refused(lines: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_views(f'[views.t]\ntopic = "t"\nkey = "string"\n{lines}')
    assert reason in str(raised.value)
