"""Scans between instances: a request in JSON, a response in columns.

    header length (4 B) · header (JSON) · lengths of keys, items (4 B each) · keys · items · heads

Numbers are little-endian. In columns, a row costs two slices and no call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise, starmap
from typing import Annotated, Any, TypeVar

import numpy as np
import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from backend.wire.scan import ALLOW, NEVER, Query, ScanResponse
from model.expressions.parser import MAX_CHARACTERS
from model.kinds import layout
from model.limits import MAX_PATH_BYTES, check_json, parameter_bytes, shown
from model.records import ENTRY_HEAD_SIZE

MAX_PARTITIONS = 16_000  # of a view
MAX_ROWS = 10_000  # of a response
MAX_ASK_BYTES = 4 << 20  # of a request: two bounds and a key, in hexadecimal digits

_MAX_FIELD_NAMES = 32 << 10  # characters of the names of an index's fields, as JSON

ROWS, RAW, BARE = "rows", "raw", "bare"
"""Rows with JSON items; with record values; with empty items, for a count."""
ENTRIES = "entries"
"""Everything that is stored, with record values: all versions, and tombstones."""
COLUMNS = "columns"
"""The rows of one partition as one item, an Arrow record batch (`backend/queries/arrow`)."""
ESTIMATE = "estimate"
"""RocksDB's estimate of the number of entries."""
ROW_KINDS = (ROWS, RAW, BARE, ENTRIES, COLUMNS)


def _is_reducer(what: str) -> bool:
    return what not in (*ROW_KINDS, ESTIMATE)


@dataclass(frozen=True)
class ScanRequest:
    """What one instance asks another.

    `total`: the partition count that the sender knows. `what`: one of ROW_KINDS, ESTIMATE, or the
    name of a reducer; a reducer gets the entries of one partition. `limit`: the maximum number of
    rows that the response may have. `arguments`: of the reducer.
    """

    view: str
    view_hash: str
    total: int
    what: str
    query: Query = field(default_factory=Query)
    limit: int = 0
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_reduced(self) -> bool:
        """Whether a reducer gets the entries."""
        return _is_reducer(self.what)


_Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
_Natural = Annotated[int, Field(ge=0, le=2**63 - 1)]
_Partition = Annotated[int, Field(ge=0, lt=MAX_PARTITIONS)]
_Role = Annotated[str, Field(max_length=20)]
_Name = Annotated[str, Field(max_length=64)]
_PlanName = Annotated[str, Field(max_length=80)]
_Argument = Annotated[str, Field(max_length=MAX_PATH_BYTES)] | _Int64 | bool | None


