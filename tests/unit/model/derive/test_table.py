"""Tables [views.NAME.derive]: what they say, their defaults, and errors with line and reason."""

from __future__ import annotations

import re

import pytest

from model.derive.derivation import Derivation, EventTime, Windows
from model.derive.reading import TableError
from model.derive.table import parse_derivation
from model.expressions.tree import Call, Field
from model.expressions.types import TIME, TIMESTAMP
from model.kinds.calendar_windows import CalendarWindows
from model.problems import ConfigurationError
from model.rows.reader import RowRule
from model.times import parse_time
from model.views import View
from model.views_file import parse_views

HEAD = """[views.hosts]
path = "/hosts"
[views.hosts.derive]
from = "weblog"
fields = { id = "string", client = "string", status = "int 100..599", size = "long?", at = "time" }
"""


def view(text: str, entry: str = "") -> View:
    """`entry`: a line of the entry, instead of its path."""
    [found] = parse_views(HEAD.replace('path = "/hosts"', entry) + text).views
    return found


def derivation(text: str) -> Derivation:
    found = view(text).derivation
    assert found is not None
    return found


def error(text: str, entry: str = "") -> str:
    with pytest.raises(ConfigurationError) as raised:
        view(text, entry)
    return str(raised.value)


def test_six_lines_are_a_view() -> None:
    text = """
[views.requests-of-hosts.derive]
from = "weblog"
fields = { client = "string" }
key = "client"
count = true
"""
    [found] = parse_views(text).views
    assert (found.topic, found.key, found.value) == ("requests-of-hosts", "string", "int64")
    assert found.pipeline == "queryable-spark-requests-of-hosts"
    assert found.store == "key-value"


def test_the_definition_of_a_view_does_not_depend_on_how_it_is_derived() -> None:
    plain = parse_views('[views.hosts]\ntopic="hosts"\nkey="string"\nvalue="int64"').views[0]
    found = view('key = "client"\ncount = true')
    assert found.hash == plain.hash
    assert found.derivation is not None


def test_points_in_time_are_windows_without_a_size() -> None:
    found = view('key = "client"\npoints = true\ntime = "at"')
    assert (found.store, found.window_size, found.kind.name) == ("window", None, "window")
    wrong = error('key = "client"\ncount = true\npoints = true', 'window_size = "1m"')
    assert "window_size: derive.points are points in time" in wrong


@pytest.mark.parametrize("days", [12, 30, 365, 3650])
def test_windows_of_many_days(days: int) -> None:
    windows = view(f'key = "client"\ncount = true\nwindow = "{days}d"')
    assert windows.window_size == days * 86_400_000


def test_settings_of_the_topic() -> None:
    plain = derivation('key = "client"\ncount = true')
    found = derivation(
        'key = "client"\ncount = true\n[views.hosts.derive.topic_config]\n'
        '"min.insync.replicas" = 2\nunclean.leader.election.enable = false\n'
        'compression.type = "zstd"\n"confluent.tier.enable" = "true"'
    )
    assert dict(found.topic_config) == {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "compression.type": "zstd",
        "confluent.tier.enable": "true",
    }
    assert found.written == plain.written, "an edit must not refuse the checkpoint"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            '"min.insync.replica" = 2',
            "is not a setting of topics in Kafka; did you mean min.i",
        ),
        ('"cleanup.policy" = "delete"', "follows from the view: set retention in its entry"),
        ('"replication.factor" = 3', "is not a setting of a topic: the brokers' default"),
        ('"segment.ms" = [1]', "[1] is not a text, a number, true or false"),
    ],
)
def test_settings_that_a_topic_cannot_have(setting: str, message: str) -> None:
    found = error(f'key = "client"\ncount = true\ntopic_config = {{ {setting} }}')
    assert message in found
    assert "topic_config" in found


def test_windows_of_the_calendar() -> None:
    windows = view('key = "client"\ncount = true\nwindow = "1 month"\nzone = "Europe/Berlin"')
    assert windows.derivation is not None
    assert windows.derivation.window == CalendarWindows("month", "Europe/Berlin")
    assert (windows.window_size, windows.calendar) == (None, windows.derivation.window)
    assert windows.window_end(parse_time("2026-02-28T23:00:00Z")) == parse_time(
        "2026-03-31T22:00:00Z"
    )
    assert derivation('key = "client"\ncount = true\nwindow = "1 week"').window == (
        CalendarWindows("week", "UTC")
    )


