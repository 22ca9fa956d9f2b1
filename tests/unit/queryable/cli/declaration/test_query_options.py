"""The table of the options of queries, and what comes from it."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

from queryable import Client
from queryable.cli.declaration.query_options import QUERY_OPTIONS, TIMED, QueryOption
from tests.support.clients.scripted_transport import ORDERS
from tests.unit.queryable.cli.commands.running import run
from tests.unit.queryable.client.fake_server import RequestHandler, serving

CALLS = {"watch": "scan", "fields": "scan"}
"""Queries whose call has another name."""


@pytest.mark.parametrize("option", QUERY_OPTIONS, ids=lambda option: option.flag)
def test_an_option_is_a_parameter_of_the_call(option: QueryOption) -> None:
    for query in option.queries:
        assert option.name in signature(getattr(Client, CALLS.get(query, query))).parameters


def test_a_query_has_each_option_once() -> None:
    named = [(query, option.name) for option in QUERY_OPTIONS for query in option.queries]
    assert len(named) == len(set(named))


@pytest.mark.parametrize(
    ("arguments", "parameters"),
    [
        ("scan orders", "order=asc&limit=1000"),
        ("scan orders --from a --to b --limit 5", "from=a&to=b&order=asc&limit=5"),
        ("scan orders --prefix a --order desc", "prefix=a&order=desc&limit=1000"),
        ("scan orders --timestamps --stale never", "order=asc&stale=never&timestamps=true&limit="),
        ("top orders", "order=desc&limit=10"),
        ("top orders --by a.b --order asc --limit 3", "by=a.b&order=asc&limit=3"),
        ("aggregate orders --by a --value b", "by=a&value=b"),
        (
            "aggregate orders --by a --order-by avg --order asc --limit 3",
            "by=a&order_by=avg&order=asc&limit=3",
        ),
        ("scan orders --order-by delay --limit 3", "order=asc&order_by=delay&limit=3"),
        ("count orders --exact --stale allow", "exact=true&stale=allow"),
        ("get orders a --max-lag 0 --max-staleness 5s", "max_lag=0&max_staleness=5s"),
        ("get orders a --local", "route=local"),
        ("get orders a --headers", "headers=true"),
    ],
)
def test_options_become_parameters_of_the_request(arguments: str, parameters: str) -> None:
    def answer(request: RequestHandler) -> None:
        found: Any = {"items": [], "next": None, "count": 0, "exact": True, "key": "a", "value": 1}
        request.respond(200, ORDERS if request.path == "/views/orders" else found)

    with serving(answer) as server:
        run(server.url, *arguments.split())
        query = server.paths[-1].partition("?")[2]
    assert query.startswith(parameters) if parameters.endswith("=") else query == parameters


@pytest.mark.parametrize("store", TIMED)
def test_rows_with_times_are_ordered_by_a_field(store: str) -> None:
    def answer(request: RequestHandler) -> None:
        is_view = request.path == "/views/w"
        view = {**ORDERS, "name": "w", "store": store.removesuffix("s")}
        request.respond(200, view if is_view else {"items": [], "next": None})

    with serving(answer) as server:
        run(server.url, store, "w", "--order-by", "delay", "--order", "desc")
        assert server.paths[-1] == f"/views/w/{store}?order=desc&order_by=delay&limit=1000"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("get orders a --as-of 5", "--as-of is for views with versions"),
        ("aggregate orders --from 5", "--from is for views with windows or sessions"),
        ("scan orders --order sideways", "'sideways' is not one of asc, desc."),
    ],
)
def test_an_option_of_other_views_is_refused(arguments: str, message: str) -> None:
    with serving(lambda request: request.respond(200, ORDERS)) as server:
        done = run(server.url, *arguments.split())
        assert set(server.paths) <= {"/views/orders"}
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
