"""What each replica of a key's partition has of the key, side by side: its value, or its windows,
sessions or versions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from backend.cluster.group_state import GroupState
from backend.cluster.peer_client import PeerClient
from backend.http.parameters import key_bytes, parse_parameters
from backend.http.request import Request
from backend.http.responses import KeyResponses
from backend.http.view_versions import pinned_headers
from backend.queries.history import MAX_LIMIT
from backend.queries.routing import NotOwner, ReadOptions
from backend.wire.answer import Answer, json_answer, problem_answer
from backend.wire.scan import ALLOW
from model.formats.base64url import to_base64url
from model.problems import BadRequest, Problem
from model.topology import Member
from model.views import View

MAX_REPLICAS = 20  # a global view has one on each instance
_TIMEOUT = 2.0  # s for the answer of one replica
_SHOWN = ("offset", "lag", "staleness")


class ReplicaRoute:
    """The handler of `GET /admin/views/{view}/replicas`."""

    def __init__(
        self,
        group: GroupState,
        responses: Mapping[str, KeyResponses],
        peer_client: PeerClient,
    ) -> None:
        self._group = group
        self._responses = responses
        self._peer_client = peer_client

    async def replicas(self, request: Request) -> Answer:
        """Answers with what each replica has, also replicas that are catching up or lag."""
        view = request.routed_view
        responses = self._responses[view.name]
        parameters = parse_parameters(request.query, ("key", "encoding"))
        text = parameters.raw("key")
        if text is None:
            raise BadRequest("bad-parameter", "key is missing.")
        is_encoded = parameters.choice("encoding", "text", "base64url") == "base64url"
        reads = responses.reads
        key = reads.parse_raw_key(key_bytes(text)) if is_encoded else reads.parse_key(text)
        partition = reads.partition(key)
        holders = self._group.topology.holders_of(view.name, partition)[:MAX_REPLICAS]
        answers = await asyncio.gather(*(self._ask(holder, view, key) for holder in holders))
        active = self._group.topology.active_of(view.name, partition)
        document = {
            "partition": partition,
            "replicas": [
                _document(member, member == active, answer)
                for member, answer in zip(holders, answers, strict=True)
            ],
        }
        return json_answer(document)

    async def _ask(self, member: Member, view: View, key: bytes) -> Answer:
        """The answer of one replica, whatever it is."""
        history = view.kind.history
        try:
            if member == self._group.me and history is None:
                return self._responses[view.name].point(key, ReadOptions(stale=ALLOW))
            below = b"" if history is None else b"/%b" % history.encode()
            target = b"/views/%b/keys/%b%b?encoding=base64url&stale=allow" % (
                view.base.encode(),
                to_base64url(key),
                below,
            )
            if history is not None:
                target += b"&limit=%d" % MAX_LIMIT
            headers = pinned_headers([], view, self._group.versions)
            return await self._peer_client.forward(member, "GET", target, headers, timeout=_TIMEOUT)
        except NotOwner as others:
            return problem_answer(others.why)
        except Problem as problem:
            return problem_answer(problem)


def _document(member: Member, is_active: bool, answer: Answer) -> dict[str, Any]:
    """{"id", "role", "status", "offset", "lag", "staleness"}, and the "document" as it was sent, or
    the "code" and "detail" of a problem."""
    headers = {name: value.decode("latin-1") for name, value in answer.headers}
    document: dict[str, Any] = {
        "id": member.id,
        "role": "active" if is_active else "standby",
        "status": answer.status,
        **{name: headers.get(name.encode()) for name in _SHOWN},
    }
    if answer.status == 200:
        # the body is JSON, whose numbers keep all their digits
        return {**document, "document": orjson.Fragment(answer.body)}
    try:
        problem = orjson.loads(answer.body)
        return {**document, "code": problem["code"], "detail": problem["detail"]}
    except (ValueError, KeyError, TypeError):
        return document
