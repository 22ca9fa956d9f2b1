"""The log of a client of librdkafka, as its setting `logger`."""

from __future__ import annotations

import logging

from backend.telemetry.rate_limited_log import RateLimitedLog


class ClientLog:
    """Passes librdkafka's messages on to `log`. Failures of connections are logged at most once in
    30 s for each broker and reason: librdkafka 2.16 connects 20 times per second to a broker that
    refuses connections, and logs each time."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._failures = RateLimitedLog(log)

    def log(self, level: int, form: str, facility: str, client: str, message: str) -> None:
        """Called by confluent-kafka when the client is polled."""
        text = form % (facility, client, message)
        if facility == "FAIL":
            reason = message.partition(" (after ")[0]  # a time follows
            self._failures.log(level, reason, text)
        else:
            self._log.log(level, "%s", text)
