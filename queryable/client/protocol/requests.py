"""A request to the API, before an instance is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MAX_ATTEMPTS = 8
NOTHING_WRITTEN = frozenset(
    (
        "overloaded",
        "draining",
        "no-topology",
        "topic-missing",
        "keys-unavailable",
        "quota-exceeded",
        "too-many-requests",
        "version-unknown",
    )
)
"""Codes of a 503 or 429 which mean that the appended record was not written."""
_JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """`instances`: base URLs to try before the client's own URL, in this order.

    `is_idempotent`: it may be sent twice. `max_attempts` includes the first attempt.
    """

    target: str
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes | None = None
    instances: tuple[str, ...] = ()
    is_idempotent: bool = True
    max_attempts: int = MAX_ATTEMPTS


def json_post(
    target: str, body: bytes, *, is_idempotent: bool, version: int | None = None
) -> ApiRequest:
    """`version`: the version of the view that the body is for."""
    headers = _JSON if version is None else {**_JSON, "view-version": str(version)}
    return ApiRequest(target, "POST", headers, body, is_idempotent=is_idempotent)
