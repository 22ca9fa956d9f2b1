"""Requests whose path cannot be matched on this instance. They are refused, or forwarded.

Instances have different files for a moment, for example during a rolling restart. So a view may not
be declared here, or in another way than in its group. A read of a key, a batch, and the description
of such a view are forwarded to an instance that has it. Everything else is 503: queries of whole
views may take long, streams would need a place on both instances, and whoever changes something
should know which instance does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from backend.http.access import Access
from backend.http.asgi import Scope
from backend.http.negotiation import wants_lines
from backend.http.paths import Elsewhere
from backend.http.request import Request
from backend.http.route_table import OTHER, Match, Route
from backend.instance_context import MAX_OTHERS, VIEW_VERSION, InstanceContext
from backend.queries.retry import Asker, may_change
from backend.wire.answer import MARK, Answer, code_of
from model.formats.registry import FORMATS, format_of
from model.limits import MAX_BATCH_BYTES
from model.partitioner import PARTITIONERS, partition_of
from model.problems import Problem, Unavailable
from model.topology import Member, PlacedView

_READ = ("GET", "HEAD")
_BODIES = (b"batch", b"search")
_STREAMED = b"changes"


class UnmatchedRequests:
    """Used in the event loop."""

    def __init__(self, context: InstanceContext, gate: AbstractAsyncContextManager[None]) -> None:
        """`gate`: limits the requests that are answered at once."""
        self._context = context
        self._gate = gate
        self._asker: Asker | None = None

    def start(self, asker: Asker) -> None:
        self._asker = asker

    def match(self, problem: Problem, scope: Scope) -> Match:
        """The route of a request. `problem`: why its path has no other one. The sender of a request
        that is forwarded must be allowed to read the view."""
        if not isinstance(problem, Elsewhere):
            return Match(Route((), OTHER, Access.ANY_SCOPE, partial(_refuse, problem), self._gate))
        has_body = scope["method"] == "POST" and _last(scope["raw_path"]) in _BODIES
        handler = partial(self._answer, problem)
        body = MAX_BATCH_BYTES if has_body else 0
        return Match(Route((), OTHER, Access.READ, handler, self._gate, body), base=problem.base)

    async def _answer(self, problem: Elsewhere, request: Request) -> Answer:
        if request.header(MARK) is not None or not _is_forwarded(problem, request):
            raise problem
        members = self._members(problem, request)
        if not members:
            raise problem
        path = problem.path or request.raw_path
        target = path + b"?" + request.query if request.query else path
        headers = [header for header in request.headers if header[0] != VIEW_VERSION]
        assert self._asker is not None
        asker, rounds = self._asker, self._asker.rounds()
        answer: Answer | Unavailable = problem

        async def attempt() -> bool:
            nonlocal answer
            try:
                answer = await asker.ask(
                    rounds.turn(0, members), request.method, target, headers, request.body
                )
            except Unavailable as unavailable:
                answer = unavailable
                return True
            if answer.status == 503:
                rounds.refused(code_of(answer))
            return may_change(answer)

        await rounds.repeat(attempt)
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    def _members(self, problem: Elsewhere, request: Request) -> Sequence[Member]:
        """The instances to ask, in order: those with the key's partition, if it can be computed."""
        topology, peers = self._context.topology, self._context.peers
        placed = topology.views.get(problem.stored)
        if placed is None:
            return ()
        partition = _partition(placed, problem.key) if not request.query else None
        partitions = range(placed.partitions) if partition is None else (partition,)
        indexes = dict.fromkeys(index for each in partitions for index in placed.holders(each))
        members = [topology.members[index] for index in indexes]
        others = [member for member in members if member != self._context.me]
        others.sort(key=lambda member: peers.is_suspect(member.id))
        return others[:MAX_OTHERS]


async def _refuse(problem: Problem, request: Request) -> None:
    raise problem


def _last(raw_path: bytes) -> bytes:
    return raw_path.rpartition(b"/")[2]


def _is_forwarded(problem: Elsewhere, request: Request) -> bool:
    if request.method == "POST":
        return _last(request.raw_path) in _BODIES and not problem.key
    if request.method not in _READ or wants_lines(request.headers):
        return False
    is_description = request.raw_path.count(b"/") == 2
    return is_description or (bool(problem.key) and problem.rest != _STREAMED)


def _partition(placed: PlacedView, text: bytes) -> int | None:
    """The partition of a key; None if it is not computed here. `text`: of the key, as it is in the
    path."""
    description = placed.description
    key, partitioner = description["key"], description["partitioner"]
    if not text or b"%" in text or not placed.partitions or placed.several_partitions:
        return None
    if key not in FORMATS or partitioner not in PARTITIONERS or "key_schema" in description:
        return None
    try:
        raw = format_of(key).codec_with(None, None).from_text(text)
    except ValueError:
        return None
    return partition_of(partitioner)(raw, placed.partitions)
