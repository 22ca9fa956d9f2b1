"""The Kafka Streams application as a process with one request and one answer per line."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from local.errors import tail
from local.kafka.jars import streams_class_path
from local.kafka.java import find_java

SOURCE = Path(__file__).with_name("StreamsApplication.java")
NAME = "shop"
"""The id of the application whose stores docs/kafka-streams.md shows."""

_TIMEOUT = 200.0  # s for the answers of `ask`
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",)


class Application:
    """Runs `StreamsApplication.java`; `folder` has its state and log."""

    def __init__(self, bootstrap_servers: str, folder: Path, name: str = NAME) -> None:
        """`name`: the application id, "shop" or "odd"."""
        self._name = name
        self._state = folder / "state"
        self._log_path = folder / "application.log"
        self._log = self._log_path.open("wb")
        classes = ("-cp", streams_class_path(), str(SOURCE))
        self._process = subprocess.Popen(
            [find_java(), *_JVM, *_LOGGING, *classes, bootstrap_servers, str(self._state), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def __enter__(self) -> Application:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes its input, at which it ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            if kind is None:
                self._process.stdin.close()
                assert self._process.wait(30) == 0, self._log_tail()
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            self._log.close()

    def do(self, what: str, **arguments: Any) -> None:
        assert self.ask({"do": what, **arguments}) == [{"done": True}]

    def delete_state(self, store: str) -> None:
        """Deletes a store's local state. The application must be stopped; it restores the store."""
        tasks = {found.parents[1] for found in self._state.glob(f"{self._name}/*/rocksdb/{store}")}
        assert tasks
        for task in tasks:
            shutil.rmtree(task)

    def ask(self, *documents: dict[str, Any]) -> list[Any]:
        """Sends all requests at once; returns their answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        lines = b"".join(json.dumps(document).encode() + b"\n" for document in documents)
        watchdog = threading.Timer(_TIMEOUT, self._process.kill)
        writing = threading.Thread(target=self._write, args=(lines,))
        watchdog.start()
        writing.start()
        try:
            answers = [self._process.stdout.readline() for _ in documents]
        finally:
            watchdog.cancel()
            writing.join()
        if not all(answers):
            unanswered = documents[answers.index(b"")]
            raise AssertionError(f"no answer to {unanswered}:\n{self._log_tail()}")
        return [json.loads(answer) for answer in answers]

    def _write(self, lines: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `ask` raises the error
            self._process.stdin.write(lines)
            self._process.stdin.flush()

    def _log_tail(self) -> str:
        return tail(self._log_path.read_text(errors="replace"), 40)
