"""The newest dead letters of a view's topic, and why they are dead letters."""

from __future__ import annotations

from collections import Counter
from typing import Any

from backend.http.parameters import parse_parameters
from backend.http.request import Request
from backend.http.routes.document_threads import DocumentThreads
from backend.ingest.dead_letter_reader import MAX_LETTERS, DeadLetterReader
from backend.queries.parameters import whole_number
from backend.wire.answer import Answer, json_answer

_DEFAULT = 100


class DeadLetterRoute:
    """The handler of `GET /admin/views/{view}/dead-letters`."""

    def __init__(self, reader: DeadLetterReader, threads: DocumentThreads) -> None:
        self._reader = reader
        self._threads = threads

    async def dead_letters(self, request: Request) -> Answer:
        wanted = parse_parameters(request.query, ("limit",)).parsed("limit", _limit) or _DEFAULT
        read = self._reader.newest
        newest = await self._threads.run(read, request.routed_view.topic, wanted)
        document = {**newest, "reasons": _reasons(newest["items"])}
        return json_answer(document)


def _limit(text: str) -> int:
    number = whole_number(text)
    if not 1 <= number <= MAX_LETTERS:
        raise ValueError(f"{number} is not from 1 to {MAX_LETTERS}")
    return number


def _reasons(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many of the items have each reason, the most frequent first."""
    counts = Counter(item["reason"] for item in items)
    return [{"reason": reason, "count": count} for reason, count in counts.most_common()]