def test_windows_and_sessions_choose_the_store() -> None:
    windows = view('key = "client"\ncount = true\nwindow = "1m"\ntime = "at"')
    assert (windows.store, windows.window_size) == ("window", 60_000)
    assert windows.derivation is not None
    assert windows.derivation.window == Windows(60_000, 60_000)
    assert windows.derivation.time == EventTime(Field("at", TIME), None, 3600)
    sessions = view('key = "client"\ncount = true\nsession = "30m"')
    assert (sessions.store, sessions.window_size) == ("session", None)
    assert sessions.derivation is not None
    assert sessions.derivation.time == EventTime(Field("record_timestamp", TIMESTAMP), 0, 0)
    bounded = derivation('key = "client"\ncount = true\ntime = "at"\nlateness = "90s"')
    assert bounded.time == EventTime(Field("at", TIME), 90, 3600)
    hopping = derivation('key = "client"\ncount = true\nwindow = "1m"\nadvance = "10s"')
    assert hopping.window == Windows(60_000, 10_000)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("count = true", "int64"),
        ("count = { all = true }", "json"),
        ('count = "status >= 500"', "int64"),
        ('sum = "size"', "int64"),
        ('max = "size"', "json"),  # it may be null
        ('max = "status"', "int64"),
        ('min = "at"', "json"),
        ('max = "id"', "string"),
        ('avg = "status"', "float64"),
        ('distinct = "id"', "int64"),
        ('latest = "at"', "json"),
        ('latest = "at"\nselect = "id"', "string"),
        ('latest = "at"\nselect = ["id"]', "json"),
        ('top_k = { k = 3, by = "size" }', "json"),
        ('count = true\nsum = "size"', "json"),
    ],
)
def test_the_format_of_the_value_follows_the_aggregates(text: str, value: str) -> None:
    assert view(f'key = "client"\n{text}').value == value


@pytest.mark.parametrize(
    ("key", "formats"),
    [('"client"', "string"), ('"status"', "int64"), ('["client", "status"]', "string")],
)
def test_the_format_of_the_key_follows_its_type(key: str, formats: str) -> None:
    assert view(f"key = {key}\ncount = true").key == formats


def test_a_condition_makes_a_field_usable_as_key() -> None:
    line = 'key = "size"\ncount = true\n'
    assert "may be null" in error(line)
    assert derivation(f'{line}where = "size is not null"').key[0].type.optional is False
    assert derivation(f'{line}require = "status = 200 and size is not null"').require is not None
    assert derivation('key = "s"\ncount = true\nlet = { s = "size" }\nwhere = "size is not null"')
    assert "may be null" in error(f'{line}where = "size is not null or status = 200"')


def test_a_time_may_have_fields_that_where_says_are_not_null() -> None:
    time = 'time = "timestamp_seconds(unix_seconds(at) + mod(size, 60))"'
    line = f'key = "client"\ncount = true\n{time}\n'
    assert "time: may be null" in error(line)
    found = derivation(f'{line}where = "size is not null"')
    assert found.time is not None
    assert found.time.field is None


