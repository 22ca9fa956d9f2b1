"""One rule for asking others, whatever is asked: in which order, for how long, and until when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from backend.instance.constants import Constants
from backend.queries import retry as asking
from backend.queries.retry import WHILE_OTHERS_ARE_LEFT, Asker, Rounds
from backend.queries.scans import scan_budget
from backend.wire.answer import FINAL_STATUS
from backend.wire.answer import Answer as Sent
from model.problems import RETRY_ELSEWHERE_NO, Unavailable
from model.topology import Member
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.reference.questions import Answer
from tests.support.reference.tables import Record
from tests.support.reference.whole_views import WHOLE_VIEWS

KEYS = [f"key-{n}" for n in range(40)]
LINES = {"accept": "application/x-ndjson"}
# what is asked of a cluster -> how; of the versioned view the histories
QUESTIONS: dict[str, tuple[str, str, bytes, dict[str, str]]] = {
    "point": ("GET", "keys/{key}", b"", {}),
    "exists": ("HEAD", "keys/{key}", b"", {}),
    "search": ("POST", "search", b'{"query":"{key}"}', {}),
    "batch": ("POST", "batch", json.dumps({"keys": KEYS}).encode(), {}),
    "page": ("GET", "keys?limit=1000", b"", {}),
    "stream": ("GET", "keys", b"", LINES),
    "estimate": ("GET", "count", b"", {}),
    **{name: ("GET", target, b"", {}) for name, target in WHOLE_VIEWS.items()},
    "history": ("GET", "keys/{key}/versions", b"", {}),
    "as of": ("GET", "keys/{key}?as_of=50", b"", {}),
}
# of keys that may be anywhere, all partitions are asked, in another way
ANYWHERE = ("point", "search", "batch", "history", "as of")


def filled(folder: Path, store: str) -> Cluster:
    cluster = Cluster(folder, replace(ORDERS, store=store, path=None))  # type: ignore[arg-type]
    for n, key in enumerate(KEYS):
        partition = cluster.home(key.encode())
        at = (n,) if store == "versioned" else ()
        record = Record(len(cluster.logs[partition]), key.encode(), at, b'{"n":1}', n)
        cluster.write(record, partition)
    # partition 0: b1, b3 stands by; 1: b2, b3; 2: b3, b2. b1 has only the first
    cluster.place([0, 1, 2], [[2], [2], [1]])
    cluster.settle()
    return cluster


@pytest.fixture(scope="module", params=["key-value", "versioned"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    made = filled(tmp_path_factory.mktemp("data"), request.param)
    yield made
    made.close()


def ask(cluster: Cluster, what: str, anywhere: bool = False, query: str = "") -> Answer:
    """Asks b1 of a key of b2; nobody is suspected yet."""
    cluster.mispartitioned = anywhere
    cluster.place(cluster.active, cluster.standbys)
    for node in cluster.nodes.values():
        node.context.group.peers._suspected.clear()
    cluster.waits.clear()
    key = next(key for key in KEYS if cluster.home(key.encode()) == 1)
    method, target, body, headers = QUESTIONS[what]
    target = target.replace("{key}", key)
    target += ("&" if "?" in target else "?") + query if query else ""
    body = body.replace(b"{key}", key.encode())
    return cluster.ask("b1", method, f"/views/orders/{target}", body, headers)


def asked_of(cluster: Cluster) -> list[tuple[str, bool]]:
    """Each question, as it is and of keys that may be anywhere."""
    every = [what for what in QUESTIONS if cluster.view.store == "versioned" or what[:2] not in
             ("hi", "as")]  # fmt: skip
    return [(what, False) for what in every] + [(what, True) for what in every if what in ANYWHERE]


def is_whole(what: str, answer: Answer) -> bool:
    if answer.status != 200:
        return False
    if what == "batch":
        return {item["status"] for item in answer.json()["items"]} == {200}
    return True


def codes(what: str, answer: Answer) -> set[str]:
    """Why not; of a batch the codes of its items."""
    if what == "batch":
        return {item["code"] for item in answer.json()["items"] if item["status"] == 503}
    assert answer.status == 503, (what, answer)
    return {answer.json()["code"]} if answer.body else {"owner-unreachable"}


def test_one_that_hangs_is_passed_over_at_once_whatever_is_asked(cluster: Cluster) -> None:
    cluster.hung = {"b2"}
    for what, anywhere in asked_of(cluster):
        answer = ask(cluster, what, anywhere)
        assert is_whole(what, answer), (what, anywhere, answer)
        # once, for it is suspected then; and not for long, for its standby is left
        assert cluster.waits, what
        assert set(cluster.waits) == {WHILE_OTHERS_ARE_LEFT}, (what, anywhere, cluster.waits)
        assert len(cluster.waits) <= (8 if anywhere and what == "batch" else 1), what


def test_nobody_is_given_up_earlier_than_by_another_question(cluster: Cluster) -> None:
    """The last one that is left has as long as is set, whatever is asked."""
    cluster.hung = {"b2", "b3"}
    for what, anywhere in asked_of(cluster):
        answer = ask(cluster, what, anywhere)
        assert codes(what, answer) == {"owner-unreachable"}, (what, anywhere)
        assert set(cluster.waits) == {WHILE_OTHERS_ARE_LEFT, None}, (what, cluster.waits)
    for what, anywhere in asked_of(cluster):
        if anywhere or what in ("point", "search", "batch", "page", "count", "top", "history"):
            answer = ask(cluster, what, anywhere, "stale=never")
            assert codes(what, answer) == {"owner-unreachable"}, (what, anywhere)
            assert set(cluster.waits) == {None}, "the active alone will do"


def test_once_suspected_it_is_not_waited_for(cluster: Cluster) -> None:
    cluster.hung = {"b2"}
    ask(cluster, "point")
    for what, anywhere in asked_of(cluster):
        ask(cluster, what, anywhere)
        for node in cluster.nodes.values():
            node.context.group.peers.failed("b2")
        cluster.waits.clear()
        key = next(key for key in KEYS if cluster.home(key.encode()) == 1)
        cluster.ask("b1", "GET", f"/views/orders/keys/{key}")
        cluster.ask("b1", "GET", "/views/orders/keys")
        assert cluster.waits == [], what
    cluster.hung = set()


async def rounds_of(rounds: Rounds[str], holders: list[str], most: int = 50) -> list[str]:
    """Whom a question that everybody refuses asks."""
    asked = []
    for _ in range(most):
        turn = rounds.turn(0, holders)
        assert rounds.turn(0, holders) == turn, "the same within a round"
        asked.append(turn.holder)
        assert turn.others_left == (asked.count(turn.holder) > asked.count(holders[-1]))
        if not await rounds.again():
            break
    return asked


def test_all_are_asked_and_asked_again_until_the_wait_is_over(clock: list[float]) -> None:
    assert asyncio.run(rounds_of(Rounds(0.0), ["a", "b", "c"])) == ["a", "b", "c"]
    assert asyncio.run(rounds_of(Rounds(0.05), ["a", "b"])) == ["a", "b", "a", "b", "a"]
    assert clock == [pytest.approx(100.06)]


def test_partitions_with_more_and_with_fewer_holders(clock: list[float]) -> None:
    """Each holder is asked once without a pause, and no longer: else three holders of one and two
    of another would be asked six times before anybody looks at the clock."""

    async def ask() -> list[str]:
        rounds: Rounds[str] = Rounds(0.0)
        asked = []
        while True:
            asked += [rounds.turn(p, of).holder for p, of in enumerate(["abc", "de"])]
            if not await rounds.again():
                return asked

    assert asyncio.run(ask()) == ["a", "d", "b", "e", "c", "d"]
    assert clock == [100.0]


def test_one_that_goes_last_meanwhile_is_not_asked_twice(clock: list[float]) -> None:
    async def ask() -> list[str]:
        rounds: Rounds[str] = Rounds(0.0)
        first = rounds.turn(0, ["a", "b"]).holder
        assert await rounds.again()
        second = rounds.turn(0, ["b", "a"]).holder  # a is suspected by now
        assert not await rounds.again()
        return [first, second]

    assert asyncio.run(ask()) == ["a", "b"]


@pytest.mark.parametrize(
    ("code", "marked", "waits"),
    [
        ("catching-up", False, 1.0),
        ("not-up-to-offset", False, 5.0),
        ("catching-up", True, WHILE_OTHERS_ARE_LEFT / 2),
        ("not-up-to-offset", True, WHILE_OTHERS_ARE_LEFT / 2),
    ],
)
def test_how_long(clock: list[float], code: str, marked: bool, waits: float) -> None:
    """A marked request does not wait longer than the one that asks waits for its answer."""

    async def ask() -> None:
        rounds: Rounds[str] = Rounds(1.0, marked)
        rounds.refused(code)
        while await rounds.again():
            pass

    asyncio.run(ask())
    assert clock[0] == pytest.approx(100 + waits, abs=0.021)


@pytest.mark.slow
def test_a_question_that_waits_is_not_taken_for_a_hung_instance(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a long wait set, the asked one says within its time that it is not so far."""
    cluster.hung = set()
    for id_ in ("b2", "b3"):
        patient = Constants(wait_timeout=3600)
        monkeypatch.setattr(cluster.nodes[id_].context, "constants", patient)
    answer = ask(cluster, "point", query="min_offset=1:100000")
    assert (answer.status, answer.json()["code"]) == (503, "not-up-to-offset")


