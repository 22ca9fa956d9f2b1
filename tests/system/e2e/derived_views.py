"""The views of the demo that only tests verify: destinations, aircraft and departures."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime

import aiohttp

from local.demo.datasets import flight_rows, reference_rows
from local.demo.expected import Row, latest_departures
from local.demo.load import end_offsets
from local.demo.verify import CATCH_UP_TIMEOUT_S, Findings, verify_view
from local.kafka.connection import Kafka
from local.progress import bar


def verify_more(proxy_url: str, servers: str | Kafka) -> Findings:
    """Compares every destination, aircraft and departure, the views that Spark derives last."""
    rows = list(flight_rows())
    findings = Findings()
    references = [reference_rows(name) for name in ("planes", "airlines", "airports")]
    for name, expected in (("airports", airports(rows)), ("aircraft", aircraft(rows, *references))):
        ends = end_offsets(servers, name)
        with bar(f"verifying /{name}", len(expected)) as update:
            asyncio.run(verify_view(f"{proxy_url}/{name}", expected, ends, findings, update))
    entries = departures(rows)
    with bar("verifying departures", len(entries)) as update:
        asyncio.run(_verify_departures(f"{proxy_url}/views/departures", entries, findings, update))
    return findings


async def _verify_departures(
    view: str,
    expected: dict[tuple[str, int], object],
    findings: Findings,
    update: Callable[[int], None],
) -> None:
    """Reads all windows of the view as one stream when the backends have no lag."""
    deadline = time.monotonic() + CATCH_UP_TIMEOUT_S
    url = f"{view}/windows"
    count = 0
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < deadline:
            async with session.get(url, params={"limit": "1"}) as response:
                if response.status == 200 and response.headers.get("Lag") == "0":
                    break
            await asyncio.sleep(0.1)
        async with session.get(url, headers={"Accept": "application/x-ndjson"}) as response:
            findings.compare(url, response.status, 200)
            async for line in response.content:
                item = json.loads(line)
                key = (item["key"], item["start"])
                findings.compare(f"{url} {key}", item["value"], expected.get(key))
                count += 1
                if count % 1000 == 0:
                    update(count)
    update(count)
    findings.compare(f"count of {url}", count, len(expected))


def aircraft(
    rows: Iterable[Row],
    planes: Iterable[Row],
    airlines: Iterable[Row],
    airports: Iterable[Row],
) -> dict[str, object]:
    """Aircraft ► its latest departure, joined with the other tables; without unknown fields."""
    planes_by_tailnum = {row["tailnum"]: row for row in planes}
    airline_names = {row["carrier"]: row["name"] for row in airlines}
    airport_names = {row["faa"]: row["name"] for row in airports}
    joined: dict[str, object] = {}
    for tailnum, departure in latest_departures(rows).items():
        assert isinstance(departure, dict)
        plane = planes_by_tailnum.get(tailnum, {})
        fields = {
            **{name: plane.get(name, "NA") for name in ("manufacturer", "model")},
            **{name: _number(plane.get(name, "NA")) for name in ("year", "seats")},
            "airline": airline_names.get(departure["flight"][:2], "NA"),
            "destination": airport_names.get(departure["dest"], "NA"),
            **departure,
        }
        joined[tailnum] = {name: value for name, value in fields.items() if value != "NA"}
    return joined


def _number(text: str) -> int | str:
    return text if text == "NA" else int(text)


def departures(rows: Iterable[Row]) -> dict[tuple[str, int], object]:
    """(Aircraft, departure time in ms since 1970) ► the departure; the last one if several."""
    by_time: dict[tuple[str, int], object] = {}
    for row in rows:
        if row["tailnum"] == "NA" or row["dep_time"] == "NA":
            continue
        delay = int(row["dep_delay"])
        hour_s = datetime.fromisoformat(row["time_hour"]).timestamp()
        departed_s = hour_s + 60 * (int(row["minute"]) + delay)
        by_time[row["tailnum"], round(departed_s) * 1000] = {
            "flight": row["carrier"] + row["flight"],
            "origin": row["origin"],
            "dest": row["dest"],
            "delay": delay,
        }
    return by_time


def airports(rows: Iterable[Row]) -> dict[str, object]:
    """Destination ► number of flights; two rows of one flight count once."""
    flights = {
        (row["carrier"], row["flight"], row["origin"], row["time_hour"], row["minute"]): row["dest"]
        for row in rows
        if row["tailnum"] != "NA" and row["dep_time"] != "NA"
    }
    return {dest: {"count": count} for dest, count in Counter(flights.values()).items()}
