"""`queryable fields`: the table on stdout, and what the sample says about a declaration."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from queryable.cli.exit_codes import NOT_FOUND, SUCCESS, USAGE_ERROR
from tests.support.clients.scripted_transport import ORDERS
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
