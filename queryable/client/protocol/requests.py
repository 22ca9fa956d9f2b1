"""A request to the API, before an instance is chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qsl

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
        "definition-differs",
    )
)
"""Codes of a 503 or 429 which mean that the appended record was not written."""
_JSON = {"content-type": "application/json"}
_MAX_TARGET = 30_000  # bytes; servers accept a request line of 32 KiB


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


def read_request(
    target: str, *, headers: Mapping[str, str] | None = None, instances: tuple[str, ...] = ()
) -> ApiRequest:
    """A GET of pages or of a stream. If the parameters do not fit into a URL, because a cursor or a
    bound is a long key, it is a POST with the parameters in its body."""
    path, _, query = target.partition("?")
    if len(target) > _MAX_TARGET and len(query) > len(target) // 2:
        with suppress(UnicodeDecodeError):  # a bound is not UTF-8: JSON has no bytes
            parameters = dict(parse_qsl(query, keep_blank_values=True, errors="strict"))
            all_headers = {**_JSON, **(headers or {})}
            return ApiRequest(path, "POST", all_headers, json.dumps(parameters).encode(), instances)
    return ApiRequest(target, headers=headers, instances=instances)


def json_post(
    target: str, body: bytes, *, is_idempotent: bool, version: int | None = None
) -> ApiRequest:
    """`version`: the version of the view that the body is for."""
    headers = _JSON if version is None else {**_JSON, "view-version": str(version)}
    return ApiRequest(target, "POST", headers, body, is_idempotent=is_idempotent)
