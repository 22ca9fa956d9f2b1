"""The subject and the version of a schema, which its file names."""

from __future__ import annotations

import json
from typing import Any

from model.formats.format import Origin

_MEMBER = "x-registry"
"""A member that Avro and JSON Schema ignore, as they do all members that they do not define."""


def with_origin(document: Any, origin: Origin) -> bytes:
    """The file of a schema that is a JSON document. Raises ValueError if it is not an object."""
    if not isinstance(document, dict):
        raise ValueError("the schema is not a JSON object, so it declares no fields")
    document = {name: value for name, value in document.items() if name != _MEMBER}
    marked = {**document, _MEMBER: _members(origin)}
    return f"{json.dumps(marked, indent=2, ensure_ascii=False)}\n".encode("utf-8", "replace")


def origin_in(content: bytes) -> Origin | None:
    """The origin in a file of `with_origin`; None in others."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return _origin(document.get(_MEMBER)) if isinstance(document, dict) else None


def origin_text(origin: Origin) -> str:
    """The origin as a comment."""
    return json.dumps({_MEMBER: _members(origin)}, ensure_ascii=False)


def origin_from(comment: str) -> Origin | None:
    """The inverse of `origin_text`; None for other comments."""
    return origin_in(comment.encode())


def _members(origin: Origin) -> dict[str, Any]:
    return {"subject": origin.subject, "version": origin.version, "id": origin.schema_id}


def _origin(members: Any) -> Origin | None:
    if not isinstance(members, dict):
        return None
    subject, version, schema_id = (members.get(name) for name in ("subject", "version", "id"))
    if not isinstance(subject, str) or type(version) is not int or type(schema_id) is not int:
        return None
    return Origin(subject, version, schema_id)
