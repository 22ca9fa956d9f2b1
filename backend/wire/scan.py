"""What part of a view a scan asks for, and how the answers of its partitions become one.

A scan runs over stored keys, whose byte order is the order of the type. Each partition's answer is
a *run*: rows in that order, complete up to the key that was `reached`. Rows of several runs are
certain as far as the run that reached least: the *frontier*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from backend.wire.cursor import Question, decode_cursor
from model.kinds import layout
from model.kinds.layout import Range
from model.limits import MOST_PARAMETERS, check_parameter, shown
from model.problems import BadRequest
from model.records import decode_entry
from model.times import parse_time
from model.views import View

KEYS, WINDOWS, SESSIONS = "keys", "windows", "sessions"
DEFAULT_LIMIT = 100
MAX_LIMIT = 1000

ALLOW, NEVER = "allow", "never"
"""`stale=`, whose answer will do: also of one that is not answerable; the active's alone. Where it
is not given (None), that of whoever is answerable, the active before its standbys."""

_SHARED = ("order", "limit", "cursor", "stale")
PARAMETERS = {
    KEYS: ("from", "to", "prefix", *_SHARED),
    WINDOWS: ("from", "to", "key_from", "key_to", *_SHARED),
    SESSIONS: ("from", "to", "key_from", "key_to", *_SHARED),
    "count": ("exact", "stale"),
    "top": ("by", "order", "limit", "stale"),
    "batch": ("stale",),
}

Row = tuple[bytes, bytes, bytes]
"""Stored key (a versioned store's without the time), entry head (timestamp, offset), JSON item;
of a delete, which another partition's entry has to be held against, an empty one."""

_AnyRow = TypeVar("_AnyRow", bound=tuple[bytes, ...])


@dataclass(frozen=True)
class Query:
    """Entries with low <= stored key < high; windows that start, or sessions that overlap, within
    first..last (ms, both inclusive; None: no bound)."""

    low: bytes = layout.ALL[0]
    high: bytes = layout.ALL[1]
    backwards: bool = False
    first: int | None = None
    last: int | None = None
    stale: str | None = None  # ALLOW, NEVER

    def question(self, view: View, kind: str) -> Question:
        """For cursors."""
        low, high = self.low.hex(), self.high.hex()
        return (view.hash, kind, self.backwards, low, high, self.first, self.last)

    def rest(self, view: View, after: bytes | None) -> Range:
        """What is left of the range behind a row's key."""
        if after is None:
            return self.low, self.high
        if self.backwards:
            return self.low, after
        return view.kind.after_row(after), self.high


@dataclass(frozen=True)
class Page:
    """A query with where it begins and how many rows it may have (None: all)."""

    query: Query
    limit: int | None
    after: bytes | None


@dataclass
class ScanResponse:
    """What one instance answers of some partitions.

    `reached`: the rows (or what was counted) are complete up to this key; None: to the end.
    `counted`: of rows, the entries that they come from; of a key in two partitions there are two.
    """

    rows: list[Row] = field(default_factory=list)
    reached: bytes | None = None
    counted: int = 0
    missing: dict[int, str] = field(default_factory=dict)  # partition -> code of the reason
    lag: int | None = None  # of the worst; None where one is unknown
    staleness: float | None = None  # s
    scattered: bool = False  # a key may be in several partitions
    # of a ranking; else its last row is the first that was too much. Of rows: else some were left
    # out, as there was a newer one of the same stored key in another of the partitions
    complete: bool = True
    stream_time: int | None = None  # ms; the latest
    roles: tuple[str, ...] = ()  # in which the instance holds what it has read
    instance: str = ""  # which has read; the asker knows it


def parse_parameters(raw: bytes, known: Sequence[str]) -> dict[str, bytes]:
    """The query string, decoded once; BadRequest for a name that is unknown or repeated, and for
    what is too long."""
    if raw.count(b"&") >= MOST_PARAMETERS:
        raise BadRequest(
            "bad-parameter",
            f"A request has {MOST_PARAMETERS} parameters at most.",
            limit=MOST_PARAMETERS,
        )
    found: dict[str, bytes] = {}
    pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    for name, value in pairs:
        if name not in known:
            # a bound that is not kept would be a wrong answer
            raise BadRequest(
                "unknown-parameter",
                f"{shown(name)!r} is no parameter here; known are {', '.join(known)}.",
            )
        if name in found:
            raise BadRequest("repeated-parameter", f"{name!r} is given twice.")
        check_parameter(name, value)
        found[name] = value.encode("latin-1")
    return found


def choice(parameters: dict[str, bytes], name: str, allowed: tuple[str, ...]) -> str:
    """The parameter's value, the first of `allowed` by default."""
    value = parameters.get(name, allowed[0].encode()).decode("latin-1")
    if value not in allowed:
        raise BadRequest("bad-parameter", f"{name}={value}: it is one of {', '.join(allowed)}.")
    return value


def stale_of(parameters: dict[str, bytes]) -> str | None:
    """ALLOW, NEVER, or None where it is not given."""
    return choice(parameters, "stale", (NEVER, ALLOW)) if "stale" in parameters else None


def limit_of(parameters: dict[str, bytes]) -> int:
    text = parameters.get("limit")
    if text is None:
        return DEFAULT_LIMIT
    if not text.isdigit() or len(text) > 4 or not 1 <= int(text) <= MAX_LIMIT:
        raise BadRequest("bad-parameter", f"limit is a number from 1 to {MAX_LIMIT}.")
    return int(text)


def refuse_custom(view: View) -> None:
    """BadRequest if the view's store is a class, which knows keys alone."""
    if view.is_custom:
        raise BadRequest(
            "wrong-store", f"View {view.name} has a store of its own, which is asked by key alone."
        )


def refuse_store(view: View, kind: str) -> None:
    """BadRequest if the view's store has no such entries."""
    refuse_custom(view)
    if view.kind.resource != kind:
        raise BadRequest(
            "wrong-store",
            f"View {view.name} has a {view.store} store: "
            f"GET /views/{view.name}/{view.kind.resource}.",
        )


def parse_page(view: View, kind: str, raw: bytes, stream: bool = False) -> Page:
    """The page of `kind` that a query string asks for; a stream has no limit unless one is given.

    BadRequest.
    """
    refuse_store(view, kind)
    parameters = parse_parameters(raw, PARAMETERS[kind])
    backwards = choice(parameters, "order", ("asc", "desc")) == "desc"
    limit = None if stream and "limit" not in parameters else limit_of(parameters)
    if kind == KEYS:
        (low, high), first, last = _key_range(view, parameters, "from", "to"), None, None
    else:
        low, high = _key_range(view, parameters, "key_from", "key_to")
        first, last = _time(parameters, "from"), _time(parameters, "to")
    if "prefix" in parameters:
        least, end = view.layout.prefix_range(_prefix(view, parameters["prefix"]))
        low, high = max(low, least), min(high, end)
    query = Query(low, high, backwards, first, last, stale_of(parameters))
    after = None
    if "cursor" in parameters:
        text = parameters["cursor"].decode("latin-1")
        after = decode_cursor(query.question(view, kind), text)
    return Page(query, limit, after)


def _key_range(view: View, parameters: dict[str, bytes], first: str, last: str) -> Range:
    return view.layout.key_range(_key(view, parameters, first), _key(view, parameters, last))


def _key(view: View, parameters: dict[str, bytes], name: str) -> bytes | None:
    text = parameters.get(name)
    if text is None:
        return None
    try:
        return view.key_codec.from_text(text)
    except ValueError as e:
        raise BadRequest(
            "bad-parameter", f"{name}: view {view.name} has {view.key} keys, and this is {e}."
        ) from None


def _prefix(view: View, text: bytes) -> bytes:
    if view.key not in ("string", "bytes"):
        raise BadRequest(
            "bad-parameter", f"prefix is for string and bytes keys; {view.name} has {view.key}."
        )
    return text


def _time(parameters: dict[str, bytes], name: str) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    try:
        return parse_time(text.decode("latin-1"))
    except ValueError as e:
        raise BadRequest("bad-parameter", f"{name}: {e}.") from None


def cut(rows: Sequence[tuple[Any, ...]], frontier: bytes | None, backwards: bool) -> int:
    """How many of the sorted rows are certain: those up to and with the frontier."""
    if frontier is None:
        return len(rows)
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        key = rows[middle][0]
        if key >= frontier if backwards else key <= frontier:
            low = middle + 1
        else:
            high = middle
    return low


def distinct(rows: list[_AnyRow], head: Callable[[_AnyRow], bytes]) -> list[_AnyRow]:
    """Sorted rows, of those with one key the one of the greatest timestamp, then offset."""
    newest = {row[0]: row for row in rows}
    if len(newest) == len(rows):
        return rows
    for row in rows:
        if _age(head(row)) > _age(head(newest[row[0]])):
            newest[row[0]] = row
    return list(newest.values())


def _age(head: bytes) -> tuple[int, int]:
    timestamp, offset, _ = decode_entry(head)
    return timestamp, offset


def slices(rows: Sequence[Row], size: int = 1 << 18) -> Iterator[Sequence[Row]]:
    """The rows, some at a time: a slice ends with the row with which it has `size` bytes."""
    start = held = 0
    for end, row in enumerate(rows, 1):
        held += len(row[2])
        if held >= size or end == len(rows):
            yield rows[start:end]
            start, held = end, 0


def first_of(keys: Sequence[bytes], backwards: bool) -> bytes:
    """The frontier of runs that have reached these keys."""
    return max(keys) if backwards else min(keys)
