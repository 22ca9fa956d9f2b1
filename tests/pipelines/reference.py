"""The views in plain Python, from the records of the raw topics. It shares no code with `spark`,
so that both sides cannot have the same error. Pure."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

Fields = dict[str, Any]


class Record(NamedTuple):
    """A record of a raw topic; its timestamp is in ms."""

    timestamp: int
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None = None


def records_of(logs: Sequence[Log]) -> list[Record]:
    """In the order of the topic's partitions."""
    return [
        Record(timestamp, partition, offset, value, key)
        for partition, log in enumerate(logs)
        for offset, timestamp, key, value in log.records
    ]


Raw = Mapping[str, Sequence[Record]]
"""The records of each raw topic."""


def table(view: str, raw: Raw, partitions: int) -> Table:
    """The view's compacted topic. A key that occurs several times has its last value."""
    found: Table = {}
    for key, value, bare_key in REFERENCES[view](raw):
        found[_MURMUR2(bare_key, partitions), key] = value
    return found


def rejected(source: str, records: Iterable[Record]) -> dict[bytes, bytes]:
    """The dead letters of a raw topic: key and value. That of a tombstone is empty."""
    check = _CHECKS[source]
    return {
        f"{source}:{each.partition}:{each.offset}".encode(): each.value or b""
        for each in records
        if check(each) is None
    }


def is_too_late(record: Record) -> bool:
    """Whether a line of the log is well-formed, but too late."""
    line = _request(record, bounded=False)
    return line is not None and record.timestamp / 1000 - line["at"] > _HOUR


def _object(value: bytes | None) -> Fields | None:
    try:
        found = json.loads((value or b"").decode())
    except ValueError:
        return None
    return found if type(found) is dict else None


def _seconds(text: object) -> float | None:
    if type(text) is not str or not _TIME.fullmatch(text):
        return None
    return datetime.fromisoformat(text).timestamp()


def _flight(record: Record) -> Fields | None:
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


def _request(record: Record, bounded: bool = True) -> Fields | None:
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


def _row(required: Sequence[str], optional: Mapping[str, type]) -> Callable[[Record], Any]:
    """Rows of a table; the required fields are texts."""

    def check(record: Record) -> Fields | None:
        row = _object(record.value)
        if row is None or any(type(row.get(name)) is not str for name in required):
            return None
        types = optional.items()
        if any(row.get(name) is not None and type(row[name]) is not of for name, of in types):
            return None
        return row

    return check


_plane = _row(["tailnum"], {"year": int, "manufacturer": str, "model": str, "seats": int})
_airline = _row(["carrier", "name"], {})
_us_airport = _row(["faa", "name"], {})


def _order(record: Record) -> Fields | None:
    """The row, empty if it is deleted; None if the record is malformed."""
    if record.value is None:
        return {}
    row = _object(record.value)
    if row is None or type(row.get("amount")) is not int or not 0 <= row["amount"] <= 999:
        return None
    return row if row.get("customer") is None or type(row["customer"]) is str else None


def _named(record: Record) -> Fields | None:
    """As ``_order``, with a name, and an age that may be missing."""
    if record.value is None:
        return {}
    row = _object(record.value)
    if row is None or type(row.get("name")) is not str:
        return None
    return row if row.get("age") is None or type(row["age"]) is int else None


def _sale(record: Record) -> Fields | None:
    sale = _object(record.value)
    if sale is None or type(sale.get("id")) is not int or type(sale.get("shop")) is not str:
        return None
    at = _seconds(sale.get("at"))
    if at is None or type(sale.get("price")) not in (int, float):
        return None
    return None if at - record.timestamp / 1000 > _HOUR else {**sale, "at": at}


_CHECKS: dict[str, Callable[[Record], object]] = {
    "flights": _flight,
    "texts": _text,
    "weblog": _request,
    "planes": _plane,
    "airlines": _airline,
    "us-airports": _us_airport,
    "orders": _order,
    "customers": _named,
    "countries": _named,
    "sales": _sale,
}


