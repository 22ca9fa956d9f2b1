"""Requests in KIQR's REST dialect."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from backend.http.kiqr.routes import KAFKA, PREFIX
from tests.fuzz.pipelining.example import (
    EXTRA,
    HALF,
    HISTORY,
    KEYS,
    ORDERS,
    SESSIONS,
    SORTED,
    VERSIONS,
    WINDOWS,
    home,
    record_value,
    start,
)
from tests.fuzz.pipelining.kinds.values import read
from tests.fuzz.pipelining.requests import (
    Check,
    Draw,
    Kind,
    Request,
    is_document,
    is_problem,
)

_TEXT = f"{KAFKA}Serdes$StringSerde"
_SERDES = {"keySerde": _TEXT, "valueSerde": _TEXT}
_OF_KEYS = (ORDERS, VERSIONS)


def kinds() -> list[Kind]:
    return [
        Kind(5, _value), Kind(2, _missing, True), Kind(3, _range), Kind(2, _count),
        Kind(4, _windows), Kind(4, _sessions), Kind(1, _without_serde, True),
    ]  # fmt: skip


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _request(
    draw: Draw, view: str, path: str, check: Check, parameters: Mapping[str, object] = _SERDES
) -> Request:
    """POST and PUT are answered like GET, and their bodies are ignored."""
    query = f"?{urlencode(parameters)}" if parameters else ""
    method = draw.random.choice(("GET", "GET", "POST", "PUT"))
    other = b"GET /views/%b/keys/k0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % ORDERS.encode()
    body = None if method == "GET" else draw.random.choice((b"", other))
    target = f"{PREFIX}{path}{query}"
    return Request(method, target, check, read(view), body=body, closes=bool(body))


def _of_key(key: bytes) -> str:
    return quote(_base64(key), safe="/")


def _value(draw: Draw) -> Request:
    view = draw.random.choice(_OF_KEYS)
    check = is_document({"value": _base64(record_value(view, draw.number))})
    return _request(draw, view, f"/kv/{view}/values/{_of_key(b'k%d' % draw.number)}", check)


def _missing(draw: Draw) -> Request:
    view = draw.random.choice(_OF_KEYS)
    key = b"missing%d" % draw.number
    check = is_problem(404, "key-not-found", f" of partition {home(key)}.")
    return _request(draw, view, f"/kv/{view}/values/{_of_key(key)}", check)


def _range(draw: Draw) -> Request:
    view, at = draw.random.choice(_OF_KEYS), draw.number % (KEYS - 4)
    keys = SORTED[at : at + draw.random.randint(1, 4)]
    results = {_base64(key.encode()): _base64(record_value(view, int(key[1:]))) for key in keys}
    bounds = {"from": _base64(keys[0].encode()), "to": _base64(keys[-1].encode())}
    check = is_document({"results": results})
    return _request(draw, view, f"/kv/{view}", check, {**_SERDES, **bounds})


def _count(draw: Draw) -> Request:
    view = draw.random.choice(_OF_KEYS)
    check = is_document({"count": KEYS + EXTRA[view]})
    return _request(draw, view, f"/kv/{view}/count", check, {})


def _windows(draw: Draw) -> Request:
    first = draw.random.randrange(HISTORY)
    values = {
        str(start(draw.number, at)): _base64(record_value(WINDOWS, draw.number, at))
        for at in range(first, HISTORY)
    }
    bounds = {"from": start(draw.number, first), "to": start(draw.number, HISTORY - 1)}
    path = f"/window/{WINDOWS}/{_of_key(b'k%d' % draw.number)}"
    return _request(draw, WINDOWS, path, is_document({"values": values}), {**_SERDES, **bounds})


def _sessions(draw: Draw) -> Request:
    values = [
        {
            "startMs": start(draw.number, at),
            "endMs": start(draw.number, at) + HALF,
            "value": _base64(record_value(SESSIONS, draw.number, at)),
        }
        for at in range(HISTORY)
    ]
    path = f"/session/{SESSIONS}/{_of_key(b'k%d' % draw.number)}"
    return _request(draw, SESSIONS, path, is_document({"values": values}))


def _without_serde(draw: Draw) -> Request:
    path = f"/session/{SESSIONS}/{_of_key(b'k%d' % draw.number)}"
    check = is_problem(400, "missing-parameter", "keySerde=")
    return _request(draw, SESSIONS, path, check, {})
