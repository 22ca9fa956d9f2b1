"""A program that does what instances do with librdkafka's clients, in several threads at the same
time. Python switches between threads as often as it can, so that a client's own thread is often the
last one that releases a result."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from backend.cluster.change_log import ChangeLog
from backend.ingest.dead_letter_reader import DeadLetterReader
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.metadata.fetcher import MetadataFetcher
from backend.instance.version_follower import versions_of

_TOPIC = "orders"
_TIMEOUT = 20.0  # s, for a busy machine


def looks_for_changes(settings: dict[str, str]) -> Callable[[], None]:
    log = ChangeLog(settings, "group", _TIMEOUT, versions_of("missing"), print)

    def look() -> None:
        assert log.exists(_TIMEOUT) is False

    return look


def makes_a_topic_that_exists(settings: dict[str, str]) -> Callable[[], None]:
    letters = DeadLetters(settings, _TIMEOUT)
    letters._ensure(_TOPIC)

    def make() -> None:
        assert letters._ensure(_TOPIC) is False

    return make


def replaces_its_client(settings: dict[str, str]) -> Callable[[], None]:
    fetcher = MetadataFetcher(settings, _TIMEOUT)

    def fetch() -> None:
        assert fetcher.fetch({_TOPIC: None, "missing": None})
        fetcher.reconnect()

    return fetch


def reads_with_a_client_of_its_own(settings: dict[str, str]) -> Callable[[], None]:
    reader = DeadLetterReader(settings, _TIMEOUT)

    def read() -> None:
        assert reader.newest("missing", 1)["items"] == []

    return read


def main(servers: str, rounds: int) -> None:
    settings = {"bootstrap.servers": servers}
    begin = threading.Barrier(4)

    def repeat(prepare: Callable[[dict[str, str]], Callable[[], None]]) -> None:
        step = prepare(settings)
        begin.wait()
        for _ in range(rounds):
            step()

    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(4) as threads:
        for done in [
            threads.submit(repeat, makes_a_topic_that_exists),
            threads.submit(repeat, looks_for_changes),
            threads.submit(repeat, replaces_its_client),
            threads.submit(repeat, reads_with_a_client_of_its_own),
        ]:
            done.result()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
