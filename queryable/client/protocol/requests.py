"""One request to the API, before it is known which instance gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MAX_ATTEMPTS = 8
_JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """`instances`: base URLs to try before the client's own URL, in this order.

    `is_idempotent`: sending it twice does no harm. `max_attempts` counts the first one.
    """

    target: str
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes | None = None
    instances: tuple[str, ...] = ()
    is_idempotent: bool = True
    max_attempts: int = MAX_ATTEMPTS


def json_post(target: str, body: bytes, *, is_idempotent: bool) -> ApiRequest:
    return ApiRequest(target, "POST", _JSON, body, is_idempotent=is_idempotent)
