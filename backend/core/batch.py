"""Keys in bodies of requests: JSON values of the view's key format."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from backend.core.errors import BadRequest
from backend.core.views import View

MAX_KEYS = 1000

_BEFORE_KEYS = re.compile(r'\s*\{\s*"keys"\s*:\s*\[\s*')
_BEFORE_QUERY = re.compile(r'\s*\{\s*"query"\s*:\s*')
_BY_VALUE = ("string", "uuid", "bytes", "int32", "int64", "float64")
_BETWEEN = re.compile(r"\s*,?\s*")


def parse_batch(body: bytes, exact: bool = False) -> list[tuple[Any, bytes]]:
    """Each key as it was read and, if `exact`, as it was written; BadRequest."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as e:
        raise BadRequest("bad-request", f"The body is not JSON: {e}.") from None
    if not isinstance(document, dict) or list(document) != ["keys"]:
        raise BadRequest("bad-request", 'The body is {"keys": […]}, and nothing else.')
    keys = document["keys"]
    if not isinstance(keys, list):
        raise BadRequest("bad-request", "keys is not a list.")
    if len(keys) > MAX_KEYS:
        raise BadRequest("too-many-keys", f"{len(keys)} keys; a batch has {MAX_KEYS} at most.")
    if exact or body.count(b"keys") != 1:  # given twice, or a key itself
        return list(zip(keys, _texts(body.decode(), len(keys)), strict=True))
    return [(key, b"") for key in keys]


def needs_exact(view: View) -> bool:
    """Whether every byte of a key in JSON matters."""
    return view.key not in _BY_VALUE


def parse_search(body: bytes) -> tuple[Any, bytes]:
    """The key of `{"query": key}` as it was read and as it was written; BadRequest."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as e:
        raise BadRequest("bad-request", f"The body is not JSON: {e}.") from None
    text = body.decode()
    start = _BEFORE_QUERY.match(text)
    if not isinstance(document, dict) or list(document) != ["query"] or start is None:
        raise BadRequest("bad-request", 'The body is {"query": key}, and nothing else.')
    try:
        _, end = json.JSONDecoder().raw_decode(text, start.end())
    except RecursionError:
        raise BadRequest("bad-request", "The key is too deep.") from None
    if text[end:].strip() != "}":
        raise BadRequest("bad-request", 'The body is {"query": key}, with "query" once.')
    return document["query"], text[start.end() : end].encode()


def _texts(text: str, count: int) -> list[bytes]:
    """The elements of the list as they stand there: of a JSON key every byte matters."""
    start = _BEFORE_KEYS.match(text)
    if start is None:
        raise BadRequest("bad-request", 'Write "keys" without escapes, and once.')
    at, found = start.end(), []
    scan = json.JSONDecoder().raw_decode
    try:
        for _ in range(count):
            _, end = scan(text, at)
            found.append(text[at:end].encode())
            between = _BETWEEN.match(text, end)
            assert between is not None
            at = between.end()
    except (ValueError, RecursionError):
        raise BadRequest("bad-request", "The keys are too deep, or given twice.") from None
    if text[at:].strip() != "]}" and text[at:].split() != ["]", "}"]:
        raise BadRequest("bad-request", 'The body is {"keys": […]}, with "keys" once.')
    return found


def key_text(view: View, value: Any, written: bytes) -> tuple[bytes, bool]:
    """The key for the codec, and whether it is base64url of record bytes; ValueError."""
    kind = view.key
    if kind in ("int32", "int64"):
        if type(value) is not int:
            raise ValueError(f"no number: {kind} keys are whole JSON numbers")
        return b"%d" % value, False
    if kind == "float64":
        if type(value) in (int, float):
            return repr(float(value)).encode(), False
        if value not in ("NaN", "Infinity", "-Infinity"):
            raise ValueError("no number: float64 keys are JSON numbers, or NaN, Infinity as text")
        return str(value).encode(), False
    if kind in ("string", "uuid", "bytes"):
        if not isinstance(value, str):
            raise ValueError(f"no text: {kind} keys are JSON strings")
        return value.encode(), kind == "bytes"
    return written, False