def test_text_has_one_field() -> None:
    text = """
[views.words.derive]
from = "texts"
each = { word = "regexp_extract_all(lower(text), '[a-z]+')" }
key = "word"
count = true
"""
    [found] = parse_views(text).views
    assert found.derivation is not None
    assert found.derivation.fields == ()
    name, of = found.derivation.each or ("", None)
    assert name == "word"
    assert isinstance(of, Call)
    assert of.function == "regexp_extract_all"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count = true", "line 3, [views.hosts.derive]: key is missing"),
        ('key = "client"\ncont = true', "line 7, [views.hosts.derive], cont: unknown key; did you"),
        ('key = "host"\ncount = true', "line 6, [views.hosts.derive], key: unknown field host; kn"),
        ('count = true\nkey = "at"', "line 7, [views.hosts.derive], key: \"at\" is a time; it mus"),
        ("key = []\ncount = true", "key: has 0 parts; it must have 1 to 8"),
        ("key = 5\ncount = true", "key: 5 is not text"),
        ('key = "client"\ncount = "client"', "line 7, [views.hosts.derive], count: \"client\" is "),
        ('key = "client"\ncount = false', "count: False is not true or a condition"),
        ('key = "client"\nsum = "client"', 'sum: "client" is a string; it must be a whole number '),
        ('key = "client"\nsum = 5', "sum: 5 is not an expression"),
        ('key = "client"\n\n[views.hosts.derive.sum]\nx = "size"\ny = "id"',
         "line 10, [views.hosts.derive], sum.y: \"id\" is a string"),
        ('key = "client"\nmin = { a = "size" }\nmax = { A = "size" }', "max: A is also the name o"),
        ('key = "client"\nmin = { a = "size", A = "size" }', "min.A: differs from a only in case"),
        ('key = "client"\nmax = { "a b" = "size" }', 'max.a b: "a b" is not a name'),
        ('key = "client"\ntop_k = 3', "top_k: must be a table"),
        ('key = "client"\ntop_k = { k = 101, by = "size" }', "top_k.k: 101 is not a whole number "),
        ('key = "client"\ntop_k = { k = 1, by = "size", n = 1 }', "top_k.n: unknown key"),
        ('key = "client"\ncount = true\nselect = "id"', "select: only with latest or top_k, or"),
        ('key = "client"\nlatest = "at"\nselect = ["nothing"]', "select.nothing: unknown field"),
        ('key = "client"\nlatest = "at"\nselect = [1]', "select: must be a list of different name"),
        ('key = "client"\ncount = true\nwindow = "1 minute"', 'window: "1 minute" is not a valid '),
        (
            'key = "client"\ncount = true\nwindow = "2 months"',
            'window: "2 months" is not a window of',
        ),
        (
            'key = "client"\ncount = true\nwindow = "1 day"\nzone = "Berlin"',
            'zone: "Berlin" is not a time zone such as "Europe/Berlin"',
        ),
        (
            'key = "client"\ncount = true\nwindow = "1d"\nzone = "Europe/Berlin"',
            'zone: only with windows of the calendar: write window = "1 day", not "24h"',
        ),
        ('key = "client"\ncount = true\nzone = "UTC"', "zone: only with window"),
        (
            'key = "client"\ncount = true\nwindow = "1 week"\nadvance = "1d"',
            "advance: not with windows of the calendar: one week begins where the last one ends",
        ),
        ('key = "client"\ncount = true\nwindow = "0s"', 'window: "0s" is not between 1 ms and'),
        ('key = "client"\ncount = true\nadvance = "1s"', "advance: only with window"),
        ('key = "client"\ncount = true\nwindow = "1m"\nadvance = "2m"', "advance: must be at most"),
        ('key = "client"\ncount = true\nwindow = "1h"\nadvance = "1s"', "advance: must be at most"),
        ('key = "client"\ncount = true\nwindow = "1m"\nsession = "1m"', "session: a view has wind"),
        ('key = "client"\nlatest = "at"\nsession = "1m"', "latest: not with session, which allows"),
        ('key = "client"\nmax = "id"\nsession = "1m"', "max: with session, it must aggregate a"),
        ('key = "client"\ncount = true\ntime = "id"', 'time: "id" is a string; it must be a time'),
        ('key = "client"\ncount = true\nlateness = "1h"', "lateness: only with time"),
        ('key = "client"\ncount = true\ntime = "at"\nlateness = "1500ms"', "lateness: must be who"),
        ('key = "client"\ncount = true\ntime = "record_timestamp"\nearliness = "1s"', "earliness:"),
        ('key = "client"\ncount = true\nidentity = ["id"]', "identity: must have client, which th"),
        ('key = "client"\ncount = true\nidentity = ["id", "client"]\ntime = "at"', "identity: mus"),
        ('key = "client"\ncount = true\npoints = 1', "points: must be true"),
        ('key = "client"\ncount = true\npoints = true\nwindow = "1m"', "points: a view has points"),
        ('key = "client"\ncount = true\ntime = "timestamp_seconds(size)"', "time: may be null"),
        ('key = "id"\ncount = true\ntime = "coalesce(at, at)"\nidentity = ["id"]', "identity: m"),
        ('key = "client"\ncount = true\nidentity = ["no"]', "identity: no is not a field"),
        ('key = "client"\ncount = true\nidentity = "id"', "identity: must be a list of different "),
        ('key = "client"\ncount = true\nseparator = "/"', "separator: only for a key of several p"),
        ('key = ["id", "client"]\ncount = true\nseparator = "a"', "separator: 'a' is not a char"),
        ('key = "client"\ncount = true\nwhere = "status"', 'where: "status" is a whole number; '),
        ('key = "client"\ncount = true\nrequire = "x"', "require: unknown field x"),
        ('key = "client"\ncount = true\neach = { id = "id" }', "each.id: is already the name of a"),
        ('key = "client"\ncount = true\neach = { x = "id" }', 'each.x: "id" is a string; it must '),
        ('key = "client"\ncount = true\nlet = { client = "id" }', "let.client: is already the nam"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_line_and_the_reason(text: str, message: str) -> None:
    assert message in error(text)


JOIN = """
[views.hosts.derive.join.city]
from = "cities"
on = "client"
fields = { name = "string", size = "int" }
static = true
"""


def test_a_join_adds_fields_that_may_be_null() -> None:
    lines = 'count = "city.size > 5"\nmax = "size_of"\nlet = { size_of = "city.size" }'
    found = derivation(f'key = "client"\n{lines}{JOIN}')
    [join] = found.joins
    assert (join.name, join.source) == ("city", "cities")
    assert found.aggregates[1].type.optional
    key = 'where = "city.name is not null"\nkey = "city.name"\ncount = true'
    assert not derivation(key + JOIN).key[0].type.optional


@pytest.mark.parametrize(
    ("text", "join", "message"),
    [
        ('key = "city.name"', JOIN, 'key: "city.name" may be null'),
        ('key = "city.mayor"', JOIN, "key: unknown field city.mayor; known: id, client,"),
        ('key = ["id", "coalesce(city.name, id)"]', JOIN, "key: a key of several parts cannot h"),
        ('key = "id"\nrequire = "city.size = 1"', JOIN, "require: require cannot have city"),
        ('key = "id"', JOIN.replace("cities", "weblog"), "line 9, [views.hosts.derive], join.city"),
        ('key = "id"', JOIN.replace("city", "id"), "join.id: is already the name of a field"),
        ('key = "id"', JOIN.replace('"client"', '"size is null"'), 'join.city.on: "size is null"'),
        ('key = "id"', JOIN.replace("on", "om"), "line 10, [views.hosts.derive], join.city.om: u"),
        ('key = "id"', JOIN.replace('on = "client"', ""), "join.city: on is missing"),
        ('key = "id"', "\njoin = 5", "join: must be a table"),
        ('key = "id"\nidentity = ["id"]', JOIN, "identity: must have client, which the"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_join(text: str, join: str, message: str) -> None:
    assert message in error(f"{text}\ncount = true{join}")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("5", "fields: must be a table"),
        ("{}", "fields: must be a table"),
        ('{ a = "integer" }', 'fields.a: "integer" is not a type; write "int"; use string'),
        ('{ a = "int 5..1" }', "fields.a: 5..1 is not a range of int"),
        ('{ a = "int 0..3000000000" }', "is not a range of int"),
        ('{ a = "string 1..2" }', "only int, long and decimal have a range"),
        ('{ a = "time ms 1..2" }', "only int, long and decimal have a range"),
        ('{ a = "long ms" }', "only time has a unit"),
        ('{ a = "time min" }', '"time min" is not a type; use string, any, int,'),
        ('{ a = "decimal(15)" }', "a decimal has 1 to 14 digits after the point, not 15"),
        ('{ record_key = "string" }', "fields.record_key: is already the name of a field"),
        ('{ a = "int", A = "int" }', "fields.A: differs from a only in case"),
        ('{ "a-b" = "int" }', 'fields.a-b: "a-b" is not a name'),
        ('{ a = "double" }\nsum = "a"', "sum: the sum of doubles depends on their order"),
    ],
)
def test_fields(fields: str, message: str) -> None:
    text = f'[views.x.derive]\nfrom = "t"\nkey = "record_offset"\ncount = true\nfields = {fields}'
    with pytest.raises(ConfigurationError) as raised:
        parse_views(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("entry", "text", "message"),
    [
        ('spark_view = "a.py"', "count = true", "spark_view: a view has spark_view or derive"),
        ('topic = "weblog"', "count = true", "topic: the view is derived from the same topic"),
        (
            'topic = "cities"',
            f"count = true{JOIN}",
            "topic: the view is derived from the same topic",
        ),
        ('key = "int64"', "count = true", 'key: "int64" does not fit derive.key; allowed: string'),
        (
            'value = "string"',
            "count = true",
            'value: "string" does not fit derive; allowed: json, int',
        ),
        ('value = "int64"', 'max = "size"', "value: the value may be null"),
        (
            'store = "session"',
            'window = "1m"\ncount = true',
            'store: "session" does not fit derive',
        ),
        (
            'store = "versioned"',
            "count = true",
            'store: "versioned" does not fit derive; allowed: key',
        ),
        ('store = "window"', "count = true", 'store: "window" does not fit derive'),
        (
            'window_size = "5m"',
            'window = "1m"\ncount = true',
            "window_size: differs from the size in",
        ),
        (
            'window_size = "5m"',
            'window = "30d"\ncount = true',
            "window_size: differs from the size in derive.window (30d)",
        ),
        (
            'window_zone = "Asia/Tokyo"',
            'window = "1 month"\ncount = true',
            "window_zone: differs from derive.zone (UTC)",
        ),
        (
            'window_key = "topic"',
            'window = "1m"\ncount = true',
            "window_key: Spark writes keys of windo",
        ),
        ('partitioner = "crc32"', "count = true", "partitioner: Spark partitions the topics"),
        (
            'append = "on"',
            "count = true",
            "append: a topic that Spark derives has no other producers",
        ),
    ],
)
def test_an_entry_that_contradicts_what_is_derived(entry: str, text: str, message: str) -> None:
    found = error(f'key = "client"\n{text}', entry)
    assert message in found
    assert "line 2, " in found


def test_derive_must_be_a_table() -> None:
    with pytest.raises(ConfigurationError, match=r"line 2, \[views.x.derive\]: must be a table"):
        parse_views("[views.x]\nderive = 5")


def test_a_later_version_has_a_topic_of_its_own() -> None:
    derive = '{ from = "texts", key = "text", count = true }'
    views = parse_views(f'[views.words]\nderive = {derive}\n[views."words@2"]\nderive = {derive}\n')
    assert [view.topic for view in views.views] == ["words", "words-v2"]
    assert [view.pipeline for view in views.views] == [
        "queryable-spark-words",
        "queryable-spark-words@2",
    ]


def test_rows_of_changes() -> None:
    assert derivation('key = "client"\ncount = true').rows is None
    assert derivation('key = "client"\ncount = true\nunwrap = "debezium"').rows == RowRule(
        "debezium"
    )
    text = 'key = "client"\ncount = true\njoin.c = { from = "c", static = true, on = "client", '
    found = derivation(text + 'fields = { name = "string" }, null_deletes = true }')
    assert [join.rows for join in found.joins] == [RowRule(null_deletes=True)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('unwrap = "maxwell"', "unknown value 'maxwell'; allowed: \"debezium\""),
        ('null_deletes = "yes"', "'yes' is not true or false"),
        ('unwrap = "debezium"\nnull_deletes = true', "omit it"),
        ('unwrap = "debezium"\nlatest = "at"', "keep rows that were deleted"),
        ('null_deletes = true\nlatest = "at"', "Declare a view of the topic itself"),
    ],
)
def test_rules_of_rows_that_are_refused(line: str, reason: str) -> None:
    assert reason in error(
        f'key = "client"\n{line}' + ("" if "latest" in line else "\ncount = true")
    )


def test_each_of_a_list_of_objects() -> None:
    items = {"type": "objects?", "fields": {"sku": "string", "qty": "int?"}, "path": "after.lines"}
    table = {
        "from": "t",
        "fields": {"items": items},
        "each": {"item": "items"},
        "key": "item.sku",
        "sum": "item.qty",
    }
    found = parse_derivation(table)
    assert found.paths == (("items", ("after", "lines")),)
    assert found.repeated_fields == {"item.sku", "item.qty"}
    for changed, reason in (
        ({"key": "item"}, "unknown field item"),
        ({"key": "item.sku", "latest": "item.qty"}, "a list of objects cannot be selected"),
        ({"fields": {"items": "objects"}}, "needs the fields of an object: items = {"),
        ({"fields": {"items": {"fields": {"x": "strings"}}}}, 'a type such as "string"'),
        ({"time": "timestamp_seconds(item.qty)"}, "may be null"),
        (
            {
                "fields": {"items": {"fields": {"sku": "string", "at": "time?"}}},
                "join": {"p": {"from": "p", "on": "record_key", "fields": {"x": "string"}}},
                "sum": None,
                "select": "item.at",
            },
            "item.at cannot be a time",
        ),
    ):
        given = {key: value for key, value in {**table, **changed}.items() if value is not None}
        with pytest.raises(TableError, match=re.escape(reason)):
            parse_derivation(given)
