"""Log lines as JSON: one object on one line for each event."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import orjson

from backend.telemetry.tracing import TRACE

REQUESTS = logging.getLogger("backend.requests")
"""One line for each request, if `QUERYABLE_REQUEST_LOG` is on. Its records have `fields`."""

MAX_TEXT = 16_384
"""Characters of a message or a stack trace."""


class JsonFormatter(logging.Formatter):
    """`time` (UTC), `level`, `logger`, `instance` and `message`; `trace_id` and `span_id` of the
    request that it is about; `error`: a stack trace; and the `fields` of the record."""

    def __init__(self, instance: str) -> None:
        super().__init__()
        self._instance = instance

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "instance": self._instance,
            "message": record.getMessage()[:MAX_TEXT],
        }
        trace = TRACE.get()
        if trace is not None:
            line |= {"trace_id": trace.trace_id, "span_id": trace.span_id}
            if trace.parent_id:
                line["parent_id"] = trace.parent_id
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)[-MAX_TEXT:]
        try:
            return orjson.dumps(line).decode()
        except TypeError:  # text with half a surrogate pair
            return orjson.dumps({k: ascii(v) for k, v in line.items()}).decode()


class TextFormatter(logging.Formatter):
    """For people."""

    def __init__(self, instance: str) -> None:
        super().__init__(f"%(asctime)s {instance} %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        fields = getattr(record, "fields", None)
        trace = TRACE.get()
        if fields and trace is not None:
            text += f" trace_id={trace.trace_id}"
        return text


def formatter(kind: str, instance: str) -> logging.Formatter:
    """The formatter for a kind of log lines: "text" or "json"."""
    return JsonFormatter(instance) if kind == "json" else TextFormatter(instance)


def configure(kind: str, instance: str, requests: bool) -> None:
    """Sets up the loggers of this project and of its libraries, to stderr. gunicorn has its own."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(kind, instance))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("backend").setLevel(logging.INFO)
    REQUESTS.setLevel(logging.INFO if requests else logging.WARNING)
    # a stack trace per failed connection; the member thread logs one line instead
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
