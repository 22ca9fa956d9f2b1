"""What is the same for all answers: headers that every answer has, changes of a status, and how an
answer is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backend.http.asgi import Message, Send
from backend.wire.answer import Answer, Header
from model.problems import RETRY_ELSEWHERE_NO, Problem
from model.topology import ROLES

SEVERAL = "several"
"""The role of an answer from store partitions of several roles."""
_NON_RETRYABLE = 530
_SERVED_BY = b"served-by"
_VARY = b"vary"
_ROLES = {role.encode(): role for role in ROLES}


def complete(answer: Answer, method: str, epoch: bytes) -> None:
    """Adds Content-Length and Topology-Epoch."""
    headers = answer.headers
    if answer.status == 304:
        pass  # it would have to be the length of the body, which is not sent
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
    """A `send` that sends a NonRetryable problem with a status of its own."""

    async def sending(message: Message) -> None:
        if message.get("status") == 503 and RETRY_ELSEWHERE_NO in message["headers"]:
            message["status"] = _NON_RETRYABLE
        await send(message)

    return sending


def varying(headers: Sequence[Header], more: Sequence[Header]) -> list[Header]:
    """Both lists of headers as one. All names in `Vary` are in one line, because the proxy and some
    caches use only one line."""
    headers_together = [*headers, *more]
    lines = [value for name, value in headers_together if name == _VARY]
    names = dict.fromkeys(name.strip() for line in lines for name in line.split(b","))
    rest = [header for header in headers_together if header[0] != _VARY]
    return [*rest, (_VARY, b", ".join(names))] if names else rest


def with_headers(send: Send, added: list[Header]) -> Send:
    """A `send` that adds headers to the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = varying(message["headers"], added)
        await send(message)

    return sending


def internal_error() -> Problem:
    return Problem("internal-error", "Unexpected error. See the log of the instance.")


def role_of(headers: Iterable[Header]) -> str:
    """The role of the store partitions that an answer is from (`Served-By`); see `Labels`."""
    for name, value in headers:
        if name == _SERVED_BY:
            if b"," not in value:
                return _ROLES.get(value.rpartition(b"; ")[2], "")
            roles = {_ROLES.get(item.rpartition(b"; ")[2], "") for item in value.split(b", ")}
            return roles.pop() if len(roles) == 1 else SEVERAL
    return ""


async def send_answer(
    answer: Answer, method: str, epoch: bytes, send: Send, is_of_proxy: bool = False
) -> None:
    """Sends a complete answer. A final answer to a proxy gets a status of its own, as in
    `with_final_status`."""
    complete(answer, method, epoch)
    status = _NON_RETRYABLE if is_of_proxy and answer.is_final else answer.status
    await send({"type": "http.response.start", "status": status, "headers": answer.headers})
    body = b"" if method == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body})
