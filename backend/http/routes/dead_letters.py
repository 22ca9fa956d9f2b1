"""The newest dead letters of a view's topic, and why they are dead letters."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import orjson

from backend.http.parameters import parse_parameters
from backend.http.request import Request
from backend.ingest.dead_letter_reader import MAX_LETTERS
from backend.instance_context import InstanceContext
from backend.wire.answer import JSON, Answer
from model.problems import BadRequest

_DEFAULT = 100


class DeadLetterRoute:
    """The handler of `GET /admin/views/{view}/dead-letters`."""

    def __init__(self, context: InstanceContext) -> None:
        self._context = context

    async def dead_letters(self, request: Request) -> Answer:
        limit = parse_parameters(request.query, ("limit",)).raw("limit")
        wanted = _DEFAULT if limit is None else int(limit) if limit.isdigit() else 0
        if not 1 <= wanted <= MAX_LETTERS:
            raise BadRequest("bad-parameter", f"limit is a whole number from 1 to {MAX_LETTERS}.")
        read = self._context.dead_letter_reader.newest
        found = await asyncio.to_thread(read, request.of.topic, wanted)
        document = {**found, "reasons": _reasons(found["items"])}
        return Answer(200, [JSON, (b"cache-control", b"no-store")], orjson.dumps(document))


def _reasons(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many of the items have each reason, the most frequent first."""
    counts = Counter(item["reason"] for item in items)
    return [{"reason": reason, "count": count} for reason, count in counts.most_common()]
