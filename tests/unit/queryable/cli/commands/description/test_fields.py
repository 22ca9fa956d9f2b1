"""`queryable fields`: the table on stdout, and what the sample says about a declaration."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from queryable.cli.exit_codes import NOT_FOUND, SUCCESS, USAGE_ERROR
from tests.support.clients.scripted_transport import ORDERS
from tests.support.in_process.avro_examples import registry
from tests.unit.queryable.cli.commands.running import run
from tests.unit.queryable.client.fake_server import RequestHandler, Server, serving


@contextmanager
def view_with(*values: Any, **description: Any) -> Iterator[Server]:
    """A server of the view `late`. Values that are dictionaries with `unreadable` are."""
    view = {**ORDERS, "name": "late", **description}
    items = [
        {"key": f"k{n}", **(v if isinstance(v, dict) and "unreadable" in v else {"value": v})}
        for n, v in enumerate(values)
    ]

    def answer(request: RequestHandler) -> None:
        is_view = request.path.partition("@")[0] == "/views/late"
        request.respond(200, view if is_view else {"items": items, "next": None})

    with serving(answer) as server:
        yield server


def test_the_table_can_be_added_to_the_file() -> None:
    with view_with({"delay": 5, "crew": {"captain": "A"}}, {"delay": None}) as server:
        done = run(server.url, "fields", "late", "--sample", "7", "--where", "key <> 'a b'")
        target = urlsplit(server.paths[-1])
    assert (done.exit_code, done.stderr) == (SUCCESS, "")
    assert tomllib.loads(done.stdout)["views"] == {
        "late": {"fields": {"delay": "int?", "crew.captain": "string?"}}
    }
    assert target.path == "/views/late/keys"
    asked = parse_qs(target.query)
    assert (asked["limit"], asked["where"]) == (["7"], ["key <> 'a b'"])


@pytest.mark.parametrize(("store", "path"), [("window", "windows"), ("session", "sessions")])
def test_windows_and_sessions_are_sampled(store: str, path: str) -> None:
    with view_with(store=store, name="late") as server:
        done = run(server.url, "fields", "late")
        assert server.paths[-1].startswith(f"/views/late/{path}?")
    assert (done.exit_code, done.stdout) == (NOT_FOUND, "")
    assert done.stderr == "no values found in view late\n"


@pytest.mark.parametrize(("version", "entry"), [(None, "late"), (1, "late"), (2, "late@2")])
def test_the_table_has_the_name_of_the_version_in_the_file(version: int | None, entry: str) -> None:
    with view_with({"n": 1}, version=version) as server:
        done = run(server.url, "fields", "late")
    assert list(tomllib.loads(done.stdout)["views"]) == [entry]


def test_json_has_a_row_for_each_field() -> None:
    with view_with({"delay": 5, "tags": [1.5]}, {"delay": None}) as server:
        done = run(server.url, "fields", "late", "--json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"name": "delay", "type": "int?", "values": 1, "example": "5"},
        {"name": "tags", "type": None, "values": 1, "example": '[1.5]',
         "note": "list, which has no type here"},
    ]  # fmt: skip


def test_it_is_a_check_of_a_declaration() -> None:
    declared = {"delay": "int", "dest": "string"}
    with view_with({"delay": 5, "dest": "A"}, {"delay": None, "dest": "B"}, fields=declared) as s:
        done = run(s.url, "fields", "late")
    assert done.exit_code == NOT_FOUND
    difference = 'declared as "int", but 1 of 2 values are missing or null'
    assert done.stderr == f"delay: {difference}\n"
    assert done.stdout.splitlines()[1:] == [
        "[views.late.fields]", f'delay = "int?"  # {difference}', 'dest = "string"',
    ]  # fmt: skip
    with view_with({"delay": 5, "dest": "A"}, fields=declared) as server:
        done = run(server.url, "fields", "late")
    assert (done.exit_code, done.stderr) == (SUCCESS, "")


def test_a_type_of_a_newer_version_is_named() -> None:
    with view_with({"tags": [1.5]}, fields={"tags": "vector?"}) as server:
        done = run(server.url, "fields", "late")
    assert done.exit_code == USAGE_ERROR
    assert "the field tags of view late" in done.stderr
    assert "Use the queryable of its version." in done.stderr


def test_values_without_fields_are_refused() -> None:
    with view_with(7, 8, value="int64") as server:
        done = run(server.url, "fields", "late")
    assert (done.exit_code, done.stdout) == (USAGE_ERROR, "")
    assert "are not JSON objects (they are int64)" in done.stderr


def test_a_view_of_which_no_field_can_be_declared() -> None:
    with view_with({"tags": [1.5]}) as server:
        done = run(server.url, "fields", "late")
    assert done.exit_code == NOT_FOUND
    assert all(line.startswith("#") for line in done.stdout.splitlines())
    assert done.stderr == "view late has no field that can be declared\n"


def test_unreadable_values_are_counted_and_not_sampled() -> None:
    unreadable = {"unreadable": {"reason": "not JSON", "value": "AA", "offset": 1, "partition": 0}}
    with view_with({"n": 1}, unreadable) as server:
        done = run(server.url, "fields", "late")
    assert "# a sample of 1 value\n" in done.stdout
    assert done.stderr.startswith("1 value is not in the view's format")


def test_the_view_says_what_declares_its_fields() -> None:
    more = {"fields": {"n": "long", "a.b": "int 0..9", "s": "string"},
            "declared_by": {"n": "schema", "s": "derive"}}  # fmt: skip
    with view_with({"n": "5", "a": {"b": 1}, "s": "7"}, value="avro", **more) as server:
        done = run(server.url, "fields", "late")
    assert (done.exit_code, done.stderr) == (SUCCESS, "")
    assert done.stdout.splitlines()[1:] == [
        "[views.late.fields]", '# n: "long" by the schema', '"a.b" = "int 0..9"',
        '# s: "string" by derive',
    ]  # fmt: skip
    newer = {"fields": {"n": "vector"}, "declared_by": {"n": "schema"}}
    with view_with({"n": 1}, **newer) as server:
        done = run(server.url, "fields", "late")
    assert (done.exit_code, "the field n of view late" in done.stderr) == (USAGE_ERROR, True)


SCHEMA = {
    "type": "record",
    "name": "Late",
    "fields": [
        {"name": "n", "type": ["null", "long"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                   "scale": 2}},
    ],
}  # fmt: skip
FRAMED = {"value": "avro", "value_schema": "confluent", "topic": "delays"}
ROW = {"n": None, "at": "2013-01-01T00:00:00.000Z", "price": "1.50"}


@pytest.mark.parametrize("from_file", [False, True])
def test_the_types_are_those_of_the_newest_schema(
    from_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with registry() as schemas, view_with(ROW, **FRAMED) as server:
        schemas.answers["/subjects/delays-value/versions/latest"] = (
            200, {"version": 4, "id": 9, "schema": json.dumps(SCHEMA)},
        )  # fmt: skip
        options = [] if from_file else ["--schema-registry", schemas.url]
        Path("views.toml").write_text(f'[schemas]\nregistry = "{schemas.url}/"\n' * from_file)
        done = run(server.url, "fields", "late", *options)
    assert (done.exit_code, done.stderr) == (SUCCESS, "")
    assert done.stdout.splitlines() == [
        "# a sample of 1 value; types from version 4 of delays-value",
        "[views.late.fields]", 'n = "long?"  # in no value of the sample', 'at = "time"',
        'price = "decimal(2)"',
    ]  # fmt: skip


def test_a_table_of_the_view_comes_before_the_newest_schema() -> None:
    declared = {"fields": {"n": "time? ms"}}
    with registry() as schemas, view_with({**ROW, "n": 7}, **FRAMED, **declared) as server:
        schemas.answers["/subjects/delays-value/versions/latest"] = (
            200, {"version": 4, "id": 9, "schema": json.dumps(SCHEMA)},
        )  # fmt: skip
        done = run(server.url, "fields", "late", "--schema-registry", schemas.url)
    assert done.stdout.splitlines()[2:] == [
        'n = "time? ms"', 'at = "time"  # not declared', 'price = "decimal(2)"  # not declared',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (None, "the registry has no subject delays-value"),
        (
            {"version": 1, "id": 9, "schemaType": "JSON", "schema": "{}"},
            "delays-value is json, not avro",
        ),
        ({"version": 1, "id": 9, "schema": "{"}, "not a supported Avro schema"),
    ],
)
def test_without_a_schema_the_types_are_those_of_the_sample(
    document: dict[str, Any] | None, reason: str
) -> None:
    answer = (404, {"error_code": 40401}) if document is None else (200, document)
    with registry() as schemas, view_with({"n": 1}, **FRAMED) as server:
        schemas.answers["/subjects/delays-value/versions/latest"] = answer
        done = run(server.url, "fields", "late", "--schema-registry", schemas.url)
    assert done.exit_code == SUCCESS
    assert done.stderr.startswith("types are from the sample alone: ")
    assert reason in done.stderr
    assert done.stdout.splitlines() == [
        "# a sample of 1 value", "[views.late.fields]", 'n = "int"',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "note"),
    [
        (None, "types are from the sample alone: --schema-registry names no registry of schemas\n"),
        ("", "types are from the sample alone: --schema-registry names no registry of schemas\n"),
        ('[schemas]\nfolder = "a"', ""),
    ],
)
def test_without_a_registry(
    file: str | None, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if file is not None:
        Path("views.toml").write_text(file)
    with view_with({"n": 1}, **FRAMED) as server:
        done = run(server.url, "fields", "late")
    assert (done.exit_code, done.stderr) == (SUCCESS, note)
    with view_with({"n": 1}) as server:
        done = run(server.url, "fields", "late")
    assert (done.exit_code, done.stderr) == (SUCCESS, "")


def test_a_url_of_a_registry_has_no_password() -> None:
    with view_with({"n": 1}, **FRAMED) as server:
        done = run(server.url, "fields", "late", "--schema-registry", "http://a:secret@b")
    assert done.exit_code == USAGE_ERROR
    assert "QUERYABLE_SCHEMA_REGISTRY_AUTH" in done.stderr
    assert "secret" not in done.stderr
