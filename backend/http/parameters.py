"""The parameters of every query, from a query string to typed values.

Unknown, repeated and malformed parameters raise BadRequest: a bound that is ignored would give a
wrong answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

from backend.http.limits.bodies import json_of
from backend.queries.filters.parameters import FILTERS, ORDER_BY, SELECT, wants, with_filters
from backend.queries.history import Span
from backend.queries.page import Page, question
from backend.queries.parameters import Parameters, whole_number, within_64_bits
from backend.queries.routing import ReadOptions
from backend.queries.stores import KEYS, SESSIONS, WINDOWS, refuse_store
from backend.wire.cursor import decode_cursor
from backend.wire.scan import Query
from model.formats.base64url import from_base64url
from model.kinds import layout
from model.kinds.layout import Range
from model.limits import MAX_PARAMETERS, check_parameter, shown
from model.problems import BadRequest
from model.times import parse_duration
from model.views import View

_BOUNDS = ("stale", "min_offset", "max_lag", "max_staleness")
_COMMON = ("encoding", "route", *_BOUNDS)
_SPAN = ("from", "to", "order", "limit", "cursor")
_PAGE = ("order", "limit", "cursor", "stale", "partition", "timestamps", SELECT, ORDER_BY, *FILTERS)
PARAMETERS = {
    KEYS: ("from", "to", "prefix", *_PAGE),
    WINDOWS: ("from", "to", "key_from", "key_to", *_PAGE),
    SESSIONS: ("from", "to", "key_from", "key_to", *_PAGE),
    "by": _PAGE,
    "batch": ("stale", "timestamps"),
    "versions": (),
}
"""The parameters of `/views/{view}/{resource}`, by resource. A `ViewQuery` has its own
parameters."""

_OFFSETS = re.compile(r"[0-9]{1,9}:[0-9]{1,19}(,[0-9]{1,9}:[0-9]{1,19})*", re.ASCII)


def parse_parameters(raw: bytes, known: Sequence[str]) -> Parameters:
    """The query string, decoded once."""
    if raw.count(b"&") >= MAX_PARAMETERS:
        raise BadRequest(
            "bad-parameter",
            f"A request has {MAX_PARAMETERS} parameters at most.",
            limit=MAX_PARAMETERS,
        )
    values: dict[str, bytes] = {}
    pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    for name, value in pairs:
        if name not in known:
            raise BadRequest(
                "unknown-parameter",
                f"Unknown parameter {shown(name)!r}. Known parameters: {', '.join(known)}.",
            )
        if name in values:
            raise BadRequest("repeated-parameter", f"{name!r} is given twice.")
        check_parameter(name, value)
        values[name] = value.encode("latin-1")
    return Parameters(values)


def with_body(query: bytes, body: bytes) -> bytes:
    """The query string, and the parameters in the body of a POST: a JSON object with texts and
    whole numbers. A cursor of a long key does not fit into a URL."""
    members = json_of(body)
    if not isinstance(members, dict) or not all(type(v) in (str, int) for v in members.values()):
        raise BadRequest(
            "bad-request", "The body must be an object with parameters: texts and whole numbers."
        )
    return b"&".join(filter(None, (query, urlencode(members).encode())))


# One key


def point_parameters(query: bytes, versioned: bool) -> tuple[bool, ReadOptions]:
    """The parameters of `GET {path}/{key}`: whether the key is base64url, and the options."""
    return _point_options(query, _COMMON, versioned)


def search_parameters(query: bytes, versioned: bool) -> ReadOptions:
    """The parameters of `POST …/search`: as of `GET {path}/{key}`, except `encoding` (other
    instances are asked for the key as base64url) and `route` (a redirect to a GET would expose the
    key)."""
    return _point_options(query, _BOUNDS, versioned)[1]


def _point_options(
    query: bytes, known: tuple[str, ...], versioned: bool
) -> tuple[bool, ReadOptions]:
    more = ("partials", "headers", *(("as_of",) if versioned else ()))
    parameters = parse_parameters(query, (*known, *more))
    encoded, options = _with_partials(parameters, *_options(parameters))
    if not _flag(parameters, "headers"):
        return encoded, options
    if options.partials or options.as_of is not None or options.redirect:
        raise BadRequest(
            "bad-parameter", "headers=true is of one record: not with partials, as_of or redirect."
        )
    return encoded, replace(options, headers=True)


def _flag(parameters: Parameters, name: str) -> bool:
    return parameters.choice(name, "false", "true") == "true"


def _with_partials(
    parameters: Parameters, encoded: bool, options: ReadOptions
) -> tuple[bool, ReadOptions]:
    if parameters.choice("partials", "none", "all") == "none":
        return encoded, options
    if options.bounded or options.as_of is not None or options.redirect or options.local:
        raise BadRequest(
            "bad-parameter",
            "partials=all asks all partitions: stale is the only option that goes with it.",
        )
    return encoded, replace(options, partials=True)


def span_parameters(query: bytes) -> tuple[bool, ReadOptions, Span]:
    """The parameters of `…/windows`, `…/sessions` and `…/versions`: as of `GET {path}/{key}`, and
    the span."""
    parameters = parse_parameters(query, (*_COMMON, "partials", *_SPAN))
    encoded, options = _with_partials(parameters, *_options(parameters))
    span = Span(
        first=parameters.time("from"),
        last=parameters.time("to"),
        descending=parameters.choice("order", "asc", "desc") == "desc",
        limit=parameters.limit(),
        cursor=parameters.parsed("cursor", str),
    )
    if options.partials and span.cursor is not None:
        raise BadRequest("bad-parameter", "partials=all has no pages, so it takes no cursor.")
    return encoded, options, span


def changes_parameters(query: bytes) -> tuple[bool, bool]:
    """The parameters of `…/changes`: whether the key is base64url, and whether events have
    timestamps."""
    parameters = parse_parameters(query, ("encoding", "timestamps"))
    is_encoded = parameters.choice("encoding", "text", "base64url") == "base64url"
    return is_encoded, _flag(parameters, "timestamps")


def _options(parameters: Parameters) -> tuple[bool, ReadOptions]:
    staleness = parameters.parsed("max_staleness", parse_duration)
    route = parameters.choice("route", "forward", "redirect", "local")
    return parameters.choice("encoding", "text", "base64url") == "base64url", ReadOptions(
        stale=parameters.stale(),
        redirect=route == "redirect",
        local=route == "local",
        min_offsets=parameters.parsed("min_offset", _offsets),
        max_lag=parameters.parsed("max_lag", whole_number),
        max_staleness=None if staleness is None else staleness / 1000,
        as_of=parameters.time("as_of"),
    )


def key_bytes(text: bytes) -> bytes:
    """The record bytes of a key that is given as base64url."""
    try:
        return from_base64url(text)
    except ValueError as e:
        raise BadRequest("key-undecodable", f"The key is {e}.") from None


# A whole view


def page_parameters(
    view: View,
    resource: str,
    query: bytes,
    stream: bool = False,
    by_value: str | None = None,
) -> Page:
    """The parameters of `/views/{view}/keys`, `…/windows` and `…/sessions`; a stream has no limit
    unless one is given. `by_value`: a condition that an index must find."""
    refuse_store(view, resource)
    parameters = parse_parameters(query, PARAMETERS[resource if by_value is None else "by"])
    backwards = parameters.choice("order", "asc", "desc") == "desc"
    limit = parameters.parsed("limit", whole_number) if stream else parameters.limit()
    if limit == 0:
        raise BadRequest("bad-parameter", "limit: 0 is not at least 1.")
    if resource == KEYS:
        (low, high), first, last = _key_range(view, parameters, "from", "to"), None, None
    else:
        low, high = _key_range(view, parameters, "key_from", "key_to")
        first, last = parameters.time("from"), parameters.time("to")
    prefix = parameters.raw("prefix") if resource == KEYS else None
    if prefix is not None:
        least, end = view.layout.prefix_range(_prefix(view, prefix))
        low, high = max(low, least), min(high, end)
    asked = with_filters(
        view,
        parameters,
        Query(low, high, backwards, first, last, parameters.stale()),
        by_value=by_value,
        order_by=parameters.text(ORDER_BY),
    )
    low, high = asked.low, asked.high
    partition = parameters.parsed("partition", whole_number)
    after = None
    if (cursor := parameters.parsed("cursor", str)) is not None:
        within = (low, high) if asked.order_by is None else layout.ALL
        after = decode_cursor(question(asked, resource, partition, view), cursor, within)
    explain, offsets = wants(parameters, "explain"), wants(parameters, "offsets")
    timestamps = _flag(parameters, "timestamps")
    return Page(resource, asked, limit, after, partition, timestamps, explain, offsets)


def batch_parameters(query: bytes) -> ReadOptions:
    """The parameters of `POST /views/{view}/batch`."""
    parameters = parse_parameters(query, PARAMETERS["batch"])
    return ReadOptions(stale=parameters.stale(), timestamps=_flag(parameters, "timestamps"))


def _key_range(view: View, parameters: Parameters, first: str, last: str) -> Range:
    low = _bound(view, parameters, first, is_last=False)
    return view.layout.key_range(low, _bound(view, parameters, last, is_last=True))


def _bound(view: View, parameters: Parameters, name: str, *, is_last: bool) -> bytes | None:
    text = parameters.raw(name)
    if text is None:
        return None
    try:
        return view.key_codec.bound(text, is_last)
    except ValueError as e:
        raise _bad_key(view, name, e) from None


def _bad_key(view: View, name: str, error: ValueError) -> BadRequest:
    return BadRequest(
        "bad-parameter", f"{name}: view {view.name} has {view.key} keys, and this is {error}."
    )


def _prefix(view: View, text: bytes) -> bytes:
    if not view.key_codec.has_prefixes:
        raise BadRequest(
            "bad-parameter", f"prefix is for string and bytes keys; {view.name} has {view.key}."
        )
    try:
        return view.key_codec.prefix(text)
    except ValueError as e:
        raise _bad_key(view, "prefix", e) from None


def _offsets(text: str) -> dict[int, int]:
    if not _OFFSETS.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not partition:offset, or a comma-separated list of it")
    pairs = [pair.split(":") for pair in text.split(",")]
    offsets: dict[int, int] = {}
    for partition, offset in pairs:
        offsets[int(partition)] = max(within_64_bits(int(offset)), offsets.get(int(partition), -1))
    return offsets