@pytest.mark.parametrize("id_", ["b1", "b2", "b3"])
@pytest.mark.parametrize("anywhere", [False, True])
def test_a_proxy_does_not_ask_others_for_an_offset_that_nobody_has(
    cluster: Cluster, id_: str, anywhere: bool
) -> None:
    """The instance has asked all holders, and clients could use up the proxy's retry budget."""
    cluster.hung, cluster.mispartitioned = set(), anywhere
    cluster.place(cluster.active, cluster.standbys)
    key = next(key for key in KEYS if cluster.home(key.encode()) == 1)
    of_proxy = {FINAL_STATUS.decode(): "530"}
    for headers, status in (({}, 503), (of_proxy, 530)):
        for offset in ("1:100000", "77:0"):  # and one of an unknown partition
            target = f"/views/orders/keys/{key}?min_offset={offset}"
            answer = cluster.ask(id_, "GET", target, headers=headers)
            assert (answer.status, answer.json()["code"]) == (status, "not-up-to-offset")
            assert answer.headers["retry-after"] == "1"
            assert "retry-elsewhere" not in answer.headers


def test_a_proxy_asks_others_if_the_holders_do_not_answer(cluster: Cluster) -> None:
    cluster.hung = {"b2", "b3"}
    cluster.mispartitioned = False
    cluster.place(cluster.active, cluster.standbys)
    key = next(key for key in KEYS if cluster.home(key.encode()) == 1)
    target, of_proxy = f"/views/orders/keys/{key}?min_offset=1:0", {FINAL_STATUS.decode(): "530"}
    answer = cluster.ask("b1", "GET", target, headers=of_proxy)
    assert (answer.status, answer.json()["code"]) == (503, "owner-unreachable")


