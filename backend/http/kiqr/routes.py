"""KIQR's generic REST dialect, for the clients that it has.

Source: KIQR, the Kafka Interactive Query Runtime, and its Java client: keys and values are the
serialized bytes in base64, and each side names its serde by its Java class.

    kv/{store}/values/{key}           {"value": base64}
    kv/{store}                        {"results": {base64: base64}}; all, or from= and to=
    kv/{store}/count                  {"count": number}, "estimate": true if it is one
    window/{store}/{key}?from=&to=    {"values": {start in ms: base64}}
    session/{store}/{key}             {"values": [{"startMs", "endMs", "value": base64}]}

A versioned store is asked as a key-value store: for the versions that are valid now.

Statuses are KIQR's, and so are the exceptions that its client throws: 400 where a parameter or a
class is missing, else 500 where a question cannot be answered. What is wrong is looked for in its
order, too. Its routes look at no method; it looks at nothing but the query string.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from flask import Blueprint, Flask, Response, request
from werkzeug.routing import BaseConverter

from backend.http.kiqr.raw_reads import RawReads
from backend.queries.stores import KEYS, SESSIONS, WINDOWS
from model.formats.registry import FORMATS
from model.problems import BadRequest, KeyTooLong, NotFound, QueryFailed
from model.times import GREATEST, LEAST
from model.views import View

PREFIX = "/api/v1"

KAFKA = "org.apache.kafka.common.serialization."
# these give the bytes of any format
_RAW_SERDES = ("ByteArraySerde", "BytesSerde", "ByteBufferSerde")
FITS = {
    **{
        f"Serdes${serde}": frozenset(name for name, of in FORMATS.items() if serde in of.serdes)
        for serde in {serde for of in FORMATS.values() for serde in of.serdes}
    },
    **{f"Serdes${serde}": frozenset(FORMATS) for serde in _RAW_SERDES},
}
"""Serde of Kafka's own -> the formats of a view that it reads."""

# formats that clients have serdes of their own for
_OWN = frozenset(name for name, of in FORMATS.items() if of.has_own_serdes)
_CLASS = re.compile(r"([A-Za-z_]\w*\.)+[A-Za-z_$][\w$]*", re.ASCII)
_LONG = re.compile(r"[+-]?0*[0-9]{1,19}", re.ASCII)
# as Java's decoder: whole padding, or none
_BASE64 = re.compile(r"([A-Za-z0-9+/]{4})*+([A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?", re.ASCII)
# of its methods those that do not say that something is taken away
METHODS = ("GET", "POST", "PUT")


class _Rest(BaseConverter):
    """All that is left of the path, slashes (of base64) and nothing at all included."""

    regex = ".*"
    part_isolating = False


