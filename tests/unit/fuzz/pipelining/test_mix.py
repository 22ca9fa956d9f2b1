"""The mix has requests for all routes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from backend.cluster.topology_fetcher import PATH as TOPOLOGY
from backend.http.paths import Paths
from backend.http.route_table import OTHER, RouteTable
from backend.http.router import Router
from backend.security.signatures import Purpose, Signer
from model.group_views import GroupViews
from model.problems import Unavailable
from model.views_file import parse_views
from tests.fuzz.pipelining.example import KEYS, PARTITIONS, VIEWS, text_of_views
from tests.fuzz.pipelining.kinds.internal import Internal, Signers
from tests.fuzz.pipelining.mix import Mix
from tests.fuzz.pipelining.requests import Draw, Kind
from tests.support.in_process.instance import context
from tests.support.security.cluster_secret import OTHER_SECRET, cluster_secret

TOPICS = {view: f"topic-of-{number}" for number, view in enumerate(VIEWS)}
PARSED = parse_views(text_of_views(TOPICS)).views
DRAWN = 100  # requests of each kind
ALWAYS_REFUSED = {
    # commands: they would change the deployment
    *(f"/views/{{view}}/{name}" for name in ("switch", "rollback", "drop", "pipeline")),
    *(f"/admin/instances/{{instance}}/{name}" for name in ("drain", "undrain", "rebuild")),
    *(f"/admin/deployments/{{deployment}}/{name}" for name in ("switch", "rollback")),
    "/admin/groups/{group}/delete",
    TOPOLOGY,  # only a topology that is too large for the broker is sent by reference
    "{path}/{key}/{rest}",
    OTHER,
}


@pytest.fixture
def mix(tmp_path: Path) -> Mix:
    secret = cluster_secret(tmp_path)
    foreign = Signer(cluster_secret(tmp_path, OTHER_SECRET))
    signers = Signers(Signer(secret), Signer(secret, Purpose.PROXY), foreign)
    views = {view.name: view for view in PARSED}
    held = {view: range(PARTITIONS) for view in VIEWS}
    internal = Internal("b1", "b2", "group", signers, views, held)
    return Mix(TOPICS, frozenset(["b1"]), internal)


def test_every_route_has_requests_that_are_answered(mix: Mix) -> None:
    of = context(PARSED)
    hashes = {view.name: view.hash for view in PARSED}
    paths = {view.name: view.path for view in PARSED if view.path is not None}
    versions = of.group.versions.in_group(GroupViews(hashes, paths))
    table = RouteTable(Router(of, _no_pages).routes, Paths(versions), versions)
    patterns = {route.pattern for route in table.routes}
    answered = _patterns(mix, [kind for kind in mix.kinds if not kind.is_refused], table)
    refused = _patterns(mix, [kind for kind in mix.kinds if kind.is_refused], table)
    assert patterns - answered == ALWAYS_REFUSED
    assert refused >= ALWAYS_REFUSED


def _patterns(mix: Mix, kinds: Sequence[Kind], table: RouteTable) -> set[str]:
    """Those of the routes of these requests."""
    random_, found = random.Random(1), set[str]()
    for kind, number in product(kinds, range(DRAWN)):
        request = kind.make(Draw(number % KEYS, mix.tokens[0], random_))
        with suppress(Unavailable):  # the current version of a view is not known in this process
            match = table.match(request.path.partition("?")[0].encode())
            found.add(match.route.pattern)
    return found


async def _no_pages(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("no request is sent")