class _QueryFields(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    low: str
    high: str
    backwards: bool
    first: _Int64 | None
    last: _Int64 | None
    stale_allowed: bool
    active_only: bool = False
    where: Annotated[str, Field(max_length=MAX_CHARACTERS)] | None = None
    select: Annotated[str, Field(max_length=parameter_bytes("select"))] | None = None
    fields: Annotated[str, Field(max_length=64)] | None = None
    max_examined: _Natural | None = None
    by_index: bool | None = None
    order_by: Annotated[str, Field(max_length=_MAX_FIELD_NAMES)] | None = None


class _Question(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    view: str
    view_hash: str
    total: Annotated[int, Field(ge=1, le=MAX_PARTITIONS)]
    what: Annotated[str, Field(max_length=40)]
    query: _QueryFields
    limit: Annotated[int, Field(ge=0, le=MAX_ROWS)]
    arguments: Annotated[dict[_Name, _Argument], Field(max_length=16)]
    partitions: Annotated[list[_Partition], Field(min_length=1, max_length=MAX_PARTITIONS)]
    after: str | None

    def check(self) -> None:
        """Raises ValueError if the fields do not go together."""
        partitions = self.partitions
        if len(set(partitions)) != len(partitions) or max(partitions) >= self.total:
            raise ValueError(f"not a question: partitions are distinct, and less than {self.total}")
        if self.what in ROW_KINDS and self.limit < 1:
            raise ValueError(f"not a question: {self.what} has a limit of at least 1")
        if (_is_reducer(self.what) or self.what == COLUMNS) and len(partitions) != 1:
            raise ValueError(f"not a question: {self.what} is of one partition")


class _PartFields(BaseModel):
    # a field that a newer instance adds to an answer does no harm
    model_config = ConfigDict(strict=True, extra="ignore")

    rows: _Natural
    reached: str | None
    counted: _Natural
    missing: list[tuple[_Partition, str]]
    lag: _Natural | None
    staleness: Annotated[float, Field(ge=0)] | None
    mispartitioned: bool
    complete: bool
    stream_time: _Int64 | None
    # an older instance does not send these
    roles: Annotated[list[_Role], Field(max_length=4)] = Field(default_factory=lambda: [""])
    positions: list[tuple[_Partition, _Natural]] = Field(default_factory=list)
    partition_counts: Annotated[list[_Natural], Field(max_length=MAX_PARTITIONS)] = Field(
        default_factory=list
    )
    unreadable: _Natural = 0
    examined: _Natural = 0
    plans: Annotated[list[_PlanName], Field(max_length=4)] = Field(default_factory=list)


_PLAIN_FIELDS = tuple(field.name for field in fields(ScanRequest) if field.name != "query")
_Fields = TypeVar("_Fields", bound=BaseModel)


def _parsed(type_: type[_Fields], body: bytes, what: str) -> _Fields:
    try:
        return type_.model_validate_json(body)
    except ValidationError as e:
        wrong = e.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise ValueError(f"not a {what}: {shown(where)}: {wrong['msg']}") from None


def _hex(text: str) -> bytes:
    return bytes.fromhex(text)


def encode_request(ask: ScanRequest, partitions: list[int], after: bytes | None) -> bytes:
    return orjson.dumps(
        {
            **asdict(ask),
            "query": _encode_query(ask.query),
            "partitions": partitions,
            "after": None if after is None else after.hex(),
        }
    )


def decode_request(body: bytes) -> tuple[ScanRequest, list[int], bytes | None]:
    """The inverse of `encode_request`. Raises ValueError for anything that no instance asks.
    Unknown fields are refused: they may restrict the question."""
    check_json(body)
    question = _parsed(_Question, body, "question")
    asked = question.query
    stale = ALLOW if asked.stale_allowed else NEVER if asked.active_only else None
    query = Query(
        _hex(asked.low),
        _hex(asked.high),
        asked.backwards,
        asked.first,
        asked.last,
        stale,
        **{name: getattr(asked, name) for name in _NEWER_FIELDS},
    )
    fields = {name: getattr(question, name) for name in _PLAIN_FIELDS}
    after = None if question.after is None else _hex(question.after)
    least, end = layout.ALL
    for key in (query.low, query.high, *(() if after is None else (after,))):
        if not least <= key <= end:
            raise ValueError("not a question: it reaches beyond the entries of a store")
    question.check()
    return ScanRequest(**fields, query=query), question.partitions, after


_NEWER_FIELDS = ("where", "select", "fields", "max_examined", "by_index", "order_by")


def _encode_query(query: Query) -> dict[str, Any]:
    fields = asdict(query)
    stale = fields.pop("stale")
    fields.update(low=query.low.hex(), high=query.high.hex(), stale_allowed=stale == ALLOW)
    for name in _NEWER_FIELDS:
        # only if they are set: an older instance refuses what it does not know
        if fields[name] is None:
            del fields[name]
    if stale == NEVER:
        # only then: an older instance refuses what it does not know, and a standby would answer
        fields["active_only"] = True
    return fields


def encode_response(part: ScanResponse) -> bytes:
    header = orjson.dumps(
        {
            "rows": len(part.rows),
            "reached": None if part.reached is None else part.reached.hex(),
            "counted": part.counted,
            "missing": list(part.missing.items()),
            "lag": part.lag,
            "staleness": part.staleness,
            "mispartitioned": part.mispartitioned,
            "complete": part.complete,
            "stream_time": part.stream_time,
            "roles": part.roles,
            "positions": list(part.positions.items()),
            "partition_counts": part.partition_counts,
            "unreadable": part.unreadable,
            "examined": part.examined,
            "plans": part.plans,
        }
    )
    parts = [len(header).to_bytes(4, "little"), header]
    if part.rows:
        keys, heads, items = zip(*part.rows, strict=True)
        parts += [_lengths(keys), _lengths(items), *keys, *items, *heads]
    return b"".join(parts)


def decode_response(body: bytes) -> ScanResponse:
    """The inverse of `encode_response`. Raises ValueError for anything else."""
    at = 4 + int.from_bytes(body[:4], "little")
    header = _parsed(_PartFields, body[4:at], "part")
    count = header.rows
    part = ScanResponse(
        reached=None if header.reached is None else _hex(header.reached),
        counted=header.counted,
        missing=dict(header.missing),
        lag=header.lag,
        staleness=header.staleness,
        mispartitioned=header.mispartitioned,
        complete=header.complete,
        stream_time=header.stream_time,
        roles=tuple(header.roles),
        positions=dict(header.positions),
        partition_counts=tuple(header.partition_counts),
        unreadable=header.unreadable,
        examined=header.examined,
        plans=tuple(header.plans),
    )
    if (8 + ENTRY_HEAD_SIZE) * count > len(body) - at:
        raise ValueError("an answer of fewer rows than it says")
    lengths = np.frombuffer(body, "<u4", 2 * count, at)
    ends = (np.cumsum(lengths, dtype=np.int64) + at + 8 * count).tolist()
    heads_at = ends[-1] if ends else at
    if heads_at + ENTRY_HEAD_SIZE * count != len(body):
        raise ValueError("an answer of another length than it says")
    keys = _slices(body, [at + 8 * count, *ends[:count]])
    items = _slices(body, ends[count - 1 :])
    heads = _slices(body, list(range(heads_at, len(body) + 1, ENTRY_HEAD_SIZE)))
    part.rows = list(zip(keys, heads, items, strict=True)) if count else []
    return part


def check_response(
    part: ScanResponse, ask: ScanRequest, partitions: Sequence[int], after: bytes | None
) -> None:
    """Raises ValueError unless it is an answer to this question that goes on behind `after`."""
    if not part.missing.keys() <= set(partitions):
        raise ValueError("an answer about partitions that were not asked for")
    if len(part.rows) > ask.limit:
        raise ValueError("an answer of more rows than were asked for")
    reached = part.reached
    if reached is None or after is None:
        return
    # the asker goes on from there: it must come nearer to the end
    if reached >= after if ask.query.backwards else reached <= after:
        raise ValueError("an answer that does not go on")


def pack(parts: Sequence[bytes]) -> bytes:
    """Byte strings one after another: count (4 B) · lengths (4 B each) · the strings."""
    return b"".join([len(parts).to_bytes(4, "little"), _lengths(parts), *parts])


def unpack(body: bytes, max_strings: int) -> list[bytes]:
    """The inverse of `pack`. Raises ValueError for anything else, and for more than
    `max_strings` strings."""
    count = int.from_bytes(body[:4], "little")
    if count > max_strings:
        raise ValueError(f"not a list of at most {max_strings} byte strings")
    start = 4 + 4 * count
    lengths = np.frombuffer(body, "<u4", count, 4) if count else np.zeros(0, "<u4")
    ends = (np.cumsum(lengths, dtype=np.int64) + start).tolist()
    if (ends[-1] if ends else start) != len(body):
        raise ValueError("not a list of byte strings")
    return _slices(body, [start, *ends])


def _lengths(parts: Sequence[bytes]) -> bytes:
    return np.fromiter(map(len, parts), "<u4", len(parts)).tobytes()


def _slices(body: bytes, bounds: list[int]) -> list[bytes]:
    take: Callable[[slice], bytes] = body.__getitem__
    return list(map(take, starmap(slice, pairwise(bounds))))
