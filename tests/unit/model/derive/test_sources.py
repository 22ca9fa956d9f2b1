"""[sources.NAME]: what several views say about a topic, said once."""

from __future__ import annotations

import pytest

from model.derive.derivation import Derivation
from model.problems import ConfigurationError
from model.views_file import parse_views

SOURCES = """\
[sources.orders]
topic = "shop.orders"
fields = { id = "string", customer = "string", at = "time", size = "int" }
time = "at"
lateness = "1d"
earliness = "1m"
[sources.customers]
kind = "table"
null_deletes = true
fields = { name = "string" }
[sources.texts]
format = "text"
"""
COUNT = '[views.x.derive]\nfrom = "{}"\nkey = "customer"\nwindow = "1h"\ncount = true\n'


def derivations(text: str) -> list[Derivation]:
    found = [view.derivation for view in parse_views(text).views]
    return [each for each in found if each is not None]


def derivation(text: str) -> Derivation:
    [found] = derivations(text)
    return found


def error(text: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        parse_views(text)
    return str(raised.value)


def test_a_view_of_a_source_is_the_view_with_its_keys() -> None:
    """Also for its checkpoint, so a table can be moved to a source."""
    inline = COUNT.format("shop.orders") + SOURCES.split("[sources.customers]")[0].replace(
        '[sources.orders]\ntopic = "shop.orders"\n', ""
    )
    named = derivation(SOURCES + COUNT.format("orders"))
    assert named == derivation(inline)
    assert named.written == derivation(inline).written
    assert named.source == "shop.orders"
    assert named.time is not None
    assert (named.time.before_s, named.time.after_s) == (86_400, 60)


def test_a_table_is_said_once() -> None:
    text = '[views.x.derive]\nfrom = "customers"\nkey = "record_key"\nselect = "name"\n'
    found = derivation(SOURCES + text)
    assert found.is_table
    assert found.rows is not None
    assert found.rows.null_deletes
    assert (
        found.written
        == derivation(
            '[views.x.derive]\nfrom = "customers"\nkey = "record_key"\nselect = "name"\n'
            'kind = "table"\nnull_deletes = true\nfields = { name = "string" }\n'
        ).written
    )


def test_a_join_names_a_source() -> None:
    text = (
        '[views.x.derive]\nfrom = "orders"\nkey = "coalesce(c.name, \'\')"\ncount = true\n'
        'join.c = { from = "customers", on = "customer", static = true }\n'
    )
    [join] = derivation(SOURCES + text).joins
    assert (join.source, [name for name, _ in join.fields]) == ("customers", ["name"])
    assert join.rows is not None
    wrong = error(SOURCES.replace('kind = "table"\n', "") + text)
    assert "join.c.from: customers is a stream, and a join reads the newest record" in wrong
    assert 'kind = "table" in [sources.customers]' in wrong


def test_a_join_of_two_streams_names_a_stream() -> None:
    text = (
        '[views.x.derive]\nfrom = "clicks"\nfields = { by = "string", page = "string" }\n'
        "key = \"concat(page, '-', o.id)\"\n"
        'join.o = { from = "orders", on = "by", key = "customer", within = "1h" }\n'
    )
    join = derivation(SOURCES + text).pairs
    assert join is not None
    assert join.source == "shop.orders"
    assert join.stream is not None
    assert join.stream.time is not None
    assert (join.stream.time.field, join.stream.time.before_s) == ("at", 86_400)
    wrong = error(SOURCES + text.replace('from = "orders"', 'from = "customers"'))
    assert "join.o.within: only for two streams, and customers is a table: omit within" in wrong


def test_texts_and_topics_without_a_source() -> None:
    text = '[views.{0}.derive]\nfrom = "{0}s"\nkey = "text"\ncount = true\n'
    named, topic = derivations(SOURCES + text.format("text") + text.format("word"))
    assert (named.source, named.fields) == ("texts", ())
    assert topic.source == "words"


def test_a_view_may_have_a_time_of_its_own() -> None:
    found = derivation(SOURCES + COUNT.format("orders") + 'time = "record_timestamp"\n')
    assert found.time is not None
    assert (found.time.field, found.time.before_s) == ("record_timestamp", 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[sources.a]\nfield = "x"', "line 2, [sources.a], field: unknown key; did you mean fiel"),
        ("[sources]\na = 5", "[sources.a]: must be a table"),
        ("sources = 5", "must be tables"),
        ("[sources.a]", "line 1, [sources.a]: fields is missing"),
        ('[sources."a b"]\nformat = "text"', '"a b" is not a valid topic name'),
        ('[sources.a]\ntopic = 5\nformat = "text"', "topic: 5 is not text"),
        ('[sources.a]\nformat = "csv"', "format: 'csv' is not a format of values"),
        ('[sources.a]\nformat = "text"\nunwrap = "debezium"', 'unwrap: only with fields'),
        ('[sources.a]\nfields = { a = "strin" }', "line 2, [sources.a], fields.a: \"strin\" is"),
        ('[sources.a]\nfields = { a = "int" }\ntime = "a"', "line 3, [sources.a], time: \"a\" is"),
        ('[sources.a]\nfields = { a = "int" }\nkind = "log"', "kind: 'log' is not a kind of topic"),
        ('[sources.a]\nformat = "text"\nkind = "table"\ntime = "record_timestamp"',
         'time: not with kind = "table"'),
    ],
)  # fmt: skip
def test_mistakes_in_a_source(text: str, message: str) -> None:
    assert message in error(f"{text}\n[views.x]\ntopic = 'x'\nkey = 'string'\nvalue = 'json'\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "table"', "[views.x.derive], kind: [sources.orders] says what its records are"),
        ('fields = { a = "int" }', "fields: [sources.orders] says what its records are"),
        ("null_deletes = true", 'or the name of the topic in from, such as "shop.orders"'),
        ('identity = ["id"]', "identity: must have at"),
        ("lateness = '1h'", "lateness: only with time"),
    ],
)
def test_a_view_does_not_say_it_again(text: str, message: str) -> None:
    assert message in error(SOURCES + COUNT.format("orders") + text)


def test_what_a_view_cannot_do_with_its_source_has_the_line_of_the_source() -> None:
    text = '[views.x.derive]\nfrom = "orders"\nkey = "customer"\nlatest = "at"\n'
    wrong = error(SOURCES.replace('time = "at"', 'unwrap = "debezium"\ntime = "at"') + text)
    assert "line 4, [sources.orders], unwrap: not with latest" in wrong
