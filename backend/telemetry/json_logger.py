"""gunicorn's own log lines, in the same form as the log lines of this project."""

from __future__ import annotations

import logging
from typing import Any

from gunicorn.glogging import Logger

from backend.telemetry.logs import JsonFormatter


class JsonLogger(Logger):  # type: ignore[misc]
    """gunicorn's logger with JSON lines."""

    def setup(self, cfg: Any) -> None:
        """Called by gunicorn when it starts and when it reloads."""
        super().setup(cfg)
        instance = cfg.proc_name.removeprefix("queryable-")
        for handler in logging.getLogger("gunicorn.error").handlers:
            handler.setFormatter(JsonFormatter(instance))
