"""Ships the proxy's access log to a topic, line by line: ``python -m local.tailer --help``.

Key: the client's address; value: the line. Delivery is at least once: after a kill, lines may be
shipped again, and readers detect them by their request id. A line that is not a JSON object is
shipped without a key; the decoder rejects it as a dead letter.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Annotated

import orjson
import typer

from local.errors import friendly
from local.kafka.connection import Kafka, ViewsToml, kafka_of, settings_of
from local.kafka.producer import RecordProducer
from local.tailer.log_reader import LogReader, Position

MAX_LINE_BYTES = 500_000
"""Longer lines are truncated; no decoder accepts such a line."""

INTERVAL_S = 0.5
"""Seconds between two reads of a file that has not grown."""


class Tailer:
    """Ships one log file to a topic. Its memory is bounded: a chunk of the file, and the queue."""

    def __init__(
        self, log: Path, position: Path, servers: str | Kafka, topic: str = "weblog"
    ) -> None:
        """``servers``: Kafka's address, or a client's settings."""
        self._log = log
        self._position = position
        self._topic = topic
        self._kafka = settings_of(servers)
        self._begin()

    def _begin(self) -> None:
        self._producer = RecordProducer(
            self._kafka,
            enable_idempotence=True,
            linger_ms=20,
            compression_type="lz4",
            queue_buffering_max_messages=10_000,
            queue_buffering_max_kbytes=16_384,
            message_timeout_ms=60_000,
        )
        self._reader = LogReader(self._log, Position.load(self._position))

    def run(self, stop: threading.Event, health: Path | None = None) -> None:
        """Runs until ``stop`` is set. Lines that were read are delivered first, or read again.

        ``health``: a file whose time of change shows that it works.
        """
        while not stop.is_set():
            shipped = self.step()
            if health is not None:
                health.touch()
            if not shipped:
                stop.wait(INTERVAL_S)

    def close(self) -> None:
        """Closes the file. All lines that were read are delivered."""
        self._reader.close()

    def step(self) -> int:
        """Ships the new lines, at most a chunk; returns their number.

        If the broker does not accept them within a minute, they are read again.
        """
        lines = self._reader.lines()
        while self._reader.lost:
            _report(self._reader.lost.pop())
        for line in lines:
            self._producer.produce(self._topic, line[:MAX_LINE_BYTES], _client(line))
        while len(self._producer):
            self._producer.flush(1)
        if (error := self._producer.error) is not None:
            _report(f"the broker rejected lines of {self._log}: {error}. Trying again.")
            self._reader.close()
            self._producer.close()
            self._begin()
            return 0
        if lines:
            self._reader.position.store(self._position)
        return len(lines)


def _client(line: bytes) -> bytes | None:
    try:
        client = orjson.loads(line)["client"]
    except (ValueError, KeyError, TypeError):
        return None
    return client.encode() if isinstance(client, str) and client else None


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@friendly
def main(
    log: Annotated[Path, typer.Option(help="The access log: one JSON object per line.")],
    position: Annotated[Path, typer.Option(help="File for the position after the shipped lines.")],
    topic: Annotated[str, typer.Option(help="Topic of the lines.")] = "weblog",
    bootstrap_servers: Annotated[str, typer.Option(help="Kafka's address.")] = os.environ.get(
        "QUERYABLE_BOOTSTRAP_SERVERS", "127.0.0.1:9092"
    ),
    views_toml: ViewsToml = None,
    health: Annotated[
        Path | None, typer.Option(help="File that is touched while the tailer works.")
    ] = None,
) -> None:
    """Ship a growing access log to a topic, until SIGTERM or Ctrl-C."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    kafka = kafka_of(bootstrap_servers, views_toml)
    with closing(Tailer(log, position, kafka, topic)) as tailer:
        tailer.run(stop, health)
