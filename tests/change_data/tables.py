"""The tables, and what a view has of each column, as an SQL expression that PostgreSQL computes.

The names of Debezium's types and their units are from its documentation of the connector for
PostgreSQL, "Data type mappings".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bench.references.postgres import Postgres
from tests.change_data.variants import Format, Variant

# Connect writes the unscaled number as bytes: two's complement, big-endian, as short as possible.
FUNCTIONS = """
create schema test;
create function test.base64(n numeric, scale int) returns text language sql immutable as $$
    select encode(substring(int8send(u::bigint) from 9 - (
        select min(size) from generate_series(1, 8) size
        where u >= -(2::numeric ^ (8 * size - 1)) and u < 2::numeric ^ (8 * size - 1)
    )), 'base64') from (select n * 10::numeric ^ scale as u) unscaled
$$;
"""


@dataclass(frozen=True, slots=True)
class Column:
    """`values`: SQL literals, a row each. The expressions have `{}` for the column."""

    name: str
    type: str
    values: tuple[str, str]
    json: str = "{}"
    avro: str = ""
    """Like `json` if it is empty."""

    text: str = ""
    """With the handling modes that the docs recommend, as JSON; like `json` if it is empty."""

    avro_text: str = ""
    """The same as Avro; like `text` if it is empty, or else like `avro`."""

    def expression(self, variant: Variant) -> str:
        is_avro = variant.format is Format.AVRO
        by_default = (is_avro and self.avro) or self.json
        if not variant.is_text:
            return by_default.format(self.name)
        return ((is_avro and self.avro_text) or self.text or by_default).format(self.name)


_UTC = """to_char({} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
_TEXT = """to_char({}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
_MICROSECONDS = "(extract(epoch from {}) * 1000000)::bigint"
_MILLISECONDS = "floor(extract(epoch from {}) * 1000)::bigint"
_BASE64URL = "rtrim(translate({}, '+/', '-_'), '=')"
_DIGITS = "test.base64({0}, scale({0}))"
_VARIABLE = (
    "case when {{0}} is not null then json_build_object('scale', scale({{0}}), 'value', {}) end"
)
_DAYS = (
    "case when {0} is not null then (select coalesce(json_agg(each - date '1970-01-01'), '[]') "
    "from unnest({0}) each) end"
)
_SPAN = (
    "case when {0} is not null then format('P%sY%sM%sDT%sH%sM%sS', "
    "extract(year from {0}), extract(month from {0}), extract(day from {0}), "
    "extract(hour from {0}), extract(minute from {0}), trim_scale(extract(second from {0}))) end"
)
COLUMNS = (
    Column("name", "text", ("'a'", "E'ü \\\\ \"q\"\\n€ 😀'")),
    Column("small", "smallint", ("1", "-32768")),
    Column("big", "bigint", ("9007199254740993", "-9223372036854775808")),
    Column("ok", "boolean", ("true", "false")),
    Column("single", "real", ("1.5", "-0.25")),
    Column("double", "double precision", ("0.1", "1e300")),
    Column(
        "price", "numeric(10,2)", ("12.50", "-0.01"),
        "test.base64({}, 2)", avro="{}::text", text="{}::text",
    ),
    Column(
        "free", "numeric", ("3.14159", "-1200"), _VARIABLE.format(_DIGITS),
        avro=_VARIABLE.format(_BASE64URL.format(_DIGITS)), text="{}::text",
    ),
    Column(
        "cash", "money", ("12.50", "-3.25"),
        "test.base64({}::numeric, 2)", avro="{}::numeric::text",
        text="trim_scale({}::numeric)::text",
    ),
    Column("uid", "uuid", ("'6F9619FF-8B86-D011-B42D-00CF4FC964FF'", "gen_random_uuid()")),
    Column("mood", "mood", ("'ok'", "'very happy'")),
    Column(
        "zoned", "timestamptz",
        ("'2026-11-29 10:00:00.123456+02'", "'1969-12-31 23:59:59+00'"), _UTC,
    ),
    Column(
        "local", "timestamp", ("'2026-11-29 10:00:00.123456'", "'1969-12-31 23:59:59.5'"),
        _MICROSECONDS, text=_MILLISECONDS, avro_text=_TEXT,
    ),
    Column(
        "local3", "timestamp(3)", ("'2026-11-29 10:00:00.5'", "'1969-12-31 23:59:59.5'"),
        _MILLISECONDS, avro_text=_TEXT,
    ),
    Column(
        "day", "date", ("'2026-11-29'", "'1969-12-31'"),
        "{} - date '1970-01-01'", avro_text="{}",
    ),
    Column(
        "clock", "time", ("'10:00:00.123456'", "'00:00'"), _MICROSECONDS, text=_MILLISECONDS,
        avro_text="to_char({}, 'HH24:MI:SS.MS')",
    ),
    Column(
        "clocktz", "timetz", ("'10:00+02'", "'23:59:59+00'"),
        """to_char(({} at time zone 'UTC')::time, 'HH24:MI:SS"Z"')""",
    ),
    Column(
        "span", "interval", ("'1 day 02:03:04'", "'-5 seconds'"), _MICROSECONDS, text=_SPAN,
    ),
    Column("doc", "jsonb", ("'{\"b\": [1, 2.50], \"a\": \"ü\"}'", "'null'"), "{}::text"),
    Column("doc_text", "json", ("'{\"b\" : 1}'", "'[]'"), "{}::text"),
    Column("numbers", "int[]", ("'{1,NULL,3}'", "'{}'")),
    Column("texts", "text[]", ("'{a,\"b c\"}'", "'{NULL}'")),
    Column("uids", "uuid[]", ("array[gen_random_uuid()]", "'{}'")),
    Column("days", "date[]", ("'{2026-11-29}'", "'{}'"), _DAYS, avro_text="{}"),
    Column(
        "blob", "bytea", ("'\\xdeadbeef00'", "''"),
        "encode({}, 'base64')", avro=_BASE64URL.format("encode({}, 'base64')"),
        text="encode({}, 'hex')",
    ),
    Column("flag", "bit(1)", ("B'1'", "B'0'"), "{}::int = 1"),
    Column("address", "inet", ("'10.0.0.1'", "'::1'"), "host({})"),
    Column("span_of", "int4range", ("'[1,5)'", "'empty'"), "{}::text"),
)  # fmt: skip

_NAMES = ", ".join(column.name for column in COLUMNS)
CREATE = f"""
{FUNCTIONS}
create type mood as enum ('sad', 'ok', 'very happy');
create table types (id int primary key, {", ".join(f"{c.name} {c.type}" for c in COLUMNS)});
insert into types values {
    ", ".join(f"({row + 1}, {', '.join(c.values[row] for c in COLUMNS)})" for row in range(2))
};
insert into types (id) values (3);
create table lines (order_id int, product uuid, amount int, primary key (order_id, product));
insert into lines select n, gen_random_uuid(), n from generate_series(1, 20) n;
create table codes (code text primary key, n bigint);
insert into codes values ('a', 1), ('a b', 2), ('ü/€', 3), ('"q"', 4), ('a,b', 5), ('17', 6);
create table documents (id bigint primary key, n int, body text);
create table archives (id bigint primary key, n int, body text);
alter table documents alter body set storage external;
alter table archives alter body set storage external, replica identity full;
insert into documents values (1, 1, repeat('x', 9000)), (2, 1, repeat('y', 9000));
insert into archives select * from documents;
create table counters (id int primary key, n int);
insert into counters values (1, 0);
insert into types (id) values (99);
insert into lines values (99, '6f9619ff-8b86-d011-b42d-00cf4fc964ff', 99);
insert into codes values ('deleted', 99);
insert into documents values (99);
insert into archives values (99);
insert into counters values (99);
"""
# `init` sees a deletion of each table, and a value that PostgreSQL has left out
CHANGE = """
update documents set n = 2 where id = 1;
delete from types where id = 99;
delete from lines where order_id = 99;
delete from codes where code = 'deleted';
delete from documents where id = 99;
delete from archives where id = 99;
delete from counters where id = 99;
"""
KEYS = {
    "types": ("id",),
    "lines": ("order_id", "product"),
    "codes": ("code",),
    "documents": ("id",),
    "archives": ("id",),
    "counters": ("id",),
}
"""The columns of the primary key, by table."""


def rows(server: Postgres, table: str, variant: Variant) -> dict[str, dict[str, Any]]:
    """The rows as a view should have them, by the text of their keys."""
    columns = "*"
    if table == "types":
        columns = ", ".join(["id", *(f"{c.expression(variant)} as {c.name}" for c in COLUMNS)])
    found = server.rows(f"select {columns} from {table}")
    return {",".join(_text(row[name]) for name in KEYS[table]): row for row in found}


def _text(value: object) -> str:
    """The text of a field in a key. One that begins with a quote is a JSON string."""
    text = str(value)
    return json.dumps(text) if text.startswith('"') else text
