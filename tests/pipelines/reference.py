"""The views in plain Python, from the records of the raw topics. It shares no code with `spark`,
so that both sides cannot have the same error. Pure."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from model.partitioner import partition_of
from tests.pipelines.comparison import Table
from tests.support.topics import Log

_HOUR = 3600
_GAP = 1_800_000  # ms
_MURMUR2 = partition_of("murmur2")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)")

Rows = Iterable[tuple[bytes, bytes, bytes]]
"""Key, value, and the bytes that decide the partition."""


class Record(NamedTuple):
    """A record of a raw topic; its timestamp is in ms."""

    timestamp: int
    partition: int
    offset: int
    value: bytes | None


def records_of(logs: Sequence[Log]) -> list[Record]:
    """In the order of the topic's partitions."""
    return [
        Record(timestamp, partition, offset, value)
        for partition, log in enumerate(logs)
        for offset, timestamp, _, value in log.records
    ]


def table(view: str, records: Iterable[Record], partitions: int) -> Table:
    """The view's compacted topic. A key that occurs several times has its last value."""
    found: Table = {}
    for key, value, bare_key in REFERENCES[view](records):
        found[_MURMUR2(bare_key, partitions), key] = value
    return found


def rejected(source: str, records: Iterable[Record]) -> dict[bytes, bytes | None]:
    """The dead letters of a raw topic: key and value."""
    check = _CHECKS[source]
    return {
        f"{source}:{each.partition}:{each.offset}".encode(): each.value
        for each in records
        if check(each) is None
    }


def is_too_late(record: Record) -> bool:
    """Whether a line of the log is well-formed, but too late."""
    line = _request(record, bounded=False)
    return line is not None and record.timestamp / 1000 - line["at"] > _HOUR


def _object(value: bytes | None) -> dict[str, Any] | None:
    try:
        found = json.loads((value or b"").decode())
    except ValueError:
        return None
    return found if type(found) is dict else None


def _seconds(text: object) -> float | None:
    if type(text) is not str or not _TIME.fullmatch(text):
        return None
    return datetime.fromisoformat(text).timestamp()


def _flight(record: Record) -> dict[str, Any] | None:
    row = _object(record.value)
    if row is None:
        return None
    texts = [row.get(name) for name in ("tailnum", "carrier", "origin", "dest")]
    numbers = [row.get(name) for name in ("flight", "minute")]
    optional = [row.get(name) for name in ("dep_time", "dep_delay")]
    hour = _seconds(row.get("time_hour"))
    if hour is None or any(type(text) is not str for text in texts) or not row["tailnum"]:
        return None
    if any(type(n) is not int for n in numbers) or not 0 <= row["minute"] <= 59:
        return None
    if any(n is not None and type(n) is not int for n in optional):
        return None
    if row.get("dep_time") is not None and row.get("dep_delay") is None:
        return None
    return {**row, "scheduled": int(hour) + 60 * row["minute"], "record": record}


def _text(record: Record) -> str | None:
    if record.value is None:
        return None
    try:
        text = record.value.decode()
    except ValueError:
        return None
    return None if re.search(r"[A-Za-z0-9_']{1001}", text) else text


def _request(record: Record, bounded: bool = True) -> dict[str, Any] | None:
    line = _object(record.value)
    if line is None:
        return None
    at = _seconds(line.get("time"))
    names = [line.get(name) for name in ("request_id", "client")]
    if at is None or any(type(name) is not str or not name for name in names):
        return None
    if type(line.get("bytes")) is not int or not 0 <= line["bytes"] < 2**40:
        return None
    if bounded and abs(record.timestamp / 1000 - at) > _HOUR:
        return None
    return {**line, "at": at}


_CHECKS: dict[str, Callable[[Record], object]] = {
    "flights": _flight,
    "texts": _text,
    "weblog": _request,
}


def _departures(records: Iterable[Record]) -> Iterator[tuple[dict[str, Any], int]]:
    """Flights that left, and when, in seconds since 1970."""
    for record in records:
        row = _flight(record)
        if row is not None and row["dep_time"] is not None:
            yield row, row["scheduled"] + 60 * row["dep_delay"]


def _name(row: dict[str, Any]) -> str:
    return f"{row['carrier']}{row['flight']}"