def _departures(records: Iterable[Record]) -> Iterator[tuple[Fields, int]]:
    """Flights that left, and when, in seconds since 1970."""
    for record in records:
        row = _flight(record)
        if row is not None and row["dep_time"] is not None:
            yield row, row["scheduled"] + 60 * row["dep_delay"]


def _name(row: Fields) -> str:
    return f"{row['carrier']}{row['flight']}"


def _json(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _latest_departure(raw: Raw) -> Rows:
    for tail, (left, name, origin, dest, delay, _) in _latest(raw).items():
        value = _json(flight=name, origin=origin, dest=dest, time=_iso(left), delay=delay)
        yield tail.encode(), value, tail.encode()


def _latest(raw: Raw) -> dict[str, tuple[int, str, str, str, int, str]]:
    """Time, flight, origin, dest, delay and carrier of the latest departure of each aircraft."""
    latest: dict[str, tuple[int, str, str, str, int, str]] = {}
    for row, left in _departures(raw["flights"]):
        names = (_name(row), row["origin"], row["dest"])
        departure = (left, *names, row["dep_delay"], row["carrier"])
        latest[row["tailnum"]] = max(latest.get(row["tailnum"], departure), departure)
    return latest


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _aircraft(raw: Raw) -> Rows:
    planes = _newest(raw["planes"], _plane, "tailnum")
    airlines = _newest(raw["airlines"], _airline, "carrier")
    airports = _newest(raw["us-airports"], _us_airport, "faa")
    for tail, (left, name, origin, dest, delay, carrier) in _latest(raw).items():
        plane = planes.get(tail, {})
        fields = {each: plane.get(each) for each in ("manufacturer", "model", "year", "seats")}
        fields |= {"flight": name, "airline": airlines.get(carrier, {}).get("name")}
        fields |= {"origin": origin, "dest": dest}
        fields |= {"destination": airports.get(dest, {}).get("name")}
        fields |= {"time": _iso(left), "delay": delay}
        known = {each: value for each, value in fields.items() if value is not None}
        yield tail.encode(), _json(**known), tail.encode()


def _newest(
    records: Iterable[Record], check: Callable[[Record], Any], key: str
) -> dict[str, Fields]:
    """The last row of each key. All records of a key are in one partition."""
    rows = filter(None, map(check, records))
    return {row[key]: row for row in rows}


def _all_departures(raw: Raw) -> Rows:
    for row, left in _departures(raw["flights"]):
        tail = row["tailnum"].encode()
        value = _json(
            flight=_name(row), origin=row["origin"], dest=row["dest"], delay=row["dep_delay"]
        )
        yield tail + struct.pack(">qi", 1000 * left, 0), value, tail


def _rows_by_key(
    records: Iterable[Record], check: Callable[[Record], Fields | None]
) -> dict[str, Fields]:
    """The newest row of each record key that was not deleted."""
    newest = {
        (record.key or b"").decode(): row
        for record in records
        if (row := check(record)) is not None
    }
    return {key: row for key, row in newest.items() if row}


def _orders_with_customers(raw: Raw) -> Rows:
    customers = _rows_by_key(raw["customers"], _named)
    countries = _rows_by_key(raw["countries"], _named)
    for key, order in _rows_by_key(raw["orders"], _order).items():
        customer = order.get("customer")
        buyer = customers.get(customer or "", {})
        if order["amount"] <= 99 or (buyer.get("age") or 21) <= 20:
            continue
        fields = {"amount": order["amount"], "name": buyer.get("name"), "age": buyer.get("age")}
        fields |= {"country": countries.get((customer or "")[:1], {}).get("name")}
        known = {name: value for name, value in fields.items() if value is not None}
        yield key.encode(), _json(**known), key.encode()


def _airports(raw: Raw) -> Rows:
    newest: dict[tuple[str, str, int], tuple[Record, str]] = {}
    for row, _ in _departures(raw["flights"]):
        flight = (_name(row), row["origin"], row["scheduled"])
        found = (row["record"], row["dest"])
        newest[flight] = max(newest.get(flight, found), found, key=lambda each: each[0][:3])
    for dest, count in Counter(dest for _, dest in newest.values()).items():
        yield dest.encode(), _json(count=count), dest.encode()


def _word_count(raw: Raw) -> Rows:
    counts: Counter[str] = Counter()
    for record in raw["texts"]:
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


def _requests_per_host(raw: Raw) -> Rows:
    return _numbers(Counter(client for client, *_ in _distinct(raw["weblog"])))


def _bytes_per_host(raw: Raw) -> Rows:
    total: Counter[str] = Counter()
    for client, _, _, size in _distinct(raw["weblog"]):
        total[client] += size
    return _numbers(total)


def _requests_per_minute(raw: Raw) -> Rows:
    counts = Counter((client, int(at) // 60) for client, at, *_ in _distinct(raw["weblog"]))
    for (client, minute), count in counts.items():
        key = client.encode() + struct.pack(">qi", 60_000 * minute, 0)
        yield key, struct.pack(">q", count), client.encode()


def _bytes_per_minute(raw: Raw) -> Rows:
    total: Counter[tuple[str, int]] = Counter()
    for client, at, _, size in _distinct(raw["weblog"]):
        total[client, int(at) // 60] += size
    for (client, minute), size in total.items():
        key = client.encode() + struct.pack(">qi", 60_000 * minute, 0)
        yield key, struct.pack(">q", size), client.encode()


def _visits(raw: Raw) -> Rows:
    requests: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for client, at, _, size in _distinct(raw["weblog"]):
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


def _amounts_of_customers(raw: Raw) -> Rows:
    amounts: dict[str, list[int]] = defaultdict(list)
    for order in _rows_by_key(raw["orders"], _order).values():
        if order.get("customer") is not None:
            amounts[order["customer"]].append(order["amount"])
    for customer, found in amounts.items():
        large = sum(amount > 500 for amount in found)
        value = _json(orders=len(found), large=large, amount=sum(found))
        yield customer.encode(), value, customer.encode()


def _large_sales(raw: Raw) -> Rows:
    for record in raw["sales"]:
        sale = _sale(record)
        if sale is not None and record.key is not None and sale["price"] > 50:
            yield record.key, _json(shop=sale["shop"].upper(), id=sale["id"]), record.key


def _sales_per_day(raw: Raw) -> Rows:
    cents: dict[tuple[str, int], list[int]] = defaultdict(list)
    for sale in filter(None, map(_sale, raw["sales"])):
        day = int(sale["at"]) // (24 * _HOUR)
        cents[sale["shop"], day].append(round(100 * sale["price"]))
    for (shop, day), prices in cents.items():
        key = shop.encode() + struct.pack(">qi", 24 * _HOUR * 1000 * day, 0)
        whole, rest = divmod(sum(prices), 100)
        value = f'{{"sales":{len(prices)},"price":{whole}.{rest:02}}}'
        yield key, value.encode(), shop.encode()


REFERENCES: dict[str, Callable[[Raw], Rows]] = {
    "latest-departure": _latest_departure,
    "departures": _all_departures,
    "airports": _airports,
    "word-count": _word_count,
    "requests-per-host": _requests_per_host,
    "bytes-per-host": _bytes_per_host,
    "requests-per-minute": _requests_per_minute,
    "visits": _visits,
    "aircraft": _aircraft,
    "bytes-per-minute": _bytes_per_minute,
    "orders-with-customers": _orders_with_customers,
    "amounts-of-customers": _amounts_of_customers,
    "large-sales": _large_sales,
    "sales-per-day": _sales_per_day,
}


def _int64(value: bytes) -> object:
    return int.from_bytes(value, "big")


RANKS: dict[str, Callable[[bytes], object]] = {
    "latest-departure": lambda value: json.loads(value)["time"],
    "word-count": _int64,
    "requests-per-host": _int64,
    "bytes-per-host": _int64,
    "requests-per-minute": _int64,
    "bytes-per-minute": _int64,
}
"""Views whose values only grow, and what grows."""