def register_kiqr(
    pages: Flask, views: dict[str, View], reads: RawReads, max_key_bytes: int
) -> None:
    """Adds the dialect to the application."""
    pages.url_map.converters["rest"] = _Rest
    kiqr = Blueprint("kiqr", __name__, url_prefix=PREFIX)

    def view_of(store: str, resource: str, serdes: Sequence[str] = ()) -> View:
        """NotFound; else what is wrong with the serdes of keys and values, or with the store."""
        view = views.get(store)
        if view is None:
            raise NotFound("view-not-found", f"There is no view {store!r}; GET /views lists them.")
        formats = [_formats(name) for name in serdes]
        if view.kind.resource != resource:
            raise QueryFailed("wrong-store", f"View {store} has a {view.store} store.")
        of_view = ("keys", view.key), ("values", view.value)
        for name, known, (what, of) in zip(serdes, formats, of_view, strict=False):
            if of not in known:
                raise QueryFailed(
                    "unfit-serde", f"{name} does not fit view {view.name}: its {what} are {of}."
                )
        return view

    def key_of(view: View, raw: bytes, what: str = "The key") -> bytes:
        if len(raw) > max_key_bytes:
            raise KeyTooLong(
                "key-too-long", f"{what} has {len(raw)} bytes; at most {max_key_bytes} are read."
            )
        try:
            view.key_codec.check(raw)
        except ValueError as e:
            raise QueryFailed(
                "key-undecodable", f"View {view.name} has {view.key} keys; {what} is {e}."
            ) from None
        return raw

    def route(path: str) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
        return kiqr.route(path, methods=METHODS)

    @route("/kv/<store>/values/<rest:key>")
    def value(store: str, key: str) -> Response:
        raw = _from_base64(key, "The key")
        view = view_of(store, KEYS, _given(*_SERDES))
        found = reads.of_key(view, key_of(view, raw))
        if not found:
            raise NotFound("key-not-found", f"View {view.name} has no such key.")
        return _json({"value": _to_base64(found[0].value)})

    @route("/kv/<store>")
    def values(store: str) -> Response:
        serdes = _given(*_SERDES)
        bounds = _bounds()
        view = view_of(store, KEYS, serdes)
        if bounds is None:
            found = reads.scan(view, None, None)
        else:
            first, last = (
                key_of(view, bound, name) for name, bound in zip(_BOUNDS, bounds, strict=True)
            )
            low, high = view.layout.key_range(first, last)
            if low >= high:
                raise _inverted()
            found = reads.scan(view, first, last)
        results = {_to_base64(entry.key.key): _to_base64(entry.value) for entry in found}
        return _json({"results": results})

    @route("/kv/<store>/count")
    def count(store: str) -> Response:
        number, is_exact = reads.count(view_of(store, KEYS))
        # its clients read the number, and pass over what else there is
        return _json({"count": number} if is_exact else {"count": number, "estimate": True})

    @route("/window/<store>/<rest:key>")
    def windows(store: str, key: str) -> Response:
        raw = _from_base64(key, "The key")
        *serdes, first_text, last_text = _given(*_SERDES, *_BOUNDS)
        first, last = _milliseconds("from", first_text), _milliseconds("to", last_text)
        view = view_of(store, WINDOWS, serdes)
        of_key = key_of(view, raw)
        if first > last:
            raise _inverted()
        found = reads.of_key(view, of_key, first, last)
        # of several entries with one start the last one, as in a client's map
        return _json({"values": {str(e.key.start): _to_base64(e.value) for e in found}})

    @route("/session/<store>/<rest:key>")
    def sessions(store: str, key: str) -> Response:
        raw = _from_base64(key, "The key")
        view = view_of(store, SESSIONS, _given(*_SERDES))
        found = reads.of_key(view, key_of(view, raw))
        return _json({
            "values": [
                {"startMs": e.key.start, "endMs": e.key.end, "value": _to_base64(e.value)}
                for e in found
            ]
        })  # fmt: skip

    pages.register_blueprint(kiqr)


_SERDES = ("keySerde", "valueSerde")
_BOUNDS = ("from", "to")


def _given(*names: str) -> list[str]:
    """The parameters' values; BadRequest unless all are there."""
    for name in names:
        # Java has no class without a name; the parser of a bound looks at its text
        if name not in request.args or (name in _SERDES and not request.args[name]):
            what = "a Java serde class" if name in _SERDES else "milliseconds since 1970"
            raise BadRequest("missing-parameter", f"{name}= is missing: {what}.")
    return [request.args[name] for name in names]


def _bounds() -> list[bytes] | None:
    """Of keys; None where none is given."""
    given = [request.args.get(name) for name in _BOUNDS]
    if given == [None, None]:
        return None
    if None in given:
        raise QueryFailed("bad-parameter", "from and to are given both, or neither.")
    # in a query a plus that is not encoded comes as a space
    return [
        _from_base64(str(text).replace(" ", "+"), name)
        for name, text in zip(_BOUNDS, given, strict=True)
    ]


def _inverted() -> QueryFailed:
    return QueryFailed("bad-parameter", "from is greater than to.")


def _formats(name: str) -> frozenset[str]:
    """The formats of views that a serde reads and writes."""
    if name.startswith(KAFKA):
        formats = FITS.get(name.removeprefix(KAFKA))
    else:
        formats = _OWN if _CLASS.fullmatch(name) else None
    if formats is None:
        raise BadRequest("unknown-serde", f"Unknown serde: {name}.")
    return formats


def _milliseconds(name: str, text: str) -> int:
    """A `long` of Java's."""
    number = int(text) if _LONG.fullmatch(text) else None
    if number is None or not LEAST <= number <= GREATEST:
        raise QueryFailed(
            "bad-parameter", f"{name} must be milliseconds since 1970, a 64-bit number."
        )
    return number


def _from_base64(text: str, what: str) -> bytes:
    if not _BASE64.fullmatch(text):
        raise QueryFailed("key-undecodable", f"{what} is not base64 (RFC 4648, 4).")
    return base64.b64decode(text + "=" * (-len(text) % 4))


def _to_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _json(document: Any) -> Response:
    return Response(orjson.dumps(document), content_type="application/json")
