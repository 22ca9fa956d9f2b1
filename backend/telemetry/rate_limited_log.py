"""Messages about lasting problems, at most one line per problem and interval."""

from __future__ import annotations

import logging
import time

_INTERVAL = 30.0  # s


class RateLimitedLog:
    """Logs a message unless one about the same problem was logged in the last 30 s."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged_at: dict[str, float] = {}

    def warn(self, problem: str, message: str, error: BaseException | None = None) -> None:
        """`problem`: an identifier, such as a topic's name. `error`: logged with its traceback."""
        self.log(logging.WARNING, problem, message, error)

    def log(
        self, level: int, problem: str, message: str, error: BaseException | None = None
    ) -> None:
        """Like `warn`, with a level of `logging`."""
        now = time.monotonic()
        if now - self._logged_at.get(problem, -_INTERVAL) >= _INTERVAL:
            self._logged_at[problem] = now
            self._log.log(level, "%s", message, exc_info=error)
