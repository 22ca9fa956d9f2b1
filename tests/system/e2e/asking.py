"""Asking many keys at once, and what came back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
from yarl import URL

CONCURRENCY = 16


@dataclass(frozen=True)
class Answer:
    """What one key gave; `served_by` is the instance, without its role."""

    status: int
    body: bytes
    etag: str | None
    partition: str | None
    served_by: str

    @property
    def content(self) -> tuple[int, bytes, str | None, str | None]:
        """What must not depend on who was asked."""
        return self.status, self.body, self.etag, self.partition


def ask_all(base: str, keys: Sequence[str]) -> dict[str, Answer]:
    """key -> answer of GET `base`/`key`, with all of the key percent-encoded that may be."""
    return asyncio.run(_ask_all(base, keys))


async def _ask_all(base: str, keys: Iterable[str]) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    waiting = iter(keys)
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def work() -> None:
            for key in waiting:
                url = URL(f"{base}/{quote(key, safe='')}", encoded=True)
                async with session.get(url) as response:
                    answers[key] = Answer(
                        response.status,
                        await response.read(),
                        response.headers.get("ETag"),
                        response.headers.get("Partition"),
                        response.headers.get("Served-By", "").split(";")[0],
                    )

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return answers
