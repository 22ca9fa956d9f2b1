"""What `import queryable` imports, its version, its methods and their types."""

from __future__ import annotations

import inspect
import json
import os
import pydoc
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

import queryable
from queryable import AsyncClient, Client, QueryableError
from queryable.client.protocol import calls, errors

HEAVY = (
    "flask", "rocksdict", "pyspark", "numpy", "pandas", "pyarrow", "confluent_kafka", "kafka",
    "gunicorn", "typer", "rich", "fastavro", "pydantic", "prometheus_client",
)  # fmt: skip
ROOT = Path(__file__).parents[4]


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip


def test_import_is_light(tmp_path: Path) -> None:
    code = "import queryable, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = run("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    modules = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert "urllib3" in modules
    assert modules.isdisjoint(HEAVY), modules & set(HEAVY)


def test_version_is_that_of_pyproject(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert queryable.__version__ == project["version"]

    def not_installed(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", not_installed)
    assert queryable.__version__ == "0+unknown"


def test_errors_name_their_public_path() -> None:
    for kind in all_errors():
        assert kind.__module__ == "queryable"
        assert getattr(queryable, kind.__name__) is kind


def test_every_error_is_in_the_tree_of_errors() -> None:
    for text in (inspect.getdoc(errors) or "", (ROOT / "docs/client.md").read_text()):
        drawn = re.findall(r"[├└]── (\w+)", text)
        assert sorted(drawn) == sorted(kind.__name__ for kind in all_errors()[1:])


def all_errors() -> list[type[QueryableError]]:
    """Those of the client. The command-line tool has more, for itself."""
    found: list[type[QueryableError]] = [QueryableError]
    for kind in found:  # it grows meanwhile
        found += kind.__subclasses__()
    return [kind for kind in found if not kind.__module__.startswith("queryable.cli.")]


def public_calls() -> list[Any]:
    """The functions of `calls` whose first parameter is the client's context."""
    modules = [
        import_module(f"{calls.__name__}.{info.name}") for info in iter_modules(calls.__path__)
    ]
    return [
        function
        for module in modules
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__
        and not name.startswith("_") and "context" in inspect.signature(function).parameters
    ]  # fmt: skip


@pytest.mark.parametrize("call", public_calls(), ids=lambda call: call.__name__)
def test_every_call_is_a_documented_method_of_both_clients(call: Any) -> None:
    parameters = list(inspect.signature(call).parameters.values())[1:]
    for client_class in (Client, AsyncClient):
        method = getattr(client_class("http://127.0.0.1:9"), call.__name__)
        given = list(inspect.signature(method).parameters.values())
        if call.__name__ == "view":  # with types it returns a handle
            assert [each.name for each in given] == ["name", "key", "value"]
            assert (inspect.getdoc(method) or "").startswith(inspect.getdoc(call) or "nothing")
        else:
            assert given == parameters
            assert inspect.getdoc(method) == inspect.getdoc(call)
        text = pydoc.render_doc(client_class, renderer=pydoc.plaintext)
        assert re.search(rf"^ \|  (async )?{call.__name__}\(", text, re.MULTILINE), text


def test_async_methods_are_coroutine_functions() -> None:
    assert inspect.iscoroutinefunction(AsyncClient.get)
    assert not inspect.iscoroutinefunction(AsyncClient.scan)
    assert not inspect.iscoroutinefunction(Client.get)


PROGRAM = """\
from dataclasses import dataclass

from queryable import ALL_KEYS, AsyncClient, Client


@dataclass
class Order:
    n: int


def ask(client: Client) -> None:
    reveal_type(client.get("v", "a", timeout=1))
    reveal_type(client.get_many("v", ["a"]))
    for row in client.scan("v", from_="a", order="desc"):
        reveal_type(row)
    for window in client.windows("v", ALL_KEYS, from_="2013-01-01T00:00:00Z"):
        reveal_type(window.start)
    for change in client.changes("v", "a", after=(0, 1)):
        reveal_type(change)
    reveal_type(client.append("v", "a"))
    with client.session() as seen:
        reveal_type(seen.snapshot())
    reveal_type(Client.get(client, "v", "a"))
    reveal_type(client.topology())
    reveal_type(client.view("v"))
    orders = client.view("v", key=int, value=Order)
    reveal_type(orders.get(7))
    reveal_type(orders.get_many([7]))
    for order in orders.scan(from_=7):
        reveal_type(order.value)
    for ordered in orders.windows(7, from_=0, order="desc"):
        reveal_type(ordered)
    for changed in orders.changes(7):
        reveal_type(changed)
        orders.changes(7, after=changed)


async def wait(client: AsyncClient) -> None:
    reveal_type(await client.get("v", "a"))
    async for row in client.scan("v"):
        reveal_type(row)
    reveal_type(await AsyncClient.count(client, "v"))
    reveal_type(client.sessions("v", "a"))
    reveal_type(await client.view("v"))
    orders = client.view("v", key=str, value=Order)
    reveal_type(await orders.get("a"))
    async for session in orders.sessions("a", limit=1):
        reveal_type(session)
    reveal_type(await orders.append("a", Order(1)))
"""
REVEALED = [
    "queryable.client.protocol.answers.Answer", "list[queryable.client.protocol.answers.Answer]",
    "queryable.client.protocol.answers.Entry[Any, Any]", "int",
    "queryable.client.protocol.answers.Change[Any, Any]",
    "queryable.client.protocol.answers.Appended", "typing.Mapping[str, typing.Mapping[int, int]]",
    "queryable.client.protocol.answers.Answer", "typing.Mapping[str, Any]",
    "queryable.client.protocol.views.View", "program.Order | None", "dict[int, program.Order]",
    "program.Order", "queryable.client.protocol.answers.Window[int, program.Order]",
    "queryable.client.protocol.answers.Change[int, program.Order | None]",
    "queryable.client.protocol.answers.Answer", "queryable.client.protocol.answers.Entry[Any, Any]",
    "queryable.client.protocol.answers.Count",
    "queryable.client.rows.AsyncRows[queryable.client.protocol.answers.Session[Any, Any]]",
    "queryable.client.protocol.views.View", "program.Order | None",
    "queryable.client.protocol.answers.Session[str, program.Order]",
    "queryable.client.protocol.answers.Appended",
]  # fmt: skip
WRONG = """\
from queryable import AsyncClient, Client

client = Client("http://127.0.0.1:8080", timeout="1")
client.get("v")
client.get(1, "a")
client.get("v", "a", stale="sometimes")
client.scan("v", order="up")
client.scan("v", limit="3")
client.nothing("v")
len(client.scan("v"))
AsyncClient().get("v")
AsyncClient().scan("v", order="up")
client.view("v", key=int, value=str).get("a")
client.view("v", key=int, value=str).append(1, 2)
client.get("v", "a", route="remote")
client.view("v", key=int, value=str).windows(1, order="up")
AsyncClient().view("v", key=int, value=str).scan(from_="a")
"""


def test_types_are_precise_for_a_strict_type_checker(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    options = ("--strict", "--no-error-summary", "--hide-error-context", "--config-file=")
    checked = run("-m", "mypy", *options, "program.py", "wrong.py", cwd=tmp_path)
    lines = checked.stdout.splitlines()
    notes = [line for line in lines if ": note: Revealed type is" in line]
    # mypy shows a named tuple with the types of its fields
    named_tuple = r"tuple\[.*fallback=([\w.]+(?:\[[^]]*])?)]"
    shown = [re.sub(named_tuple, r"\1", line.split('"')[1]) for line in notes]
    assert shown == REVEALED, checked.stdout
    errors = {line.partition(": error:")[0] for line in lines if ": error:" in line}
    assert errors == {f"wrong.py:{n}" for n in range(3, 18)}, checked.stdout
