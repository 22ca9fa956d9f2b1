"""What is the same for all answers: headers that every answer has, and changes of a status."""

from __future__ import annotations

from collections.abc import Sequence

from backend.http.asgi import Message, Send
from backend.wire.answer import FINAL_STATUS, Answer, Header, problem_answer
from model.problems import RETRY_ELSEWHERE_NO, Problem, RetryLater

_NON_RETRYABLE = 530


def complete(answer: Answer, method: str, epoch: bytes) -> None:
    """Adds Content-Length and Topology-Epoch."""
    headers = answer.headers
    if answer.status == 304:
        pass  # its length would be that of the body that is not sent
    elif method != "HEAD" or all(name != b"content-length" for name, _ in headers):
        headers.append((b"content-length", b"%d" % len(answer.body)))
    headers.append((b"topology-epoch", epoch))


def add_missing(headers: list[Header], more: Sequence[Header]) -> None:
    """Adds the headers whose names are not there yet."""
    if not more:
        return
    names = {name for name, _ in headers}
    headers += [header for header in more if header[0] not in names]


def with_final_status(send: Send) -> Send:
    """Sends a NonRetryable problem under a status of its own."""

    async def sending(message: Message) -> None:
        if message.get("status") == 503 and RETRY_ELSEWHERE_NO in message["headers"]:
            message["status"] = _NON_RETRYABLE
        await send(message)

    return sending


def answer_to(problem: Problem, headers: list[Header]) -> Answer:
    """The answer to a request with these headers: a proxy does not retry RetryLater."""
    answer = problem_answer(problem)
    if isinstance(problem, RetryLater) and any(name == FINAL_STATUS for name, _ in headers):
        answer.status = _NON_RETRYABLE
    return answer


def with_headers(send: Send, added: list[Header]) -> Send:
    """Adds headers to the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *added]
        await send(message)

    return sending


def internal_error() -> Problem:
    return Problem("internal-error", "Unexpected error. See the log of the instance.")