def _json(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _latest_departure(records: Iterable[Record]) -> Rows:
    latest: dict[str, tuple[int, str, str, str, int]] = {}
    for row, left in _departures(records):
        departure = (left, _name(row), row["origin"], row["dest"], row["dep_delay"])
        tail = row["tailnum"]
        latest[tail] = max(latest.get(tail, departure), departure)
    for tail, (left, name, origin, dest, delay) in latest.items():
        time = datetime.fromtimestamp(left, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        value = _json(flight=name, origin=origin, dest=dest, time=time, delay=delay)
        yield tail.encode(), value, tail.encode()


def _all_departures(records: Iterable[Record]) -> Rows:
    for row, left in _departures(records):
        tail = row["tailnum"].encode()
        value = _json(
            flight=_name(row), origin=row["origin"], dest=row["dest"], delay=row["dep_delay"]
        )
        yield tail + struct.pack(">qi", 1000 * left, 0), value, tail


def _airports(records: Iterable[Record]) -> Rows:
    newest: dict[tuple[str, str, int], tuple[Record, str]] = {}
    for row, _ in _departures(records):
        flight = (_name(row), row["origin"], row["scheduled"])
        found = (row["record"], row["dest"])
        newest[flight] = max(newest.get(flight, found), found, key=lambda each: each[0][:3])
    for dest, count in Counter(dest for _, dest in newest.values()).items():
        yield dest.encode(), _json(count=count), dest.encode()


def _word_count(records: Iterable[Record]) -> Rows:
    counts: Counter[str] = Counter()
    for record in records:
        if (text := _text(record)) is not None:
            counts.update(re.findall(r"[a-z0-9_']+", text.lower()))
    return _numbers(counts)


def _numbers(counts: Counter[str]) -> Rows:
    for key, count in counts.items():
        yield key.encode(), struct.pack(">q", count), key.encode()


def _distinct(records: Iterable[Record]) -> set[tuple[str, float, str, int]]:
    """Client, time, id and bytes of each request."""
    lines = filter(None, map(_request, records))
    return {(line["client"], line["at"], line["request_id"], line["bytes"]) for line in lines}


def _requests_per_host(records: Iterable[Record]) -> Rows:
    return _numbers(Counter(client for client, *_ in _distinct(records)))


def _bytes_per_host(records: Iterable[Record]) -> Rows:
    total: Counter[str] = Counter()
    for client, _, _, size in _distinct(records):
        total[client] += size
    return _numbers(total)


def _requests_per_minute(records: Iterable[Record]) -> Rows:
    counts = Counter((client, int(at) // 60) for client, at, *_ in _distinct(records))
    for (client, minute), count in counts.items():
        key = client.encode() + struct.pack(">qi", 60_000 * minute, 0)
        yield key, struct.pack(">q", count), client.encode()


def _visits(records: Iterable[Record]) -> Rows:
    requests: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for client, at, _, size in _distinct(records):
        requests[client].append((int(1000 * at), size))
    for client, of_client in requests.items():
        visits: list[list[tuple[int, int]]] = []
        for at, size in sorted(of_client):
            if not visits or at - visits[-1][-1][0] > _GAP:
                visits.append([])
            visits[-1].append((at, size))
        for visit in visits:
            key = client.encode() + struct.pack(">qq", visit[-1][0], visit[0][0])
            value = _json(requests=len(visit), bytes=sum(size for _, size in visit))
            yield key, value, client.encode()


REFERENCES: dict[str, Callable[[Iterable[Record]], Rows]] = {
    "latest-departure": _latest_departure,
    "departures": _all_departures,
    "airports": _airports,
    "word-count": _word_count,
    "requests-per-host": _requests_per_host,
    "bytes-per-host": _bytes_per_host,
    "requests-per-minute": _requests_per_minute,
    "visits": _visits,
}


def _int64(value: bytes) -> object:
    return int.from_bytes(value, "big")


RANKS: dict[str, Callable[[bytes], object]] = {
    "latest-departure": lambda value: json.loads(value)["time"],
    "word-count": _int64,
    "requests-per-host": _int64,
    "bytes-per-host": _int64,
    "requests-per-minute": _int64,
}
"""Views whose values only grow, and what grows."""
