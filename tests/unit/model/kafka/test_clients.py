"""Who destroys the clients of librdkafka."""

from __future__ import annotations

import ast
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from model.kafka.clients import close, closing, own

ROOT = Path(__file__).parents[4]
PRODUCT = ("model", "backend", "spark", "queryable", "local")
MAKERS = {"AdminClient", "Consumer", "Producer"}
OWNERS = {"own", "closing"}
FOR_TESTS = {"local/kafka/broker.py"}
"""Has the admin client of tests and benchmarks."""


class Client:
    """As one of librdkafka. It refers to itself: only the garbage collector frees it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.closed = 0
        self.me = self

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed += 1
        if self.error is not None:
            raise self.error


def is_alive(client: weakref.ref[Client]) -> bool:
    gc.collect()
    return client() is not None


def test_a_client_lives_until_it_is_closed() -> None:
    client = weakref.ref(own(Client()))
    assert is_alive(client)
    close(client())  # type: ignore[arg-type]
    assert not is_alive(client)


def test_only_the_thread_that_has_made_a_client_closes_it() -> None:
    client = own(Client())
    with ThreadPoolExecutor(1) as other, pytest.raises(RuntimeError, match="another thread"):
        other.submit(close, client).result()
    assert client.closed == 0
    close(client)
    assert client.closed == 1


def test_a_client_for_one_task_is_closed_at_its_end() -> None:
    with pytest.raises(KeyError), closing(Client()) as client:
        raise KeyError
    assert client.closed == 1


def test_an_error_of_a_callback_is_raised_after_the_client_was_closed() -> None:
    client = weakref.ref(own(Client(ValueError("of a callback"))))
    with pytest.raises(ValueError, match="of a callback"):
        close(client())  # type: ignore[arg-type]
    assert not is_alive(client)


def made_in(tree: ast.AST) -> list[int]:
    """The lines that make a client without an owner."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    owned = {id(call.args[0]) for call in calls if name_of(call.func) in OWNERS and call.args}
    return [call.lineno for call in calls if makes_client(call.func) and id(call) not in owned]


def names_a_maker(text: str) -> bool:
    """A quick look: most files need no parser."""
    return any(name in text for name in (*MAKERS, "_librdkafka"))


def name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def makes_client(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        of = function.value
        return isinstance(of, ast.Attribute) and of.attr == "_librdkafka"
    return name_of(function) in MAKERS


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("a = AdminClient({})", [1]),
        ("a = own(AdminClient({}))", []),
        ("with closing(Consumer({})) as a: pass", []),
        ("\nself._librdkafka.producer({})", [2]),
        ("own(self._librdkafka.producer({}))", []),
        ("own([Producer({})])", [1]),
    ],
)
def test_the_search_finds_clients_without_an_owner(source: str, lines: list[int]) -> None:
    assert names_a_maker(source)
    assert made_in(ast.parse(source)) == lines


def test_each_client_of_the_product_has_an_owner() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        if str(path.relative_to(ROOT)) not in FOR_TESTS
        if names_a_maker(text := path.read_text())
        for line in made_in(ast.parse(text))
    }
    assert found == set()
