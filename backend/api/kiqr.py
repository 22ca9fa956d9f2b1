"""KIQR's generic REST dialect, for the clients that it has.

Source: KIQR, the Kafka Interactive Query Runtime, and its Java client: keys and values are the
serialized bytes in base64, and each side names its serde by its Java class.

    kv/{store}/values/{key}           {"value": base64}
    kv/{store}                        {"results": {base64: base64}}; all, or from= and to=
    kv/{store}/count                  {"count": number}, "estimate": true if it is one
    window/{store}/{key}?from=&to=    {"values": {start in ms: base64}}
    session/{store}/{key}             {"values": [{"startMs", "endMs", "value": base64}]}

A versioned store is asked as a key-value store: for the versions that are valid now.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import orjson
from flask import Blueprint, Flask, Response, request
from werkzeug.routing import BaseConverter

from backend.api.raw_reads import RawReads
from backend.core.errors import BadRequest, KeyTooLong, NotFound, Problem
from backend.core.views import View

PREFIX = "/api/v1"

KAFKA = "org.apache.kafka.common.serialization."
_ALL = frozenset(("string", "bytes", "int32", "int64", "float64", "uuid", "json", "avro", "none"))
# which formats of a view a serde of Kafka's own reads; bytes may be anything
FITS = {
    "Serdes$StringSerde": frozenset(("string", "uuid", "json", "bytes")),
    "Serdes$UUIDSerde": frozenset(("uuid", "bytes")),
    "Serdes$IntegerSerde": frozenset(("int32", "bytes")),
    "Serdes$LongSerde": frozenset(("int64", "bytes")),
    "Serdes$DoubleSerde": frozenset(("float64", "bytes")),
    "Serdes$ShortSerde": frozenset(("bytes",)),
    "Serdes$FloatSerde": frozenset(("bytes",)),
    "Serdes$BooleanSerde": frozenset(("bytes",)),
    "Serdes$VoidSerde": frozenset(("none",)),
    "Serdes$ByteArraySerde": _ALL,
    "Serdes$BytesSerde": _ALL,
    "Serdes$ByteBufferSerde": _ALL,
}
# formats that clients have serdes of their own for
_OWN = frozenset(("json", "avro", "bytes"))
_CLASS = re.compile(r"([A-Za-z_]\w*\.)+[A-Za-z_$][\w$]*", re.ASCII)
_MILLISECONDS = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


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

    def view_of(store: str, *kinds: str) -> View:
        view = views.get(store)
        if view is None:
            raise NotFound("view-not-found", f"There is no view {store!r}; GET /views lists them.")
        if view.store not in kinds:
            # what KIQR says: the Java client tells it from its own mistakes
            raise Problem("wrong-store", f"View {store} has a {view.store} store.")
        return view

    def key_of(view: View, text: str, what: str = "The key") -> bytes:
        raw = _from_base64(text, what)
        if len(raw) > max_key_bytes:
            raise KeyTooLong(
                "key-too-long", f"{what} has {len(raw)} bytes; at most {max_key_bytes} are read."
            )
        try:
            view.key_codec.check(raw)
        except ValueError as e:
            raise BadRequest(
                "key-undecodable", f"View {view.name} has {view.key} keys; {what} is {e}."
            ) from None
        return raw

    @kiqr.get("/kv/<store>/values/<rest:key>")
    def value(store: str, key: str) -> Response:
        view = view_of(store, *_KEY_VALUE)
        _check_serdes(view)
        found = reads.of_key(view, key_of(view, key))
        if not found:
            raise NotFound("key-not-found", f"View {view.name} has no such key.")
        return _json({"value": _to_base64(found[0].value)})

    @kiqr.get("/kv/<store>")
    def values(store: str) -> Response:
        view = view_of(store, *_KEY_VALUE)
        _check_serdes(view)
        bounds = [request.args.get(name) for name in ("from", "to")]
        if bounds.count(None) == 1:
            raise BadRequest("bad-parameter", "from and to are given both, or neither.")
        first, last = (
            None if bound is None else key_of(view, bound, name)
            for name, bound in zip(("from", "to"), bounds, strict=True)
        )
        found = reads.scan(view, first, last)
        results = {_to_base64(entry.key.key): _to_base64(entry.value) for entry in found}
        return _json({"results": results})

    @kiqr.get("/kv/<store>/count")
    def count(store: str) -> Response:
        number, is_exact = reads.count(view_of(store, *_KEY_VALUE))
        # its clients read the number, and pass over what else there is
        return _json({"count": number} if is_exact else {"count": number, "estimate": True})

    @kiqr.get("/window/<store>/<rest:key>")
    def windows(store: str, key: str) -> Response:
        view = view_of(store, "window")
        _check_serdes(view)
        first, last = _milliseconds("from"), _milliseconds("to")
        found = reads.of_key(view, key_of(view, key), first, last)
        # of several entries with one start the last one, as in a client's map
        return _json({"values": {str(e.key.start): _to_base64(e.value) for e in found}})

    @kiqr.get("/session/<store>/<rest:key>")
    def sessions(store: str, key: str) -> Response:
        view = view_of(store, "session")
        _check_serdes(view)
        found = reads.of_key(view, key_of(view, key))
        return _json({
            "values": [
                {"startMs": e.key.start, "endMs": e.key.end, "value": _to_base64(e.value)}
                for e in found
            ]
        })  # fmt: skip

    pages.register_blueprint(kiqr)


_KEY_VALUE = ("key-value", "versioned")


def _check_serdes(view: View) -> None:
    _check_serde("keySerde", view, view.key)
    _check_serde("valueSerde", view, view.value)


def _check_serde(parameter: str, view: View, of: str) -> None:
    """BadRequest unless what the client reads or writes by is what the view has."""
    name = request.args.get(parameter)
    if not name:
        raise BadRequest("missing-parameter", f"{parameter}= is missing: a Java serde class.")
    if name.startswith(KAFKA):
        formats = FITS.get(name.removeprefix(KAFKA))
    else:
        formats = _OWN if _CLASS.fullmatch(name) else None
    if formats is None:
        raise BadRequest("unknown-serde", f"{parameter}={name} is no serde that is known here.")
    if of not in formats:
        what = "keys" if parameter == "keySerde" else "values"
        raise BadRequest(
            "unfit-serde", f"{parameter}={name} does not fit view {view.name}: its {what} are {of}."
        )


def _milliseconds(name: str) -> int:
    text = request.args.get(name)
    if text is None:
        raise BadRequest("missing-parameter", f"{name}= is missing: milliseconds since 1970.")
    if not _MILLISECONDS.fullmatch(text):
        raise BadRequest("bad-parameter", f"{name}={text} is no number of milliseconds since 1970.")
    return int(text)


def _from_base64(text: str, what: str) -> bytes:
    try:
        # in a query a plus that is not encoded comes as a space; Java's decoder needs no padding
        bare = text.replace(" ", "+").removesuffix("=").removesuffix("=")
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("key-undecodable", f"{what} is not base64 (RFC 4648, 4).") from None


def _to_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _json(document: Any) -> Response:
    return Response(orjson.dumps(document), content_type="application/json")
