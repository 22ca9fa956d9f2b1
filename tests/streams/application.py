"""The Kafka Streams application as a process that is asked line by line."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from local.errors import tail
from local.jars import streams_class_path
from local.java import find_java

SOURCE = Path(__file__).with_name("StreamsApplication.java")
NAME = "shop"
"""Its application id."""

_PATIENCE = 90.0  # s, for one answer
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",)


class Application:
    """`StreamsApplication.java`; its state lies in `folder`."""

    def __init__(self, bootstrap_servers: str, folder: Path) -> None:
        self._log_path = folder / "application.log"
        self._log = self._log_path.open("wb")
        classes = ("-cp", streams_class_path(), str(SOURCE))
        self._process = subprocess.Popen(
            [find_java(), *_JVM, *_LOGGING, *classes, bootstrap_servers, str(folder / "state")],
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
        """It ends by itself when its input does."""
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
        assert self.ask({"do": what, **arguments}) == {"done": True}

    def ask(self, document: dict[str, Any]) -> Any:
        """The answer to one line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(_PATIENCE, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not answer:
            raise AssertionError(f"no answer to {document}:\n{self._log_tail()}")
        return json.loads(answer)

    def _log_tail(self) -> str:
        return tail(self._log_path.read_text(errors="replace"), 40)
