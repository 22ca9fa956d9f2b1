"""What stands behind the question mark of a read by key; BadRequest for all that is not known.

A bound that is passed over would be a wrong answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from backend.queries.history import MAX_LIMIT, Span
from backend.queries.routing import ReadOptions
from backend.wire.scan import choice, parse_parameters, stale_of
from model.formats.codecs import from_base64url
from model.problems import BadRequest
from model.times import GREATEST, parse_duration, parse_time

_T = TypeVar("_T")

_BOUNDS = ("stale", "min_offset", "max_lag", "max_staleness")
_COMMON = ("encoding", "route", *_BOUNDS)
_SPAN = ("from", "to", "order", "limit", "cursor")
_OFFSETS = re.compile(r"[0-9]{1,9}:[0-9]{1,19}(,[0-9]{1,9}:[0-9]{1,19})*", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)


class Parameters:
    """The parameters of one request; each is read once, by its meaning."""

    def __init__(self, query: bytes, known: tuple[str, ...]) -> None:
        self._given = parse_parameters(query, known)

    def choice(self, name: str, *allowed: str) -> str:
        """The first of `allowed` by default."""
        return choice(self._given, name, allowed)

    def stale(self) -> str | None:
        return stale_of(self._given)

    def parsed(self, name: str, parse: Callable[[str], _T]) -> _T | None:
        """None where it is not given; the reader is told what `parse` (ValueError) says."""
        if name not in self._given:
            return None
        try:
            return parse(self._given[name].decode("latin-1"))
        except ValueError as e:
            raise BadRequest("bad-parameter", f"{name}: {e}.") from None


def search_parameters(query: bytes, versioned: bool) -> ReadOptions:
    """Those of `POST …/search`: as of `GET {path}/{key}`, but for `encoding` (the key is asked of
    others as base64url) and `route` (a redirect to a GET would take the key along)."""
    return _point_options(query, _BOUNDS, versioned)[1]


def point_parameters(query: bytes, versioned: bool) -> tuple[bool, ReadOptions]:
    """Those of `GET {path}/{key}`: whether the key is base64url, and the options."""
    return _point_options(query, _COMMON, versioned)


def _point_options(
    query: bytes, known: tuple[str, ...], versioned: bool
) -> tuple[bool, ReadOptions]:
    parameters = Parameters(query, (*known, "partials", *(("as_of",) if versioned else ())))
    return _with_partials(parameters, *_options(parameters))


def _with_partials(
    parameters: Parameters, encoded: bool, options: ReadOptions
) -> tuple[bool, ReadOptions]:
    """BadRequest for what cannot go together."""
    if parameters.choice("partials", "none", "all") == "none":
        return encoded, options
    if options.bounded or options.as_of is not None or options.redirect:
        raise BadRequest(
            "bad-parameter", "partials=all asks all partitions: of the others, stale alone goes "
            "with it.",
        )  # fmt: skip
    return encoded, replace(options, partials=True)


def span_parameters(query: bytes) -> tuple[bool, ReadOptions, Span]:
    """Those of `…/windows`, `…/sessions` and `…/versions`: the same, and the span."""
    parameters = Parameters(query, (*_COMMON, "partials", *_SPAN))
    encoded, options = _with_partials(parameters, *_options(parameters))
    span = Span(
        first=parameters.parsed("from", parse_time),
        last=parameters.parsed("to", parse_time),
        descending=parameters.choice("order", "asc", "desc") == "desc",
        limit=parameters.parsed("limit", _limit) or 100,
        cursor=parameters.parsed("cursor", str),
    )
    if options.partials and span.cursor is not None:
        raise BadRequest("bad-parameter", "there are no pages of partials=all, so no cursor.")
    return encoded, options, span


def changes_parameters(query: bytes) -> bool:
    """Those of `…/changes`: whether the key is base64url."""
    return Parameters(query, ("encoding",)).choice("encoding", "text", "base64url") == "base64url"


def _options(parameters: Parameters) -> tuple[bool, ReadOptions]:
    staleness = parameters.parsed("max_staleness", parse_duration)
    return parameters.choice("encoding", "text", "base64url") == "base64url", ReadOptions(
        stale=parameters.stale(),
        redirect=parameters.choice("route", "forward", "redirect") == "redirect",
        min_offsets=parameters.parsed("min_offset", _offsets),
        max_lag=parameters.parsed("max_lag", _number),
        max_staleness=None if staleness is None else staleness / 1000,
        as_of=parameters.parsed("as_of", parse_time),
    )


def key_bytes(text: bytes) -> bytes:
    """A key that the reader gave as base64url."""
    try:
        return from_base64url(text)
    except ValueError as e:
        raise BadRequest("key-undecodable", f"The key is {e}.") from None


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no whole number")
    return _within_64_bits(int(text))


def _within_64_bits(number: int) -> int:
    if number > GREATEST:
        raise ValueError(f"{number} has more than 64 bits")
    return number


def _limit(text: str) -> int:
    number = _number(text)
    if not 1 <= number <= MAX_LIMIT:
        raise ValueError(f"{number} is not within 1 to {MAX_LIMIT}")
    return number


def _offsets(text: str) -> dict[int, int]:
    if not _OFFSETS.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not partition:offset, or several with commas between")
    pairs = [pair.split(":") for pair in text.split(",")]
    offsets: dict[int, int] = {}
    for partition, offset in pairs:
        offsets[int(partition)] = max(_within_64_bits(int(offset)), offsets.get(int(partition), -1))
    return offsets
