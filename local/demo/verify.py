"""Reads every key of the demo through the proxy and compares it with the raw data."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import aiohttp
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from yarl import URL

from local.demo.datasets import flight_rows
from local.demo.expected import as_json, last_rows, latest_departures, word_counts
from local.demo.load import end_offsets
from local.kafka.connection import Kafka, settings_of
from local.progress import bar
from model.kafka.clients import closing

CONCURRENCY = 16
CATCH_UP_TIMEOUT_S = 60.0
MISSES = ("no-such-key", "N14228x", "a/b", "%", " ", "naïve", "processors", "+")
SHOWN = 5
"""Number of differences in an error message."""


@dataclass(slots=True)
class Findings:
    """The number of ``checked`` answers, and descriptions of the ``differences``."""

    checked: int = 0
    differences: list[str] = field(default_factory=list)

    def compare(self, what: str, actual: object, expected: object) -> None:
        self.checked += 1
        if actual != expected:
            self.differences.append(f"{what}: {_short(actual)}, expected {_short(expected)}")

    def summary(self) -> str:
        """The first differences, one line each."""
        lines = self.differences[:SHOWN]
        if omitted := len(self.differences) - len(lines):
            lines.append(f"and {omitted:,} more")
        return "\n".join(f"  {line}" for line in lines)


def verify(
    proxy_url: str, servers: str | Kafka, headers: Mapping[str, str] | None = None
) -> Findings:
    """Compares every aircraft, every word, some missing keys, and the dead letters. All requests
    have the ``headers``."""
    rows = list(flight_rows())
    views = (
        ("latest-departure", "/messages", latest_departures(rows)),
        ("word-count", "/words", word_counts()),
        ("flights", "/flights", last_rows(rows)),
    )
    findings = Findings()
    for topic, path, expected in views:
        entries = {**dict.fromkeys(MISSES, None), **expected}
        ends = end_offsets(servers, topic)
        with bar(f"verifying {path}", len(entries)) as update:
            base = f"{proxy_url}{path}"
            asyncio.run(verify_view(base, entries, ends, findings, update, headers))
    _verify_dead_letters(servers, rows, findings)
    return findings


async def verify_view(
    base: str,
    expected: Mapping[str, object],
    ends: Mapping[int, int],
    findings: Findings,
    update: Callable[[int], None],
    headers: Mapping[str, str] | None = None,
) -> None:
    """``expected``: key ► value, or None for 404.

    An answer counts if its position has reached ``ends``. Otherwise the backend has not read all
    records that Spark wrote, and the key is read again.
    """
    deadline = time.monotonic() + CATCH_UP_TIMEOUT_S
    pending = list(expected)
    done = 0
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:

        async def ask(key: str) -> str | None:
            """Reads and compares the key. Returns it if it must be read again."""
            nonlocal done
            url = f"{base}/{quote(key, safe='')}"
            try:
                async with session.get(URL(url, encoded=True)) as response:
                    status, received = response.status, response.headers
                    body = await response.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                status, received, body = 0, None, repr(error).encode()
            is_last_chance = time.monotonic() > deadline
            if not is_last_chance and (status in (0, 503) or not _has_reached(received, ends)):
                return key
            value = expected[key]
            if value is None:
                findings.compare(url, (status, _field(body, "code")), (404, "key-not-found"))
            else:
                entry = {"key": key, "value": value}
                findings.compare(url, (status, _decoded(body)), (200, entry))
            done += 1
            update(done)
            return None

        while pending:
            pending = [key for key in await _in_parallel(ask, pending) if key is not None]
            if pending:
                await asyncio.sleep(0.1)


async def _in_parallel(
    ask: Callable[[str], Awaitable[str | None]], keys: Iterable[str]
) -> list[str | None]:
    waiting = iter(keys)
    answers: list[str | None] = []

    async def work() -> None:
        for key in waiting:
            answers.append(await ask(key))

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return answers


def _has_reached(headers: Mapping[str, str] | None, ends: Mapping[int, int]) -> bool:
    try:
        return headers is not None and int(headers["Offset"]) >= ends[int(headers["Partition"])]
    except (KeyError, ValueError):
        return True  # not an answer of a store, so it differs from the expected one


def _verify_dead_letters(
    servers: str | Kafka, rows: list[dict[str, str]], findings: Findings
) -> None:
    """Compares the dead letters with the flights without an aircraft; each needs a reason.

    Waits for them, because Spark writes them after the view, in a separate query.
    """
    expected = sorted(_canonical(as_json(row)) for row in rows if row["tailnum"] == "NA")
    deadline = time.monotonic() + CATCH_UP_TIMEOUT_S
    letters = dead_letters(servers, "flights.dead-letter")
    while len(letters) < len(expected) and time.monotonic() < deadline:
        time.sleep(0.2)
        letters = dead_letters(servers, "flights.dead-letter")
    actual = sorted(_canonical(_decoded(value)) for value, _ in letters.values())
    findings.compare("count of flights.dead-letter", len(actual), len(expected))
    findings.compare("values of flights.dead-letter differ", actual != expected, False)
    without_reason = sum("reason" not in headers for _, headers in letters.values())
    findings.compare("dead letters without a reason", without_reason, 0)


def dead_letters(
    servers: str | Kafka, topic: str
) -> dict[bytes, tuple[bytes, dict[str, bytes | None]]]:
    """Key ► value and headers of its last record, in a topic with one partition."""
    letters = {}
    settings = {
        **settings_of(servers),
        "group.id": "unused",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "log_level": 0,
    }
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(20)) is not None:
            error = message.error()
            if error is None:
                headers = {name: _bytes(value) for name, value in _headers(message)}
                letters[message.key() or b""] = (message.value() or b"", headers)
            elif error.code() == KafkaError._PARTITION_EOF:
                break
    return letters


def _headers(message: Message) -> list[tuple[str, str | bytes | None]]:
    headers = message.headers() or []
    return list(headers.items() if isinstance(headers, dict) else headers)


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _decoded(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return body


def _field(body: bytes, name: str) -> object:
    content = _decoded(body)
    return content.get(name) if isinstance(content, dict) else content


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 300 else text[:300] + "…"
