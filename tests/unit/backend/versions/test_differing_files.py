"""While instances have different files, a name or a path means the same on all of them, and all
publish the same document. What is not decided is 503."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import orjson
import pytest

from backend.cluster.placement import place
from backend.http.access import Access
from backend.http.paths import Elsewhere, Paths
from backend.http.route_table import OTHER, Route, RouteTable
from backend.http.router import Router
from backend.instance.context import InstanceContext
from backend.wire.answer import Answer, problem_answer
from backend.wire.view_names import processors_for_clients
from model.group_views import GroupViews
from model.partitioner import partition_of
from model.problems import Unavailable
from model.topology import Epoch, Member, Topology
from model.view_versions import States, VersionState
from model.views import View
from tests.support.in_process.examples import candidate, view
from tests.support.in_process.instance import context
from tests.support.in_process.pages import flask_pages

ORDERS, SECOND = (view(name, path="/o", topic=f"t-{name}") for name in ("orders", "orders@2"))
USERS = view("users", path="/u", topic="t-users")
Files = tuple[tuple[View, ...], tuple[View, ...]]

PAIRS: dict[str, Files] = {
    "a version is added": ((ORDERS,), (ORDERS, SECOND)),
    "the first version is removed": ((ORDERS, SECOND), (SECOND,)),
    "another number": ((ORDERS,), (SECOND,)),
    "a view is added": ((ORDERS,), (ORDERS, USERS)),
    "a view is renamed": ((ORDERS,), (view("sales", path="/o", topic="t-orders"),)),
    "a path moves": (
        (ORDERS, USERS),
        (view("orders", topic="t-orders"), view("users", path="/o", topic="t-users")),
    ),
    "a path moves to a new view": (
        (ORDERS,),
        (view("orders", topic="t-orders"), view("new", path="/o", topic="t-new")),
    ),
    "paths are exchanged": (
        (ORDERS, USERS),
        (view("orders", path="/u", topic="t-orders"), view("users", path="/o", topic="t-users")),
    ),
    "a path changes": ((ORDERS,), (view("orders", path="/p", topic="t-orders"),)),
    "a path below": ((ORDERS,), (view("below", path="/o/below", topic="t-below"),)),
    "another key": ((ORDERS,), (view("orders", path="/o", topic="t-orders", key="json"),)),
    "another partitioner": (
        (ORDERS,), (view("orders", path="/o", topic="t-orders", partitioner="crc32"),),
    ),
    "another store": ((ORDERS,), (view("orders", path="/o", topic="t-orders", store="versioned"),)),
    "another topic": ((ORDERS,), (view("orders", path="/o", topic="t-more"),)),
}  # fmt: skip
PARTITIONS = {"t-orders": 2, "t-orders@2": 3, "t-users": 2, "t-new": 1, "t-below": 1, "t-more": 4}
TARGETS = [
    *(f"/{path}/k" for path in ("o", "u", "p", "o/below")),
    *(
        f"/views/{name}{below}"
        for name in ("orders", "orders@1", "orders@2", "users", "sales", "new", "below")
        for below in ("", "/keys", "/keys/k")
    ),
]
STATES: list[States | None] = [{}, {"orders": VersionState(2, 1, (), 1)}, None]


class Group:
    """Instances with these files, the first of which was started first. Requests between them
    arrive; none has a store."""

    def __init__(self, files: list[tuple[View, ...]], states: States | None = {}) -> None:  # noqa: B006
        members = [
            candidate(
                f"b{number}",
                views,
                {v.name: range(PARTITIONS.get(v.topic, 0)) for v in views} if number == 1 else {},
                started_at=number,
                port=8080 + number,
            )
            for number, views in enumerate(files, 1)
        ]
        self.asked: list[tuple[str, str]] = []
        self.status: Callable[[str, str], int] = lambda id_, target: 200  # of another's answer
        self.topology = place(members, PARTITIONS, 5)
        self.contexts = [
            context(views, instance_id=f"b{n}", port=8080 + n, wait_timeout=0)
            for n, views in enumerate(files, 1)
        ]
        for each in self.contexts:
            if states is None:
                each.group.doubt_versions()
            else:
                each.group.apply_versions(states)
            each.group.apply_topology(Topology.decode(self.topology.encode(), 1))

    @cached_property
    def routers(self) -> list[Router]:
        peers = cast(Any, self)
        return [Router(each, cast(Any, None), None, peers) for each in self.contexts]

    async def forward(
        self, member: Member, method: str, target: bytes, *_: Any, **__: Any
    ) -> Answer:
        """As a PeerClient."""
        self.asked.append((member.id, target.decode()))
        status = self.status(member.id, target.decode())
        if status == 503:
            return problem_answer(Unavailable("definition-differs", "Another one has it."))
        return Answer(status, [], member.id.encode())


def _route(pattern: str, is_page: bool = False) -> Route:
    return Route(("GET",), pattern, Access.READ, cast(Any, None), cast(Any, None), is_page=is_page)


ROUTES = (
    _route("{path}/{key}"),
    _route("{path}/{key}/{rest}"),
    _route("/views/{view}/keys"),
    _route("/views/{view}", is_page=True),
    _route("/views", is_page=True),
    _route(OTHER, is_page=True),
)


def means(context: InstanceContext, target: str) -> str:
    """The definition that a path means, or the code of the refusal. A name that an instance does
    not know any more leads to no view."""
    table = RouteTable(ROUTES, Paths(context.group.versions), context.group.versions)
    try:
        found = table.match(target.encode())
    except Elsewhere as elsewhere:
        return context.group.topology.views[elsewhere.stored].hash
    except Unavailable as undecided:
        return undecided.code
    return "no view" if found.view is None else found.view.hash


def files_of(pair: Files, count: int, new: int) -> list[tuple[View, ...]]:
    """The files of the instances when so many have been restarted, the last ones first."""
    return [pair[0]] * (count - new) + [pair[1]] * new


@pytest.mark.parametrize("states", STATES, ids=["no switch", "switched", "in doubt"])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_each_name_and_path_means_the_same_everywhere(pair: Files, states: States | None) -> None:
    for count in (2, 3):
        for new in range(count + 1):
            group = Group(files_of(pair, count, new), states)
            for target in TARGETS:
                found = {means(each, target) for each in group.contexts}
                # a path of the own file, which the group does not use: others do not know it
                found -= {"path-undecided"} if "no view" in found else set()
                assert len(found) == 1, (count, new, target, found)
            documents = {
                orjson.dumps(
                    processors_for_clients(each.group.topology.processors({}), each.group.versions),
                    option=orjson.OPT_SORT_KEYS,
                )
                for each in group.contexts
            }
            assert len(documents) == 1, (count, new)
            views = orjson.loads(documents.pop())["views"]
            paths = [each["path"] for each in views.values() if each["path"] is not None]
            assert len(paths) == len(set(paths)), (count, new, views)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_what_the_file_before_has_is_found_until_the_last_restart(pair: Files) -> None:
    """A path or a name that both files have leads to a view all the time."""
    before, after = Group([pair[0]] * 3), Group([pair[1]] * 3)
    old = {target for target in TARGETS if found(before, target) != "no view"}
    new = {target for target in TARGETS if found(after, target) != "no view"}
    for restarted in (1, 2):
        group = Group(files_of(pair, 3, restarted))
        # a definition that has changed has that of the majority
        of = {target for target in TARGETS if found(group, target) != "no view"}
        changed = {v.name for v in pair[0]} & {v.name for v in pair[1]}
        assert {t for t in of if t.startswith("/views")} == {
            t for t in old | new if t.startswith("/views")
        }
        if not changed:
            assert of >= old
        # "below" was a key, and the rest of its path no resource
        both = (old & new) - {"/o/below/k"}
        assert "path-undecided" not in {found(group, target) for target in both}


def found(group: Group, target: str) -> str:
    return means(group.contexts[0], target)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_no_meaning_depends_on_an_order(pair: Files) -> None:
    group = Group(files_of(pair, 2, 1))
    of = group.contexts[0].group.versions
    names = list(group.topology.views)
    for _ in range(10):
        random.shuffle(names)
        shuffled = Topology(
            Epoch(5, 1),
            group.topology.members,
            {name: group.topology.views[name] for name in names},
            group.topology.paths,
        )
        again = of.in_group(GroupViews()).in_group(GroupViews.from_topology(shuffled))
        for field in ("current", "elsewhere", "leads_to", "paths", "undecided_paths"):
            assert getattr(again, field) == getattr(of, field), field


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_instance_without_the_new_version_gives_the_path_to_one_view(
    order: tuple[int, int],
) -> None:
    """What was red: the document of an instance with the file before had the path twice, and a
    proxy took either. Then existing keys were 404, of a version that nobody had made current."""
    files = PAIRS["a version is added"]
    group = Group([files[each] for each in order])
    for each in group.contexts:
        with flask_pages(each).test_client() as client:
            views = client.get("/processors").json["views"]
        assert {name: view["path"] for name, view in views.items()} == {
            "orders": "/o", "orders@1": None, "orders@2": None,
        }  # fmt: skip
        assert views["orders"]["version"] == 1


def ask(
    group: Group, target: str, method: str = "GET", body: bytes = b"{}", **headers: str
) -> tuple[int, bytes]:
    """By the second instance."""
    path, _, query = target.partition("?")
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "raw_path": path.encode(), "query_string": query.encode(), "method": method,
        "headers": given, "client": ("127.0.0.1", 1),
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(group.routers[1](scope, receive, send))
    start, *bodies = sent
    status, body = start["status"], b"".join(each["body"] for each in bodies)
    if status == 503:
        assert (b"retry-after", b"1") in start["headers"]
        assert orjson.loads(body)["code"] == "definition-differs"
    return status, body


@pytest.mark.parametrize(
    ("pair", "target", "asked"),
    [
        ("a view is renamed", "/o/a%2Fb", "/views/orders/keys/a%2Fb"),
        ("a view is renamed", "/o/k?stale=never", "/views/orders/keys/k?stale=never"),
        ("a view is renamed", "/views/orders/keys/k", "/views/orders/keys/k"),
        ("a view is renamed", "/views/orders", "/views/orders"),
        ("another topic", "/o/k", "/views/orders/keys/k"),
        ("another key", "/views/orders/keys/text", "/views/orders/keys/text"),
        ("the first version is removed", "/o/k", "/views/orders/keys/k"),
        ("the first version is removed", "/views/orders@1/keys/k", "/views/orders@1/keys/k"),
        ("a path moves", "/o/k", "/views/orders/keys/k"),
    ],
)
def test_a_read_of_a_view_that_others_have_is_forwarded(pair: str, target: str, asked: str) -> None:
    group = Group(files_of(PAIRS[pair], 2, 1))
    assert ask(group, target) == (200, b"b1")
    assert ask(group, target, "HEAD")[0] == 200
    assert group.asked == [("b1", asked)] * 2
    # an instance that is asked by another one does not ask a third
    assert ask(group, target, queryable_forwarded="b3")[0] == 503


@pytest.mark.parametrize(
    ("target", "key"),
    [
        ("/views/orders/keys/k?stale=never", b"k"),
        ("/views/orders/keys/a%2Fb", b"a/b"),
        ("/o/%C3%A4%20%25?min_offset=0:1", "ä %".encode()),
        ("/views/orders/keys/azEy?encoding=base64url", None),
        ("/views/orders/keys/azEy?%65ncoding=base64url", None),
    ],
)
def test_a_read_reaches_the_owner_of_its_key_among_many(target: str, key: bytes | None) -> None:
    """The second instance alone has another file. Each of the others has one partition, and refuses
    keys of other ones."""
    group = Group([(ORDERS,), (USERS,), *[(ORDERS,)] * 8])
    placed, ids = group.topology.views["orders"], [f"b{n}" for n in (1, 3, 4, 5, 6, 7, 8, 9, 10)]
    index = {member.id: index for index, member in enumerate(group.topology.members)}
    placed = replace(placed, active=tuple(index[id_] for id_ in ids))
    views = {**group.topology.views, "orders": placed}
    group.contexts[1].group.apply_topology(Topology(Epoch(6, 1), group.topology.members, views))
    if key is None:
        for owner in ids:
            group.status = lambda id_, target, owner=owner: 200 if id_ == owner else 503
            assert ask(group, target) == (200, owner.encode())
    else:
        owner = ids[partition_of("murmur2")(key, len(ids))]
        assert ask(group, target) == (200, owner.encode())
        search = orjson.dumps({"query": key.decode()})
        json = {"content_type": "application/json"}
        assert ask(group, "/views/orders/search", "POST", search, **json) == (200, owner.encode())
        assert [id_ for id_, _ in group.asked] == [owner, owner]


def test_a_uuid_in_capitals_is_not_said_to_be_missing() -> None:
    """What an instance has under lower case is asked for by the one that got the request: an
    instance that is asked by another one looks for the key itself only."""
    orders = view("orders", path="/o", topic="t-orders", key="uuid")
    group = Group([(orders,), (USERS,)])
    lower = "/views/orders/keys/0e37df36-f698-11e6-8dd4-cb9ced3df976"
    upper = "/views/orders/keys/0E37DF36-F698-11E6-8DD4-CB9CED3DF976"
    group.status = lambda id_, target: 200 if target.startswith(lower) else 404
    for query in ("", "?stale=never"):
        assert ask(group, upper + query) == (200, b"b1")
        assert group.asked[-2:] == [("b1", upper + query), ("b1", lower + query)]
    group.status = lambda id_, target: 404
    assert ask(group, upper)[0] == 404
    group.status = lambda id_, target: 200 if target.startswith(lower) else 404
    body = b'{"query":"%b"}' % upper.rpartition("/")[2].encode()
    json = {"content_type": "application/json"}
    assert ask(group, "/views/orders/search?stale=never", "POST", body, **json) == (200, b"b1")
    searched = [("b1", "/views/orders/search?stale=never"), ("b1", f"{lower}?stale=never")]
    assert group.asked[-2:] == searched
    # of bytes, no other key is meant; of a history, the answer would not show that it is missing
    asked = len(group.asked)
    assert ask(group, f"{upper}?encoding=base64url")[0] == 404
    assert len(group.asked) == asked + 1
    assert ask(group, f"{upper}/versions")[0] == 503
    assert ask(group, f"{lower}/versions")[0] == 200


def test_batches_are_forwarded_and_everything_else_is_503() -> None:
    group = Group(files_of(PAIRS["a view is renamed"], 2, 1))
    for name in ("batch", "search"):
        assert (
            ask(group, f"/views/orders/{name}", "POST", content_type="application/json")[0] == 200
        )
    asked = [("b1", "/views/orders/batch"), ("b1", "/views/orders/search")]
    assert group.asked == asked
    for method, target in itertools.chain(
        (("GET", f"/views/orders/{of}") for of in ("keys", "count", "top", "versions")),
        (("POST", f"/views/orders/{of}") for of in ("switch", "rollback", "drop")),
        [("GET", "/o/k/changes"), ("POST", "/o/k")],
    ):
        assert ask(group, target, method)[0] == 503, target
    assert ask(group, "/views/orders/keys", accept="application/x-ndjson")[0] == 503
    assert group.asked == asked


def test_an_instance_without_a_topology_does_not_say_that_a_view_does_not_exist() -> None:
    alone = context([ORDERS])
    for target in (
        "/views/other",
        "/views/other/keys",
        "/views/other/keys/k",
        "/other/k",
        "/a/b/c",
    ):
        assert means(alone, target) == "no-topology", target
    group = Group([(ORDERS,)])
    for target in (
        "/views/other",
        "/views/other/keys",
        "/views/other/keys/k",
        "/other/k",
        "/a/b/c",
    ):
        assert found(group, target) == "no view", target
    for target in ("/favicon.ico", "/admin/static/x", "/views"):
        assert means(alone, target) == "no view", target


def test_a_leader_of_the_release_before_leaves_a_path_undecided() -> None:
    group = Group(files_of(PAIRS["a view is renamed"], 2, 1))
    assert group.topology.paths == {"/o": "orders"}
    for each in group.contexts:
        newer = Topology(Epoch(6, 1), group.topology.members, group.topology.views)
        each.group.apply_topology(newer)
        assert means(each, "/o/k") == "path-undecided"
        assert means(each, "/views/sales/keys/k") != "no view"
