"""Keys in the bodies of requests, as JSON values of the view's key format."""

from __future__ import annotations

import re
from typing import Any

from backend.queries.point import ViewReads
from model.formats.base64url import from_base64url
from model.formats.json_decoder import decode_body
from model.limits import check_json
from model.problems import BadRequest
from model.rows.json_members import value_end
from model.views import View

MAX_KEYS = 1000

_BEFORE_KEYS = re.compile(rb'\s*\{\s*"keys"\s*:\s*\[\s*')
_MEMBER = re.compile(rb'\s*[{,]\s*"(\w+)"\s*:\s*')
_BETWEEN = re.compile(rb"\s*,?\s*")


def parse_batch(body: bytes, exact: bool = False) -> list[tuple[Any, bytes]]:
    """Each key, parsed and, if `exact`, as written. Raises BadRequest."""
    check_json(body)
    try:
        document = decode_body(body)
    except ValueError as e:
        raise BadRequest("bad-request", f"The body is {e}.") from None
    if not isinstance(document, dict) or list(document) != ["keys"]:
        raise BadRequest("bad-request", 'The body must be {"keys": […]}.')
    keys = document["keys"]
    if not isinstance(keys, list):
        raise BadRequest("bad-request", "keys is not a list.")
    if len(keys) > MAX_KEYS:
        raise BadRequest("too-many-keys", f"{len(keys)} keys; a batch has at most {MAX_KEYS}.")
    if exact or body.count(b"keys") != 1:  # "keys" is given twice, or is a key itself
        return list(zip(keys, _texts(body, len(keys)), strict=True))
    return [(key, b"") for key in keys]


def needs_exact(view: View) -> bool:
    """Whether every byte of a JSON key matters."""
    return view.key_codec.json_is_exact


def parse_search(body: bytes) -> tuple[Any, bytes]:
    """The key of `{"query": key}`, parsed and as written. Raises BadRequest."""
    return parse_members(body, required=("query",))["query"]


def parse_members(
    body: bytes, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, tuple[Any, bytes]]:
    """The members of a JSON object, each parsed and as written. Raises BadRequest."""
    check_json(body)
    try:
        document = decode_body(body)
    except ValueError as e:
        raise BadRequest("bad-request", f"The body is {e}.") from None
    known = "{" + ", ".join(f'"{name}": …' for name in (*required, *optional)) + "}"
    if not isinstance(document, dict) or not set(required) <= document.keys() <= {
        *required,
        *optional,
    }:
        raise BadRequest("bad-request", f"The body must be {known}.")
    position = 0
    members: dict[str, tuple[Any, bytes]] = {}
    while member := _MEMBER.match(body, position):
        name = member[1].decode()
        if name not in document or name in members:
            break
        position = value_end(body, member.end())
        members[name] = document[name], body[member.end() : position]
    if len(members) != len(document) or body[position:].strip() != b"}":
        raise BadRequest(
            "bad-request", f"The body must be {known}, with each name once and without escapes."
        )
    return members


def text_keys(reads: ViewReads, asked: list[tuple[Any, bytes]]) -> dict[int, bytes] | None:
    """Record bytes of keys that are text; None if one of them needs `record_key`."""
    values = [value for value, _ in asked]
    if not reads.view.key_codec.is_text or not {str}.issuperset(map(type, values)):
        return None
    try:
        keys = list(map(str.encode, values))
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    if max(map(len, keys), default=0) > reads.max_key_bytes:
        return None
    return dict(enumerate(keys))


def record_key(reads: ViewReads, value: object, written: bytes) -> bytes:
    """Record bytes of a key in JSON. Raises BadRequest, KeyTooLong."""
    try:
        text, is_raw = reads.view.key_codec.json_to_text(value, written)
        if is_raw:
            text = from_base64url(text)
    except ValueError as e:
        raise BadRequest("key-undecodable", f"The key is {e}.") from None
    return reads.parse_raw_key(text) if is_raw else reads.parse_key(text)


def _texts(text: bytes, count: int) -> list[bytes]:
    """The elements of the list as written: every byte of a JSON key matters."""
    start = _BEFORE_KEYS.match(text)
    if start is None:
        raise BadRequest("bad-request", 'Write "keys" once, and without escapes.')
    position, texts = start.end(), []
    try:
        for _ in range(count):
            end = value_end(text, position)
            texts.append(text[position:end])
            between = _BETWEEN.match(text, end)
            assert between is not None
            position = between.end()
    except ValueError:  # another list than that which counts is shorter
        raise BadRequest("bad-request", 'Write "keys" once.') from None
    if text[position:].strip() != b"]}" and text[position:].split() != [b"]", b"}"]:
        raise BadRequest("bad-request", 'The body must be {"keys": […]}, with "keys" once.')
    return texts
