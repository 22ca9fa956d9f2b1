"""Quotas of views: the bucket, the share of an instance, and what is counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.http.limits.view_quotas import ViewQuotas, share_of
from backend.wire.plain_requests import PlainPost
from backend.wire.point_batch import ABSENT, encode_reads
from model.problems import ConfigurationError, TooManyRequests
from model.quotas import Quota, TokenBucket, parse_quota
from model.topology import Epoch, Member, PlacedView, Topology
from model.views_file import parse_views
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import context
from tests.support.in_process.world import PARTITIONS, World, world
from tests.support.point_batch import decode_answers, groups_of

REMOTE, LOCAL = ("192.0.2.7", 50_000), ("127.0.0.1", 50_000)
VIEWS = '[views.orders]\ntopic = "orders"\nkey = "string"\nvalue = "json"\n'


def limited(quota: str) -> object:
    return replace(ORDERS, quota=parse_quota(quota))


@pytest.mark.parametrize("text", ["5000/s", "1/s", "300/m", "999999999/m"])
def test_a_quota_is_read_and_shown(text: str) -> None:
    view = parse_views(f'{VIEWS}quota = "{text}"\n').views[0]
    assert str(view.quota) == text


@pytest.mark.parametrize("text", ["5000", "0/s", "-1/s", "1/h", "1.5/s", " 1/s", "1 /s", "١/s"])
def test_an_invalid_quota_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r'line 5, \[views.orders\], quota: .*"5000/s"'):
        parse_views(f'{VIEWS}quota = "{text}"\n')


def test_a_quota_does_not_define_the_view() -> None:
    """Otherwise a change of it would rebuild the view."""
    view = parse_views(VIEWS).views[0]
    other = parse_views(f'{VIEWS}quota = "1/s"\n').views[0]
    assert (other, other.hash, other.description()) == (view, view.hash, view.description())


@given(
    st.integers(1, 1000),
    st.sampled_from([1, 60]),
    st.lists(st.floats(0, 5, allow_nan=False), max_size=200),
)
def test_a_bucket_admits_its_capacity_and_what_is_refilled(
    requests: int, seconds: int, pauses: list[float]
) -> None:
    quota, now = Quota(requests, seconds), 100.0
    bucket = TokenBucket(quota.requests, now)
    admitted = 0
    for pause in pauses:
        now += pause
        wait = bucket.take(quota.per_second, quota.requests, now)
        assert 0 <= wait <= 1 / quota.per_second
        admitted += not wait
    assert admitted <= quota.requests + (now - 100) * quota.per_second + 1e-6


def test_a_bucket_refills_up_to_its_capacity() -> None:
    bucket = TokenBucket(2, 0)
    assert [bucket.take(0.5, 2, 0) for _ in range(3)] == [0, 0, 2.0]
    assert bucket.take(0.5, 2, 2) == 0
    assert [bucket.take(0.5, 2, 1e6) for _ in range(3)] == [0, 0, 2.0]


def topology(active: tuple[int, ...], members: int) -> Topology:
    placed = PlacedView(ORDERS.description(), ORDERS.hash, active)
    made = tuple(Member(f"b{n + 1}", "127.0.0.1", 8081 + n) for n in range(members))
    return Topology(Epoch(1, 1), made, {"orders": placed})


@pytest.mark.parametrize(
    ("active", "members", "share"),
    [
        ((0, 1, 2), 3, 1 / 3),
        ((0, 0, 0, 1), 2, 3 / 4),
        ((1, 1, 1, 1), 2, 1 / 2),  # it still answers queries of the whole view
        ((-1, -1), 1, 1),
        ((), 4, 1 / 4),
    ],
)
def test_an_instance_has_the_share_of_its_partitions(
    active: tuple[int, ...], members: int, share: float
) -> None:
    assert share_of(topology(active, members), "b1", "orders") == share


def test_the_share_follows_the_topology() -> None:
    served, now = context([limited("100/s")]), 0.0  # type: ignore[list-item]
    view = served.views["orders"]
    quotas = ViewQuotas(served, lambda: now)

    def admitted() -> int:
        for number in range(1000):
            try:
                quotas.admit(view, [], REMOTE)
            except TooManyRequests:
                return number
        return 1000

    served.group.topology = topology((0, 1), 2)
    assert admitted() == 50
    served.group.topology = topology((0, 0), 2)
    assert admitted() == 0
    now = 10.0
    assert admitted() == 100
    assert served.telemetry.over_quota == {"orders": 3}


def test_what_a_proxy_or_an_instance_has_counted_is_not_counted_again() -> None:
    served = context([limited("1/m")])  # type: ignore[list-item]
    view = served.views["orders"]
    quotas = ViewQuotas(served)
    for header in (b"queryable-counted", b"queryable-forwarded"):
        for client in (LOCAL, ("::1", 1), None):
            for _ in range(3):
                quotas.admit(view, [(header, b"1")], client)
    quotas.admit(view, [], LOCAL)
    for header in (b"queryable-counted", b"queryable-forwarded"):
        with pytest.raises(TooManyRequests) as refused:  # any client can send it
            quotas.admit(view, [(header, b"1")], REMOTE)
        assert (refused.value.status, refused.value.code) == (429, "quota-exceeded")
        assert refused.value.retry_after == 60


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, limited("4/m")) as made:  # type: ignore[arg-type]
        made.put_all({b"%d" % n: b"1" for n in range(20)})
        yield made


def test_every_request_of_the_view_counts(orders: World) -> None:
    # each of two instances has half of the quota
    assert orders.ask("count").status == 200
    assert orders.batch(["1"]).status == 200
    for path in ("keys/1", "count", "keys", "batch"):
        refused = orders.ask(path, method="POST" if path == "batch" else "GET")
        assert (refused.status, refused.json["code"]) == (429, "quota-exceeded")
        assert int(refused.named[b"retry-after"]) in (29, 30)
    assert orders.ask("count", "b2").status == 200, "it answers the scans of b1 in any case"


def test_point_reads_of_the_view_are_counted_by_the_router(orders: World) -> None:
    router = orders.routers["b1"]
    key = next(n for n in range(20) if orders.partition(b"%d" % n) % 2 == 0)
    path = f"/orders/{key}".encode()
    assert router.fast_path.answer_now(path) is None
    groups = groups_of(ORDERS, [b"%d" % key], PARTITIONS)
    counted = router.fast_path.reads_now(PlainPost(None, encode_reads([], groups)), "127.0.0.1")
    [(_, _, _, [size], _)] = decode_answers(counted.body, groups).keys
    assert size < ABSENT, "the proxy has counted it"
    assert [orders.ask(f"keys/{key}").status for _ in range(3)] == [200, 200, 429]