class Streaming:
    """A PeerClient of streams: what each instance does."""

    def __init__(self, **does: str) -> None:
        self._does = does
        self.ended: list[str] = []
        self.waits: dict[str, float | None] = {}  # how long each one may be silent

    @asynccontextmanager
    async def stream(
        self,
        member: Member,
        target: bytes,
        headers: Any,
        timeout: float | None = None,
        within: float | None = None,
    ) -> AsyncIterator[tuple[Sent, Any]]:
        does = self._does[member.id]
        self.waits[member.id] = timeout
        if does == "hangs":
            raise Unavailable("owner-unreachable", "It is silent for too long.")
        if does == "is down":
            raise Unavailable("owner-unreachable", "It is down.")
        try:
            status = 200 if does == "streams" else 503
            more = [RETRY_ELSEWHERE_NO] if does == "is hopeless" else []
            yield Sent(status, [(b"served-by", member.id.encode()), *more], b""), None
        finally:
            self.ended.append(member.id)


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("streams", "hangs", "200 b2"),
        ("hangs", "streams", "200 b3"),
        ("is down", "streams", "200 b3"),
        ("refuses", "streams", "200 b3"),
        ("streams", "streams", "200 b2"),
        ("hangs", "refuses", "503 b3"),
        ("refuses", "hangs", "owner-unreachable"),
        ("hangs", "hangs", "owner-unreachable"),
        ("is down", "is down", "owner-unreachable"),
        ("is hopeless", "streams", "503 b2"),
        ("refuses", "is hopeless", "503 b3"),
    ],
)
def test_a_stream_begins_at_the_next_holder(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, first: str, second: str, found: str
) -> None:
    """A stream of changes, too, does not wait for one that hangs while another is left."""
    context = cluster.nodes["b1"].context
    peer_client = Streaming(b2=first, b3=second)
    members = [Member(id_, "127.0.0.1", 1) for id_ in ("b2", "b3")]

    async def begin() -> str:
        asker = Asker(context, cast(Any, peer_client))
        async with AsyncExitStack() as stack:
            try:
                answer, _ = await asker.begin_stream(stack, 0, members, b"/", [])
            except Unavailable as unavailable:
                return unavailable.code
            began = dict(answer.headers)[b"served-by"].decode()
            assert began not in peer_client.ended, "it goes on"
            return f"{answer.status} {began}"

    assert asyncio.run(begin()) == found
    refused = ["b2"] if first in ("refuses", "streams", "is hopeless") else []
    refused += ["b3"] if found.endswith("b3") else []
    assert peer_client.ended == refused, "no connection is left"
    both = {"b2": asking.WHILE_OTHERS_ARE_LEFT, "b3": None}
    only_first = first in ("streams", "is hopeless")
    assert peer_client.waits == ({"b2": both["b2"]} if only_first else both)


def test_in_slices_all_is_the_same(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer to another instance ends after a moment; whoever asked goes on from there."""
    cluster.hung = set()
    whole: dict[str, Any] = {}
    for slice_, turn in ((scan_budget.MAX_SECONDS, scan_budget.YIELD_AFTER), (0.0, 1)):
        monkeypatch.setattr(scan_budget, "MAX_SECONDS", slice_)
        monkeypatch.setattr(scan_budget, "YIELD_AFTER", turn)
        for what in ("page", "stream", "count", "top"):
            answer = ask(cluster, what)
            assert answer.status == 200, answer
            assert whole.setdefault(what, answer.body) == answer.body, what
    assert json.loads(whole["count"]) == {"count": len(KEYS), "exact": True}
