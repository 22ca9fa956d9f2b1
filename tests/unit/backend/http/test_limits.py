"""Limits on the cost of a request, which are checked before it is parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.http.negotiation import chosen
from backend.http.parameters import (
    PARAMETERS,
    page_parameters,
    parse_parameters,
    point_parameters,
    span_parameters,
)
from backend.queries import key_bodies
from backend.queries.key_bodies import parse_batch, parse_members, parse_search
from backend.queries.scans import partition_run as partition_runs
from backend.queries.scans import partition_scan as partition_scans
from backend.queries.scans import scan_budget
from backend.queries.scans.merging import slices
from backend.queries.turns import next_turn
from backend.queries.whole_view.ranking import Ranking
from backend.queries.whole_view.registry import VIEW_QUERIES
from model import limits
from model.formats.registry import KEY_CODECS
from model.problems import BadRequest
from model.times import parse_time
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import World, world


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as made:
        yield made


def refused(ask: Callable[[], object]) -> BadRequest:
    with pytest.raises(BadRequest) as error:
        ask()
    assert error.value.status == 400
    return error.value


@pytest.mark.parametrize("fields", [17, 500])
def test_a_ranking_by_a_deep_field_is_refused(orders: World, fields: int) -> None:
    """Regression: each field is a look-up per entry, and 16,000 of them stopped all instances."""
    answer = orders.ask(f"top?by={'a.' * (fields - 1)}a")
    assert answer.status == 400
    assert answer.json["code"] == "bad-parameter"
    assert (answer.json["parameter"], answer.json["limit"]) == ("by", limits.MAX_PATH_FIELDS)
    assert orders.peers.asked == [], "no instance was asked"
    assert refused(lambda: Ranking(ORDERS, "a." * fields + "a", True)).more["parameter"] == "by"


def test_a_ranking_by_the_deepest_allowed_field_is_answered(orders: World) -> None:
    document = b"7"
    for _ in range(limits.MAX_PATH_FIELDS):
        document = b'{"a":%b}' % document
    orders.put(b"k", document)
    answer = orders.ask(f"top?by={'.'.join('a' * limits.MAX_PATH_FIELDS)}")
    assert [item["key"] for item in answer.json["items"]] == ["k"]


@pytest.mark.parametrize("name", ["order", "limit", "stale", "by"])
def test_each_parameter_of_a_ranking_has_a_maximum_length(orders: World, name: str) -> None:
    most = limits.parameter_bytes(name)
    answer = orders.ask(f"top?{name}={'7' * (most + 1)}")
    assert answer.status == 400
    assert (answer.json["parameter"], answer.json["limit"]) == (name, most)
    assert len(answer.body) < 1000, "the error does not repeat it"


def test_every_parameter_of_every_query_has_a_maximum_length() -> None:
    queries = {query.name: query.parameters for query in VIEW_QUERIES}
    for names in (*PARAMETERS.values(), *queries.values()):
        for name in names:
            query = f"{name}={'a' * (limits.parameter_bytes(name) + 1)}".encode()
            problem = refused(lambda names=names, query=query: parse_parameters(query, names))  # type: ignore[misc]
            assert problem.more == {"parameter": name, "limit": limits.parameter_bytes(name)}
    for name in ("encoding", "route", "max_lag", "max_staleness", "min_offset", "as_of"):
        long = b"%b=%b" % (name.encode(), b"1" * (limits.parameter_bytes(name) + 1))
        assert refused(lambda long=long: point_parameters(long, True)).more["parameter"] == name  # type: ignore[misc]


@pytest.mark.parametrize("times", ["from", "to"])
def test_a_long_time_is_refused(times: str) -> None:
    refused(lambda: span_parameters(f"{times}={'1' * 5000}".encode()))
    with pytest.raises(ValueError, match="64 characters"):
        parse_time("1" * 5000)


def test_too_many_parameters_are_refused() -> None:
    problem = refused(lambda: page_parameters(ORDERS, "keys", b"&" * 10_000))
    assert problem.more["limit"] == limits.MAX_PARAMETERS
    assert page_parameters(ORDERS, "keys", b"&" * (limits.MAX_PARAMETERS - 1)).limit == 100


def test_an_unknown_parameter_is_not_repeated_in_full() -> None:
    problem = refused(lambda: parse_parameters(b"a" * 30_000, ("limit",)))
    assert problem.code == "unknown-parameter"
    assert len(problem.detail) < 300


def test_a_long_accept_is_refused() -> None:
    ranges = [(b"accept", b"a/b," * 2000) for _ in range(4)]
    problem = refused(lambda: chosen(ranges, ("json", "octet-stream")))
    assert (problem.more["header"], problem.more["limit"]) == ("accept", limits.MAX_ACCEPT_BYTES)


@pytest.mark.parametrize("text", ["1" * 40_000 + "x", "1." + "1" * 40_000 + "x", "." * 40_000])
def test_a_long_number_is_refused_in_linear_time(text: str) -> None:
    """Regression: a quadratic pattern ran into the time-out of the test."""
    with pytest.raises(ValueError, match="not a decimal"):
        KEY_CODECS["float64"].from_text(text.encode())


def test_queries_of_large_values_yield_to_other_requests(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: 12 MB of values (120 of 100 KB) were parsed without yielding."""
    value = b'{"n":1,"text":"%b"}' % (b"x" * 100_000)
    orders.put_all({b"%d" % number: value for number in range(120)})
    sizes: list[int] = []
    turns = 0
    read = partition_runs.ScanRun.read

    def noted(run: Any, count: int) -> Any:
        found = read(run, count)
        sizes.append(run.got_bytes)
        return found

    async def turn() -> None:
        nonlocal turns
        turns += 1
        await next_turn()

    monkeypatch.setattr(partition_runs.ScanRun, "read", noted)
    monkeypatch.setattr(partition_scans, "next_turn", turn)
    assert len(orders.ask("top?by=n&limit=1").json["items"]) == 1
    assert sum(sizes) > 12_000_000
    # the first look at a partition may be at a few large values, before it is known how large
    assert turns >= sum(sizes) / (8 * 100_100) / 2


