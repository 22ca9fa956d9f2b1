"""An answer, before it is written to whoever asked."""

from __future__ import annotations

from dataclasses import dataclass

from backend.core.errors import Problem

Header = tuple[bytes, bytes]


@dataclass(slots=True)
class Answer:
    """Status, headers (lower-case names) and body. Content-Length is added when it is sent."""

    status: int
    headers: list[Header]
    body: bytes


def problem_answer(problem: Problem, headers: list[Header] | None = None) -> Answer:
    """A Problem as an answer; `headers` are added to its own."""
    return Answer(problem.status, problem.headers() + (headers or []), problem.body())
