"""KIQR's REST dialect, for existing clients of KIQR.

Source: KIQR, the Kafka Interactive Query Runtime, and its Java client. Keys and values are
serialized bytes in base64. Parameters name their serdes by Java class.

    kv/{store}/values/{key}           {"value": base64}
    kv/{store}                        {"results": {base64: base64}}; all, or ?from=&to=
    kv/{store}/count                  {"count": number}, and "estimate": true for estimates
    window/{store}/{key}?from=&to=    {"values": {start in ms: base64}}
    session/{store}/{key}             {"values": [{"startMs", "endMs", "value": base64}]}

For a versioned store, these are queries for the versions that are valid now.

The statuses are KIQR's, so its client throws the same exceptions: 400 for a missing parameter or an
unknown class, 500 for other queries that cannot be answered. Checks run in KIQR's order. Its routes
ignore the method, the headers and the body.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from flask import Blueprint, Flask, Response, g, request
from werkzeug.routing import BaseConverter

from backend.http.kiqr.raw_reads import RawReads
from backend.http.paths import undecided
from backend.instance.context import QueryContext
from backend.queries.stores import KEYS, SESSIONS, WINDOWS
from model.formats.registry import FORMATS
from model.problems import BadRequest, KeyTooLong, NotFound, QueryFailed
from model.times import MAX_TIME, MIN_TIME
from model.views import View

PREFIX = "/api/v1"
PATHS = (
    "kv/{view}",
    "kv/{view}/count",
    "kv/{view}/values/{rest}",
    "window/{view}/{rest}",
    "session/{view}/{rest}",
)
"""The paths for the route table, which checks that the sender may read the view of the store."""

KAFKA = "org.apache.kafka.common.serialization."
_CUSTOM = "custom"  # any class
# these serdes read any format, as bytes
_RAW_SERDES = ("ByteArraySerde", "BytesSerde", "ByteBufferSerde")
FITS = {
    **{
        f"Serdes${serde}": frozenset(name for name, f in FORMATS.items() if serde in f.serdes)
        for serde in {serde for f in FORMATS.values() for serde in f.serdes}
    },
    **{f"Serdes${serde}": frozenset((*FORMATS, _CUSTOM)) for serde in _RAW_SERDES},
}
"""A serde of Kafka itself -> the formats that it reads."""

# formats for which clients have their own serdes
_WITH_OWN_SERDES = frozenset((_CUSTOM, *(name for name, f in FORMATS.items() if f.has_own_serdes)))
_CLASS = re.compile(r"([A-Za-z_]\w*\.)+[A-Za-z_$][\w$]*", re.ASCII)
_LONG = re.compile(r"[+-]?0*[0-9]{1,19}", re.ASCII)
# as in Java's decoder: complete padding, or none
_BASE64 = re.compile(r"([A-Za-z0-9+/]{4})*+([A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?", re.ASCII)
# not DELETE and PATCH: they would seem to have changed something
METHODS = ("GET", "POST", "PUT")


class _Rest(BaseConverter):
    """The rest of the path. It may be empty, or have slashes (of base64)."""

    regex = ".*"
    part_isolating = False


def register_kiqr(pages: Flask, context: QueryContext, reads: RawReads) -> None:
    """Adds the dialect to the application."""
    pages.url_map.converters["rest"] = _Rest
    kiqr = Blueprint("kiqr", __name__, url_prefix=PREFIX)
    max_key_bytes = context.constants.max_key_bytes

    def view_of(store: str, resource: str, serdes: Sequence[str] = ()) -> View:
        """The view of a store whose kind and serdes fit. Raises NotFound, BadRequest,
        QueryFailed."""
        versions = context.group.versions
        view = versions.named.get(store)
        if view is None and store in versions.undecided:
            raise undecided(store)
        if view is None:
            raise NotFound(
                "view-not-found", f"View {store!r} does not exist. GET /views lists the views."
            )
        g.view_headers = context.group.view_headers(view)
        formats = [_formats(name) for name in serdes]
        if view.kind.resource != resource:
            raise QueryFailed("wrong-store", f"View {store} has a {view.store} store.")
        # unwrapped rows are not in the format of the records
        values = view.value if view.unwrap is None else view.value_codec.name
        view_formats = ("keys", view.key), ("values", values)
        for name, supported, (what, format_name) in zip(
            serdes, formats, view_formats, strict=False
        ):
            if (format_name if format_name in FORMATS else _CUSTOM) not in supported:
                raise QueryFailed(
                    "unfit-serde",
                    f"{name} does not fit view {view.name}: its {what} are {format_name}.",
                )
        return view

    def checked_key(view: View, raw: bytes, what: str = "The key") -> bytes:
        if len(raw) > max_key_bytes:
            raise KeyTooLong(
                "key-too-long", f"{what} has {len(raw)} bytes; at most {max_key_bytes} are allowed."
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
        view = view_of(store, KEYS, _required(*_SERDES))
        return _json({"value": _to_base64(reads.value(view, checked_key(view, raw)))})

    @route("/kv/<store>")
    def values(store: str) -> Response:
        serdes = _required(*_SERDES)
        bounds = _bounds()
        view = view_of(store, KEYS, serdes)
        if view.key_fields:
            raise QueryFailed(
                "wrong-store",
                f"View {view.name} names keys by fields, and does not have the bytes of record "
                f"keys, which KIQR's clients read. Use /views/{view.name}/keys.",
            )
        if bounds is None:
            entries = reads.scan(view, None, None)
        else:
            first, last = (
                checked_key(view, bound, name) for name, bound in zip(_BOUNDS, bounds, strict=True)
            )
            low, high = view.layout.key_range(first, last)
            if low >= high:
                raise _inverted()
            entries = reads.scan(view, first, last)
        results = {_to_base64(entry.key): _to_base64(entry.value) for entry in entries}
        return _json({"results": results})

    @route("/kv/<store>/count")
    def count(store: str) -> Response:
        number, is_exact = reads.count(view_of(store, KEYS))
        # KIQR's clients read the number and ignore other members
        return _json({"count": number} if is_exact else {"count": number, "estimate": True})

    @route("/window/<store>/<rest:key>")
    def windows(store: str, key: str) -> Response:
        raw = _from_base64(key, "The key")
        *serdes, first_text, last_text = _required(*_SERDES, *_BOUNDS)
        first, last = _milliseconds("from", first_text), _milliseconds("to", last_text)
        view = view_of(store, WINDOWS, serdes)
        record_key = checked_key(view, raw)
        if first > last:
            raise _inverted()
        entries = reads.history(view, record_key, first, last)
        # the last one of the entries with the same start remains, as in a client's map
        return _json({"values": {str(e.start): _to_base64(e.value) for e in entries}})

    @route("/session/<store>/<rest:key>")
    def sessions(store: str, key: str) -> Response:
        raw = _from_base64(key, "The key")
        view = view_of(store, SESSIONS, _required(*_SERDES))
        entries = reads.history(view, checked_key(view, raw))
        return _json({
            "values": [
                {"startMs": e.start, "endMs": e.end, "value": _to_base64(e.value)}
                for e in entries
            ]
        })  # fmt: skip

    @kiqr.after_request
    def add_view_headers(answer: Response) -> Response:
        for name, value in g.get("view_headers", ()):
            answer.headers[name.decode()] = value.decode()
        return answer

    pages.register_blueprint(kiqr)


_SERDES = ("keySerde", "valueSerde")
_BOUNDS = ("from", "to")


def _required(*names: str) -> list[str]:
    """The values of these parameters. Raises BadRequest if one is missing."""
    for name in names:
        # an empty class name is missing; an empty bound is an invalid number
        if name not in request.args or (name in _SERDES and not request.args[name]):
            what = "a Java serde class" if name in _SERDES else "milliseconds since 1970"
            raise BadRequest("missing-parameter", f"{name}= is missing: {what}.")
    return [request.args[name] for name in names]


def _bounds() -> list[bytes] | None:
    """The bounds of keys; None if neither is given."""
    bounds = [request.args.get(name) for name in _BOUNDS]
    if bounds == [None, None]:
        return None
    if None in bounds:
        raise QueryFailed("bad-parameter", "from and to go together: one of them is missing.")
    # an unescaped plus in a query is decoded to a space
    return [
        _from_base64(str(text).replace(" ", "+"), name)
        for name, text in zip(_BOUNDS, bounds, strict=True)
    ]


def _inverted() -> QueryFailed:
    return QueryFailed("bad-parameter", "from is greater than to.")


def _formats(name: str) -> frozenset[str]:
    """The formats that a serde reads and writes. Raises BadRequest."""
    if name.startswith(KAFKA):
        formats = FITS.get(name.removeprefix(KAFKA))
    else:
        formats = _WITH_OWN_SERDES if _CLASS.fullmatch(name) else None
    if formats is None:
        raise BadRequest("unknown-serde", f"Unknown serde: {name}.")
    return formats


def _milliseconds(name: str, text: str) -> int:
    """The value of a Java `long`. Raises QueryFailed."""
    number = int(text) if _LONG.fullmatch(text) else None
    if number is None or not MIN_TIME <= number <= MAX_TIME:
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
