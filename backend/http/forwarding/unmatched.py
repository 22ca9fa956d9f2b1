"""Requests whose path cannot be matched on this instance. They are refused, or forwarded.

Instances have different views.toml files for a moment, for example during a rolling restart. So a
view may be missing here, or be declared differently than in its group. A read of a key, a batch,
and the description of such a view are forwarded to an instance that has it. All other requests get
a 503: queries of whole views may take long, a stream would need a place on both instances, and a
client that changes something should know which instance does it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from urllib.parse import quote, unquote_to_bytes

from backend.cluster.group_state import MAX_OTHERS, VIEW_VERSION, GroupState
from backend.http.access import Access
from backend.http.asgi import Scope
from backend.http.negotiation import stream_type
from backend.http.paths import Elsewhere
from backend.http.request import Request
from backend.http.route_table import OTHER, Match, Route
from backend.queries.key_bodies import parse_search
from backend.queries.retry import Asker, may_change
from backend.wire.answer import MARK, Answer, code_of
from model.formats.codec import Codec
from model.formats.listed_keys import codec_of_keys
from model.formats.registry import FORMATS, format_of
from model.limits import MAX_BATCH_BYTES
from model.partitioner import PARTITIONERS, partition_of
from model.problems import Problem, Unavailable
from model.topology import Member, PlacedView

_READ = ("GET", "HEAD")
_SEARCH = b"search"
_BODIES = (b"batch", _SEARCH)
_ENCODING = b"encoding"  # a parameter: the key is not in the text of its format
_STREAMED = b"changes"


class UnmatchedRequests:
    """Refuses or forwards these requests. Used in the event loop."""

    def __init__(
        self, group: GroupState, gate: AbstractAsyncContextManager[None], asker: Asker
    ) -> None:
        """`gate`: limits the requests that are answered at the same time."""
        self._group = group
        self._gate = gate
        self._asker = asker

    def match(self, problem: Problem, scope: Scope) -> Match:
        """The route of a request. `problem`: why its path has no other route. The sender of a
        request that is forwarded must be allowed to read the view."""
        if not isinstance(problem, Elsewhere):
            return Match(Route((), OTHER, Access.ANY_SCOPE, partial(_refuse, problem), self._gate))
        has_body = scope["method"] == "POST" and _last(scope["raw_path"]) in _BODIES
        handler = partial(self._answer, problem)
        body = MAX_BATCH_BYTES if has_body else 0
        return Match(Route((), OTHER, Access.READ, handler, self._gate, body), base=problem.base)

    async def _answer(self, problem: Elsewhere, request: Request) -> Answer:
        if request.header(MARK) is not None or not _is_forwarded(problem, request):
            raise problem
        placed = self._group.topology.views.get(problem.stored)
        if placed is None:
            raise problem
        key, path = _record_key(placed, problem, request), problem.path or request.raw_path
        other_key = None if key is None else _codec(placed).other_key(key)
        if other_key is not None and problem.rest:
            raise problem  # the other instance would answer for `key` only, not for `other`
        answer = await self._ask(problem, self._members(placed, key), request.method, path, request)
        if answer.status != 404 or other_key is None:
            return answer
        above = path.rpartition(b"/")[0]
        keys = above if problem.key else above + b"/keys"
        method = "GET" if request.method == "POST" else request.method
        path = b"%b/%b" % (keys, quote(other_key).encode())
        members = self._members(placed, other_key)
        other_answer = await self._ask(problem, members, method, path, request)
        return answer if other_answer.status == 404 else other_answer

    async def _ask(
        self, problem: Problem, members: Sequence[Member], method: str, path: bytes, asked: Request
    ) -> Answer:
        """The answer of one of the instances; the last refusal if all refuse."""
        if not members:
            raise problem
        target = path + b"?" + asked.query if asked.query else path
        headers = [header for header in asked.headers if header[0] != VIEW_VERSION]
        body = asked.body if method == "POST" else b""
        asker, rounds = self._asker, self._asker.rounds()
        answer: Answer | Unavailable

        async def attempt() -> bool:
            nonlocal answer
            try:
                answer = await asker.ask(rounds.turn(0, members), method, target, headers, body)
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

    def _members(self, placed: PlacedView, key: bytes | None) -> Sequence[Member]:
        """The instances to ask, in order: those with the key's partition. If that partition is not
        known, all instances that have a partition, in random order, so that the next request begins
        with another one."""
        topology, peers = self._group.topology, self._group.peers
        partition = _partition(placed, key)
        partitions = range(placed.partitions) if partition is None else (partition,)
        indexes = dict.fromkeys(index for p in partitions for index in placed.holders(p))
        members = [topology.members[index] for index in indexes]
        others = [member for member in members if member != self._group.me]
        if partition is None:
            random.shuffle(others)
        others.sort(key=lambda member: peers.is_suspect(member.id))
        return others if partition is None else others[:MAX_OTHERS]


async def _refuse(problem: Problem, request: Request) -> None:
    raise problem


def _last(raw_path: bytes) -> bytes:
    return raw_path.rpartition(b"/")[2]


def _is_forwarded(problem: Elsewhere, request: Request) -> bool:
    if request.method == "POST":
        return _last(request.raw_path) in _BODIES and not problem.key
    if request.method not in _READ or stream_type(request.headers) is not None:
        return False
    is_description = request.raw_path.count(b"/") == 2
    return is_description or (bool(problem.key) and problem.rest != _STREAMED)


def _codec(placed: PlacedView) -> Codec:
    return codec_of_keys(format_of(placed.description["key"]).codec_with(None, None))


def _record_key(placed: PlacedView, problem: Elsewhere, request: Request) -> bytes | None:
    """The record key that a request names by its text; None if it names no key, or if this instance
    cannot compute it."""
    if placed.description["key"] not in FORMATS or "key_schema" in placed.description:
        return None
    try:
        if request.method == "POST" and _last(request.raw_path) == _SEARCH:
            text, is_raw = _codec(placed).json_to_text(*parse_search(request.body))
        else:
            text, is_raw = (
                unquote_to_bytes(problem.key),
                _ENCODING in unquote_to_bytes(request.query),
            )
        return None if is_raw or not text else _codec(placed).from_text(text)
    except (ValueError, Problem):
        return None  # the other instance says what is wrong


def _partition(placed: PlacedView, key: bytes | None) -> int | None:
    """The partition of a record key; None if it is not computed here."""
    partitioner = placed.description["partitioner"]
    is_certain = partitioner in PARTITIONERS and not placed.several_partitions
    if key is None or not placed.partitions or not is_certain:
        return None
    return partition_of(partitioner)(key, placed.partitions)
