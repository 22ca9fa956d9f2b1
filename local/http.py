"""Requests of readiness checks and examples."""

from __future__ import annotations

from collections.abc import Mapping

from model.http.answers import Answer, RequestFailed
from model.http.requests import send

_MAX_BYTES = 64 << 20


def get(url: str, timeout: float = 5.0, headers: Mapping[str, str] | None = None) -> Answer:
    """GET of a URL. Status 0: there is no answer, and ``body`` has the reason."""
    try:
        return send(url, timeout, _MAX_BYTES, headers=headers or {})
    except RequestFailed as error:
        return Answer(0, {}, str(error).encode())
