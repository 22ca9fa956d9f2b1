"""Runs work in threads during a block of a test."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self


class Background:
    """Runs `_work(number)` in threads during the `with` block, until `_stop` is set.

    Errors of the threads are raised at the end of the block, unless the block itself has failed.
    """

    _patience = 30.0  # s for the threads to end

    def __init__(self, name: str, threads: int = 1) -> None:
        self._stop = threading.Event()
        self.failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"{name}-{number}")
            for number in range(threads)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if error is None:
            self.check()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(self._patience)

    def check(self) -> None:
        """Raises the first error so far."""
        if self.failures:
            raise self.failures[0]

    def _run(self, number: int) -> None:
        try:
            self._work(number)
        except BaseException as error:
            self.failures.append(error)

    def _work(self, number: int) -> None:
        raise NotImplementedError
