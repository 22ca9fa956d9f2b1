"""Spans for OpenTelemetry (OTLP over HTTP), if `QUERYABLE_OTLP_ENDPOINT` is set.

A span is the part of a request that one instance handles, as in `backend/telemetry/tracing.py`,
with the same ids as in the log lines. The packages are the extra [otlp]. A thread of the SDK sends
spans in batches; if the collector is slow or away, it drops them, and requests do not wait.
"""

from __future__ import annotations

import logging
import threading
import time
from importlib.metadata import version
from typing import Any

from backend.telemetry.latencies import Labels
from backend.telemetry.tracing import Trace
from model.machine.extras import how_to_install
from model.problems import ConfigurationError

_SAMPLED = 0x01
_MAX_QUEUED = 4096
_DELAY_MS = 1000.0
_TIMEOUT_S = 5.0
_SHUTDOWN_S = 1.0


class Spans:
    """Sends spans to a collector. `record` is for the event loop."""

    def __init__(self, endpoint: str, instance: str, application: str, ratio: float) -> None:
        """`endpoint`: of the collector, such as http://127.0.0.1:4318. `ratio`: the share of traces
        that are sent, the same traces on all instances. Raises ConfigurationError without the
        packages."""
        try:
            from opentelemetry import trace as api
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import ReadableSpan
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise ConfigurationError(
                f"QUERYABLE_OTLP_ENDPOINT needs {error.name}. {how_to_install('otlp')}"
            ) from None
        self._api: Any = api
        self._span = ReadableSpan
        self._below = int(ratio * (1 << 64))
        self._resource = Resource(
            {
                "service.name": "queryable-topics",
                "service.namespace": application,
                "service.instance.id": instance,
                "service.version": version("queryable-topics"),
            }
        )
        # it logs each failure with its stack trace
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=_TIMEOUT_S)
        self._processor: Any = BatchSpanProcessor(
            self._exporter,
            max_queue_size=_MAX_QUEUED,
            schedule_delay_millis=_DELAY_MS,
        )

    def is_sampled(self, trace: Trace) -> bool:
        """Whether the trace is sent: its sender wants it, and it is in the ratio."""
        return bool(int(trace.flags, 16) & _SAMPLED) and int(trace.trace_id[16:], 16) < self._below

    def record(self, trace: Trace, method: str, labels: Labels, seconds: float) -> None:
        """Send the span of a request that has just ended."""
        if not self.is_sampled(trace):
            return
        api, ended = self._api, time.time_ns()
        flags = api.TraceFlags(_SAMPLED)
        trace_id = int(trace.trace_id, 16)
        parent = None
        if trace.parent_id:
            parent = api.SpanContext(trace_id, int(trace.parent_id, 16), True, flags)
        is_error = labels.status >= 500
        self._processor.on_end(
            self._span(
                f"{method} {labels.route}",
                context=api.SpanContext(trace_id, int(trace.span_id, 16), False, flags),
                parent=parent,
                resource=self._resource,
                attributes={
                    "http.request.method": method,
                    "http.route": labels.route,
                    "http.response.status_code": labels.status,
                    "queryable.view": labels.view,
                    "queryable.role": labels.role,
                },
                kind=api.SpanKind.SERVER,
                status=api.Status(api.StatusCode.ERROR if is_error else api.StatusCode.UNSET),
                start_time=ended - int(seconds * 1e9),
                end_time=ended,
            )
        )

    def shutdown(self) -> None:
        """Send what is left, and stop. Takes no longer than some seconds."""
        # the SDK waits for half a minute, and retries meanwhile
        limit = threading.Timer(_SHUTDOWN_S, self._exporter.shutdown)
        limit.start()
        self._processor.shutdown()
        limit.cancel()


def spans_of(endpoint: str, instance: str, application: str, ratio: float) -> Spans | None:
    """The spans for this endpoint; None if there is no endpoint."""
    return Spans(endpoint, instance, application, ratio) if endpoint else None