def test_an_answer_ends_at_its_maximum_size(orders: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_budget, "MAX_BYTES", 1)
    orders.put_all({b"%d" % number: b'{"n":%d}' % number for number in range(200)})
    assert orders.ask("count?exact=true").json == {"count": 200, "exact": True}
    assert [i["value"]["n"] for i in orders.ask("top?by=n&limit=2").json["items"]] == [199, 198]


EMPTY_LISTS = b'{"keys":[%b]}' % b",".join([b"[]"] * 2_000_000)


@pytest.mark.parametrize(
    "parse",
    [
        parse_batch,
        partial(parse_batch, exact=True),
        parse_search,
        partial(parse_members, required=("key",)),
    ],
)
def test_a_body_of_many_small_values_is_refused_before_it_is_parsed(
    parse: Callable[[bytes], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: 6 MB of `[]` blocked the event loop for 300 ms."""
    monkeypatch.setattr(key_bodies, "decode_body", lambda _: pytest.fail("it was parsed"))
    assert refused(lambda: parse(EMPTY_LISTS)).more["limit"] == limits.MAX_JSON_PARTS


def test_a_batch_of_the_maximum_number_of_keys_with_commas_is_answered() -> None:
    keys = ["a,b,c,d:[{" + "x" * 2000] * 1000
    body = orjson.dumps({"keys": keys})
    assert len(body) <= limits.MAX_BATCH_BYTES
    assert len(parse_batch(body)) == 1000


def test_a_deep_body_is_refused() -> None:
    deep = b"[" * 30_000 + b"]" * 30_000
    refused(lambda: parse_batch(b'{"keys":[%b]}' % deep, exact=True))
    refused(lambda: parse_search(b'{"query":%b}' % deep))


def test_a_key_may_be_as_deep_as_the_document_allows() -> None:
    deep = b"[" * 1022 + b"]" * 1022
    [(_, written)] = parse_batch(b'{"keys":[%b]}' % deep, exact=True)
    assert written == deep
    assert parse_search(b'{"query": %b }' % deep)[1] == deep


@given(st.lists(st.integers(0, 9)), st.integers(1, 20))
def test_slices_have_all_rows(sizes: list[int], most: int) -> None:
    rows = [(b"%d" % number, b"", b"x" * size) for number, size in enumerate(sizes)]
    found = [list(some) for some in slices(rows, most)]
    assert [row for some in found for row in some] == rows
    for some in found:
        assert sum(len(row[2]) for row in some[:-1]) < most


def test_merging_a_ranking_yields_to_other_requests(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: up to 4 MiB from an owner were parsed without yielding."""
    value = b'{"n":1,"text":"%b"}' % (b"x" * 100_000)
    orders.put_all({b"%d" % number: value for number in range(30)})
    sizes: list[int] = []
    rank_items = Ranking.rank_items

    def noted(ranking: Ranking, items: list[bytes]) -> Any:
        sizes.append(sum(map(len, items)))
        return rank_items(ranking, items)

    monkeypatch.setattr(Ranking, "rank_items", noted)
    assert len(orders.ask("top?by=n&limit=30").json["items"]) == 30
    assert sum(sizes) > 3_000_000
    assert max(sizes) < 400_000
