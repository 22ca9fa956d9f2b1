"""The members of a command's JSON body."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from backend.http.limits.bodies import json_of, require_json
from backend.http.request import Request
from model.problems import BadRequest

Allowed = range | tuple[str, ...] | None
"""The allowed values of a member: whole numbers, texts, or (None) true and false."""


def members(
    request: Request, allowed: Mapping[str, Allowed], required: Collection[str] = ()
) -> dict[str, Any]:
    """The members of the body. Raises BadRequest, UnsupportedMediaType."""
    require_json(request.headers)
    document = json_of(request.body)
    if not isinstance(document, dict) or not set(required) <= document.keys() <= allowed.keys():
        names = [name if name in required else f"optionally {name}" for name in allowed]
        raise BadRequest("bad-request", f"The body must be a JSON object with: {', '.join(names)}.")
    for name, value in document.items():
        if type(value) is not _type_of(allowed[name]) or (
            (values := allowed[name]) is not None and value not in values
        ):
            raise BadRequest("bad-request", f"{name} is {_shown(allowed[name])}.")
    checked: dict[str, Any] = document
    return checked


def _type_of(allowed: Allowed) -> type:
    if allowed is None:
        return bool
    return int if isinstance(allowed, range) else str


def _shown(allowed: Allowed) -> str:
    if allowed is None:
        return "true or false"
    if isinstance(allowed, range):
        return f"a whole number from {allowed.start} to {allowed.stop - 1}"
    return f"{', '.join(allowed[:-1])} or {allowed[-1]}"
